import os
import stat
from pathlib import Path

import pytest

from minikubelet.volumes import atomic_writer
from minikubelet.volumes.atomic_writer import write
from minikubelet.volumes.payload import FileData, Payload


def payload(**files: str) -> Payload:
    return {name.replace("__", "/"): FileData(text.encode(), 0o640) for name, text in files.items()}


def shown(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".."):
            continue
        files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
        found |= {str(file.relative_to(folder)): file.read_text() for file in files}
    return found


def test_names_lead_through_one_link(tmp_path: Path) -> None:
    assert write(tmp_path, payload(a="1", d__x="2", d__e__y="3"))
    assert shown(tmp_path) == {"a": "1", "d/x": "2", "d/e/y": "3"}
    assert str((tmp_path / "a").readlink()) == "..data/a"
    assert str((tmp_path / "d").readlink()) == "..data/d"
    data = str((tmp_path / "..data").readlink())
    assert data.startswith("..20")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / data).stat().st_mode) == 0o755


def test_equal_content_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path, payload(a="1"))
    before = str((tmp_path / "..data").readlink())
    assert not write(tmp_path, payload(a="1"))
    assert str((tmp_path / "..data").readlink()) == before


def test_a_new_set_replaces_the_old_one_whole(tmp_path: Path) -> None:
    write(tmp_path, payload(a="1", gone="x", d__x="2"))
    old = str((tmp_path / "..data").readlink())
    assert write(tmp_path, payload(a="2", new="y"))
    assert shown(tmp_path) == {"a": "2", "new": "y"}
    assert not (tmp_path / old).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["..data", str((tmp_path / "..data").readlink()), "a", "new"]
    )


def test_who_has_the_old_set_open_keeps_it(tmp_path: Path) -> None:
    write(tmp_path, payload(a="1", b="1"))
    with (tmp_path / "a").open() as held:
        write(tmp_path, payload(a="2", b="2"))
        assert held.read() == "1"
    assert shown(tmp_path) == {"a": "2", "b": "2"}


@pytest.mark.parametrize("step", ["rename", "symlink_to"])
def test_a_crash_between_two_steps_leaves_one_set_or_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write(tmp_path, payload(a="1"))

    def crash(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, step, crash)
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path, payload(a="2"))
    assert shown(tmp_path) == {"a": "1"}
    assert write(tmp_path, payload(a="3"))
    assert shown(tmp_path) == {"a": "3"}
    folders = [entry for entry in os.scandir(tmp_path) if entry.is_dir(follow_symlinks=False)]
    assert len(folders) == 1


def test_an_empty_volume_can_be_filled_and_emptied(tmp_path: Path) -> None:
    assert write(tmp_path, {})
    assert shown(tmp_path) == {}
    write(tmp_path, payload(a="1"))
    write(tmp_path, {})
    assert shown(tmp_path) == {}
    assert not (tmp_path / "a").is_symlink()


def test_the_owner_is_set_before_anybody_sees_the_files(tmp_path: Path) -> None:
    seen: list[bool] = []

    def own(fresh: Path) -> None:
        seen.append((tmp_path / "..data").exists())
        assert (fresh / "a").read_text() == "1"

    write(tmp_path, payload(a="1"), own)
    assert seen == [False]
    assert atomic_writer.DATA == "..data"


def test_a_failure_says_the_same_each_time_and_leaves_nothing(tmp_path: Path) -> None:
    payload = {"good": FileData(b"1", 0o644), "a" * 300: FileData(b"2", 0o644)}
    texts = set()
    for _ in range(3):
        with pytest.raises(OSError, match="File name too long") as caught:
            write(tmp_path, payload)
        texts.add(str(caught.value))
    assert len(texts) == 1
    assert list(tmp_path.iterdir()) == []
