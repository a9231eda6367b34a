"""The file source on real folders and real events: nothing here sleeps, every wait is for a set."""

import os
import resource
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from inotify_simple import INotify

from minikubelet.sources.file import FileSource
from minikubelet.sources.reports import LastGood, ManifestReport, MemoryLastGood
from minikubelet.sources.updates import SourceSet
from tests.unit.sources.documents import NODE, pod_document, text_of

pytestmark = pytest.mark.anyio

_DEADLINE = 10
_NEVER = 3600.0
"""The relist does not help in these tests, so what arrives came by an event."""


class Running:
    """A source that runs, and the sets it sent."""

    def __init__(self, source: FileSource, problems: list[ManifestReport]) -> None:
        self.source = source
        self.problems = problems
        self._send, self._receive = anyio.create_memory_object_stream[SourceSet](100)

    async def send(self, delivered: SourceSet) -> None:
        await self._send.send(delivered)

    async def next(self) -> list[str]:
        with anyio.fail_after(_DEADLINE):
            delivered = await self._receive.receive()
        return [
            f"{r.pod.metadata.name.removesuffix('-' + NODE)}:{r.pod.spec.containers[0].image}"
            for r in delivered.pods
        ]

    def nothing_sent(self) -> bool:
        return self._receive.statistics().current_buffer_used == 0

    async def problem(self) -> ManifestReport:
        with anyio.fail_after(_DEADLINE):
            while not self.problems:
                await anyio.lowlevel.checkpoint()
        return self.problems.pop(0)

    def close(self) -> None:
        self._send.close()
        self._receive.close()


@asynccontextmanager
async def running(
    path: Path, store: LastGood | None = None, frequency: float = _NEVER
) -> AsyncIterator[Running]:
    problems: list[ManifestReport] = []
    source = FileSource(
        str(path),
        NODE,
        store or MemoryLastGood(),
        check_frequency=frequency,
        on_problem=problems.append,
    )
    harness = Running(source, problems)
    try:
        async with anyio.create_task_group() as group:
            await group.start(source.run, harness.send)
            yield harness
            group.cancel_scope.cancel()
    finally:
        harness.close()


def write(path: Path, name: str = "a", image: str = "b:1", **spec: Any) -> None:
    path.write_text(text_of(pod_document(name, image, **spec)))


async def test_the_set_is_sent_at_once_even_when_it_is_empty(tmp_path: Path) -> None:
    async with running(tmp_path) as source:
        assert await source.next() == []


async def test_writing_editing_and_deleting_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    async with running(tmp_path) as source:
        assert await source.next() == []
        write(path)
        assert await source.next() == ["a:b:1"]
        write(path, image="b:2")
        assert await source.next() == ["a:b:2"]
        path.unlink()
        assert await source.next() == []


async def test_B03_a_rename_over_the_old_file_is_an_update(tmp_path: Path) -> None:
    """As vim and every careful tool do it."""
    write(tmp_path / "a.yaml")
    async with running(tmp_path) as source:
        assert await source.next() == ["a:b:1"]
        (tmp_path / ".a.yaml.swp").write_bytes(b"\0")
        write(tmp_path / ".new", image="b:2")
        (tmp_path / ".new").rename(tmp_path / "a.yaml")
        assert await source.next() == ["a:b:2"]


async def test_B03_a_half_written_file_never_stops_the_running_pod(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    write(path)
    async with running(tmp_path) as source:
        assert await source.next() == ["a:b:1"]
        whole = text_of(pod_document("a", "b:2"))
        with path.open("w") as stream:
            stream.write(whole[: len(whole) // 2])
            stream.flush()
            write(tmp_path / "b.yaml", "b")
            assert await source.next() == ["a:b:1", "b:b:1"]
            stream.write(whole[len(whole) // 2 :])
        assert await source.next() == ["a:b:2", "b:b:1"]


async def test_an_invalid_edit_is_told_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    write(path)
    async with running(tmp_path) as source:
        assert await source.next() == ["a:b:1"]
        write(path, dnsPolicy="x")
        report = await source.problem()
        assert report.last_good
        assert report.pods == ("a-node1_default",)
        assert "spec.dnsPolicy: Unsupported value" in report.errors[0]
        assert source.nothing_sent()
        write(path)
        assert (await source.problem()).errors == ()
        assert source.nothing_sent()


async def test_a_file_that_takes_long_to_read_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minikubelet.sources.file._LOOK_SECONDS", 0.02)
    write(tmp_path / "a.yaml")
    (tmp_path / "big.yaml").write_text(f"a: [{'x,' * 20_000}]")
    async with running(tmp_path, frequency=0.05) as source:
        assert await source.next() == ["a:b:1"]


async def test_a_problem_is_told_once(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml.bak")
    async with running(tmp_path) as source:
        assert await source.next() == []
        assert (await source.problem()).location == str(tmp_path / "a.yaml.bak")
        write(tmp_path / "b.yaml", "b")
        assert await source.next() == ["b:b:1"]
        assert source.problems == []
        assert len(source.source.reports()) == 2


async def test_B05_a_missing_path_is_told_once_and_picked_up_when_it_appears(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "x" / "m"
    async with running(folder) as source:
        assert await source.next() == []
        assert "does not exist" in (await source.problem()).errors[0]
        (tmp_path / "x").mkdir()
        folder.mkdir()
        write(folder / "a.yaml")
        assert await source.next() == ["a:b:1"]
        assert all(not report.errors for report in source.source.reports())


async def test_a_folder_that_is_moved_away_keeps_its_pods(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    write(folder / "a.yaml")
    async with running(folder) as source:
        assert await source.next() == ["a:b:1"]
        folder.rename(tmp_path / "away")
        assert "does not exist" in (await source.problem()).errors[0]
        assert source.nothing_sent()
        folder.mkdir()
        assert await source.next() == []


async def test_a_data_link_that_is_swapped_is_followed(tmp_path: Path) -> None:
    """As the kubelet's atomic writer and ConfigMap sidecars do it."""
    for version in ("1", "2"):
        (tmp_path / f"..v{version}").mkdir()
        write(tmp_path / f"..v{version}" / "a.yaml", image=f"b:{version}")
    (tmp_path / "..data").symlink_to("..v1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    async with running(tmp_path) as source:
        assert await source.next() == ["a:b:1"]
        (tmp_path / "..tmp").symlink_to("..v2")
        (tmp_path / "..tmp").rename(tmp_path / "..data")
        assert await source.next() == ["a:b:2"]


async def test_the_target_of_a_link_is_watched_where_it_is(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "m", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    write(elsewhere / "real.yaml")
    async with running(folder) as source:
        assert await source.next() == []
        (folder / "a.yaml").symlink_to(elsewhere / "real.yaml")
        assert await source.next() == ["a:b:1"]
        write(elsewhere / "real.yaml", image="b:2")
        assert await source.next() == ["a:b:2"]


async def test_the_path_itself_may_be_a_link(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "a.yaml", image=f"b:{name}")
    link = tmp_path / "m"
    link.symlink_to("one")
    async with running(link) as source:
        assert await source.next() == ["a:b:one"]
        (tmp_path / "new").symlink_to("two")
        (tmp_path / "new").rename(link)
        assert await source.next() == ["a:b:two"]


async def test_a_single_file_is_watched(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    write(path)
    async with running(path) as source:
        assert await source.next() == ["a:b:1"]
        write(tmp_path / "new", image="b:2")
        (tmp_path / "new").rename(path)
        assert await source.next() == ["a:b:2"]
        path.unlink()
        assert "does not exist" in (await source.problem()).errors[0]
        assert source.nothing_sent()


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """No file can be opened inside."""
    INotify().close()  # load what it needs while that is possible
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_without_inotify_the_relist_does_the_work(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        with no_descriptor_left():
            source = await stack.enter_async_context(running(tmp_path, frequency=0.01))
        write(tmp_path / "a.yaml")
        while await source.next() != ["a:b:1"]:
            pass
        errors = [error for report in source.source.reports() for error in report.errors]
        assert "cannot watch manifests: inotify: Too many open files" in errors[0]


class TestLastGood:
    async def test_it_is_kept_by_path_and_forgotten_with_the_file(self, tmp_path: Path) -> None:
        store = MemoryLastGood({"http://x/": [pod_document("u")]})
        path = tmp_path / "a.yaml"
        async with running(tmp_path, store) as source:
            assert await source.next() == []
            write(path)
            await source.next()
            path.unlink()
            await source.next()
            write(tmp_path / "b.yaml", "b")
            await source.next()
            write(tmp_path / "c.yaml", "c")
            await source.next()
        assert "http://x/" in store.documents
        assert str(path) not in store.documents
        assert store.documents[str(tmp_path / "b.yaml")] == (pod_document("b"),)

    async def test_an_invalid_file_runs_its_last_version_after_a_restart(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "a.yaml"
        path.write_text("kind: [Pod")
        store = MemoryLastGood({str(path): [pod_document("a")]})
        async with running(tmp_path, store) as source:
            assert await source.next() == ["a:b:1"]
            assert (await source.problem()).last_good

    async def test_a_file_deleted_meanwhile_does_not_run(self, tmp_path: Path) -> None:
        store = MemoryLastGood({str(tmp_path / "a.yaml"): [pod_document("a")]})
        async with running(tmp_path, store) as source:
            assert await source.next() == []

    async def test_a_store_that_fails_costs_no_pod(self, tmp_path: Path) -> None:
        class Full(MemoryLastGood):
            def load(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
                raise OSError(13, "Permission denied")

            def save(self, location: str, documents: Sequence[Mapping[str, Any]]) -> None:
                raise OSError(28, "No space left on device")

        write(tmp_path / "a.yaml")
        async with running(tmp_path, Full()) as source:
            assert await source.next() == ["a:b:1"]
            assert "cannot read the last good manifests" in (await source.problem()).errors[0]
            write(tmp_path / "b.yaml", "b")
            assert await source.next() == ["a:b:1", "b:b:1"]
            assert "No space left" in (await source.problem()).errors[0]
