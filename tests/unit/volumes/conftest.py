"""A root dir whose mounts are taken away whatever a test leaves behind."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikubelet.host import mounts


@pytest.fixture
def root_dir(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "root"
    root.mkdir()
    yield root
    for point in mounts.mounts_below(str(tmp_path)):
        mounts.unmount(point, detach=True)


@pytest.fixture
def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts")
