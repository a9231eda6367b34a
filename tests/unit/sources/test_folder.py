"""What one look finds; files are written the way people and tools write them."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from minikubelet.sources.folder import MAX_SIZE, Look, Request, is_left_out, look
from tests.unit.sources.documents import NODE, pod_document, text_of


def request_of(path: Path, *touched: Path, relist: bool = False) -> Request:
    return Request(str(path), NODE, frozenset(map(str, touched)), relist=relist)


def see(path: Path, before: Look | None = None) -> Look:
    return look(request_of(path), before or Look(), {})


def pods(found: Look) -> list[str]:
    return [
        f"{record.pod.metadata.name}:{record.pod.spec.containers[0].image}"
        for path in sorted(found.files)
        for record in found.files[path].manifest.pods
    ]


def errors(found: Look) -> list[str]:
    return [error for report in found.reports for error in report.errors]


def warnings(found: Look) -> list[str]:
    return [warning for report in found.reports for warning in report.warnings]


def write(path: Path, name: str = "a", image: str = "b:1") -> None:
    path.write_text(text_of(pod_document(name, image)))


def test_all_files_of_a_folder_are_read_whatever_their_extension(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "a")
    write(tmp_path / "b.json", "b")
    write(tmp_path / "c", "c")
    assert pods(see(tmp_path)) == ["a-node1:b:1", "b-node1:b:1", "c-node1:b:1"]


def test_the_path_may_be_a_file(tmp_path: Path) -> None:
    write(tmp_path / "a~", "a")
    assert pods(see(tmp_path / "a~")) == ["a-node1:b:1"]


@pytest.mark.parametrize(
    "name", [".x.yaml.swp", "x.yaml~", "x.yaml.bak", "x.swp", "#x.yaml#", ".x"]
)
def test_B01_B03_backups_and_dot_files_are_left_out_with_a_note(tmp_path: Path, name: str) -> None:
    write(tmp_path / name)
    found = see(tmp_path)
    assert pods(found) == []
    (warning,) = warnings(found)
    assert warning.startswith(f"{tmp_path}/{name} is left out: ")


@pytest.mark.parametrize("name", ["x.yaml", "x", "x#", "x.backup"])
def test_other_names_are_manifests(name: str) -> None:
    assert is_left_out(name) == ""


def test_folders_pipes_and_the_atomic_writer_s_own_entries(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "..2026").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert warnings(see(tmp_path)) == [
        f"{tmp_path}/pipe is left out: it is no regular file",
        f"{tmp_path}/sub is left out: folders in the manifest folder are not entered",
    ]


def test_links_are_followed_and_told(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    write(tmp_path / "real")
    (folder / "link.yaml").symlink_to("../real")
    found = see(folder)
    assert pods(found) == ["a-node1:b:1"]
    assert found.links == (str(folder / "link.yaml"),)


def test_a_file_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml")
    first = see(tmp_path)
    second = see(tmp_path, first)
    path = str(tmp_path / "a.yaml")
    assert second.files[path] is first.files[path]
    third = look(request_of(tmp_path, tmp_path / "a.yaml"), second, {})
    assert third.files[path] is not first.files[path]
    write(tmp_path / "a.yaml", image="b:22")
    assert pods(see(tmp_path, third)) == ["a-node1:b:22"]


def test_a_deleted_file_takes_its_pods_along(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml")
    before = see(tmp_path)
    (tmp_path / "a.yaml").unlink()
    assert pods(see(tmp_path, before)) == []


def test_B05_a_missing_path_is_an_error_and_keeps_what_runs(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    write(folder / "a.yaml")
    before = see(folder)
    folder.rename(tmp_path / "gone")
    found = see(folder, before)
    assert pods(found) == ["a-node1:b:1"]
    assert errors(found) == [
        f"cannot read manifests: {folder} does not exist; create it, it will be picked up"
    ]
    (tmp_path / "gone").rename(folder)
    (folder / "a.yaml").unlink()
    assert pods(see(folder, found)) == []


def test_a_path_below_a_file_is_an_error_too(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    assert errors(see(tmp_path / "f" / "m")) == [
        f"cannot read manifests: {tmp_path}/f/m: Not a directory"
    ]


def test_after_a_restart_a_missing_path_still_keeps_its_stored_pods(tmp_path: Path) -> None:
    folder = str(tmp_path / "m")
    stored = {
        f"{folder}/a.yaml": [pod_document("a")],
        "/elsewhere/b.yaml": [pod_document("b")],
        "http://x/": [pod_document("c")],
    }
    assert pods(look(Request(folder, NODE), Look(), stored)) == ["a-node1:b:1"]


def test_B03_a_file_that_turns_invalid_keeps_its_last_version(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml")
    before = see(tmp_path)
    (tmp_path / "a.yaml").write_text("kind: [Pod")
    found = see(tmp_path, before)
    assert pods(found) == ["a-node1:b:1"]
    assert "cannot read YAML" in errors(found)[0]


def test_after_a_restart_an_invalid_file_keeps_its_stored_version(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("kind: [Pod")
    found = look(request_of(tmp_path), Look(), {str(path): [pod_document("a")]})
    assert pods(found) == ["a-node1:b:1"]
    assert found.reports[0].last_good


def test_B03_a_file_that_is_being_written_waits(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    write(path)
    before = see(tmp_path)
    with path.open("w") as stream:
        stream.write(text_of(pod_document("a", "b:2")))
        stream.flush()
        during = look(request_of(tmp_path, path), before, {})
        assert pods(during) == ["a-node1:b:1"]
        assert errors(during) == []
    assert pods(look(request_of(tmp_path, path), during, {})) == ["a-node1:b:2"]


def test_a_file_that_stays_open_for_writing_is_read_by_the_second_relist(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    with path.open("w") as stream:
        stream.write(text_of(pod_document("a")))
        stream.flush()
        first = look(request_of(tmp_path, relist=True), Look(), {})
        assert pods(first) == []
        assert warnings(first) == [f"{path} is still being written"]
        second = look(request_of(tmp_path, relist=True), first, {})
        assert pods(second) == ["a-node1:b:1"]


def test_a_file_that_cannot_be_read_keeps_its_pods(tmp_path: Path) -> None:
    write(tmp_path / "real")
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "a.yaml").symlink_to("../real")
    before = see(folder)
    (tmp_path / "real").unlink()
    found = see(folder, before)
    assert pods(found) == ["a-node1:b:1"]
    assert errors(found) == [f"{folder}/a.yaml: cannot read manifest: {os.strerror(errno.ENOENT)}"]


@pytest.mark.parametrize(("extra", "fault"), [(0, False), (1, True)])
def test_a_manifest_has_a_limit(tmp_path: Path, extra: int, fault: bool) -> None:
    text = text_of(pod_document("a"))
    path = tmp_path / "a.yaml"
    path.write_text(text + "#" * (MAX_SIZE - len(text) + extra))
    found = see(tmp_path)
    expected = [f"{path}: cannot read manifest: it is larger than 10 MiB"] if fault else []
    assert errors(found) == expected


def test_an_empty_file_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").touch()
    found = see(tmp_path)
    assert (pods(found), errors(found)) == ([], [])


def test_a_look_never_changes_what_was_seen_before(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml")
    before = see(tmp_path)
    copy = replace(before, files=dict(before.files))
    (tmp_path / "a.yaml").unlink()
    see(tmp_path, before)
    assert before == copy


def test_a_broken_file_in_the_place_of_the_folder_stops_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    write(folder / "a.yaml")
    seen = see(folder)
    folder.rename(tmp_path / "away")
    folder.write_text("no pod")
    broken = see(folder, seen)
    assert pods(broken) == ["a-node1:b:1"]
    assert len(errors(broken)) == 1
    assert pods(see(folder, broken)) == ["a-node1:b:1"]
    write(folder, "c")
    assert pods(see(folder, broken)) == ["c-node1:b:1"]


def test_a_name_that_is_no_text_is_left_out(tmp_path: Path) -> None:
    write(Path(os.fsdecode(os.fsencode(tmp_path / "a") + b"\xff.yaml")))
    found = see(tmp_path)
    assert pods(found) == []
    assert warnings(found) == [
        f"{tmp_path}/a\\xff.yaml is left out: its name is no printable UTF-8"
    ]
