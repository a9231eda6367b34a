"""Versioned JSON documents in folders: written whole by rename, read leniently.

Writes of one document never overtake each other; a document that can't be read is set aside beside
its name (`.bad`) and reported, it never stops the agent.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import structlog

VERSION = 1
_UNFINISHED = ".tmp"


class StateDirectory:
    """Documents by subject (a folder) and name (a file)."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._locks: dict[tuple[str, str], anyio.Lock] = {}
        self._log = structlog.get_logger("state")

    @property
    def root(self) -> Path:
        """The folder, 0700."""
        return self._root

    async def save(self, subject: str, name: str, document: Mapping[str, Any]) -> None:
        """Replace one document. Raises OSError when the disk refuses."""
        async with self._lock(subject, name):
            await anyio.to_thread.run_sync(self._write, subject, name, document)

    async def delete(self, subject: str, name: str) -> None:
        """Remove one document; it may be absent."""
        async with self._lock(subject, name):
            path = self._path(subject, name)
            await anyio.to_thread.run_sync(lambda: path.unlink(missing_ok=True))
        self._locks.pop((subject, name), None)

    async def load(self, subject: str) -> dict[str, dict[str, Any]]:
        """Return all documents of a subject by name."""
        return await anyio.to_thread.run_sync(self._read_all, subject)

    def _lock(self, subject: str, name: str) -> anyio.Lock:
        return self._locks.setdefault((subject, name), anyio.Lock())

    def _path(self, subject: str, name: str) -> Path:
        return self._root / subject / f"{name}.json"

    def _write(self, subject: str, name: str, document: Mapping[str, Any]) -> None:
        path = self._path(subject, name)
        make_private(path.parent)
        # Indented, it would take ten times as long: only the plain form is encoded in C.
        text = json.dumps({"version": VERSION} | dict(document))
        write_whole(path, text)

    def _read_all(self, subject: str) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        remove_unfinished(self._root / subject)
        for path in sorted((self._root / subject).glob("*.json")):
            try:
                document = checked(json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
                self._log.warning(
                    "cannot read a state file, it is set aside", path=str(path), error=str(error)
                )
                set_aside(path)
                continue
            found[path.stem] = document
        return found


def make_private(folder: Path) -> None:
    """Make a folder of the state directory, and that itself, for the agent's user alone."""
    if folder.is_dir():
        return
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.parent.chmod(0o700)
    folder.mkdir(mode=0o700, exist_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Replace a file by rename; what can't be finished is taken away. Raises OSError."""
    temporary = path.with_suffix(_UNFINISHED)
    try:
        temporary.touch(mode=0o600)
        temporary.write_text(text, encoding="utf-8")
        temporary.rename(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def remove_unfinished(folder: Path) -> None:
    """Remove what an agent that was killed while writing has left."""
    for path in folder.glob(f"*{_UNFINISHED}"):
        with suppress(OSError):
            path.unlink()


def set_aside(path: Path) -> None:
    """Give a file that can't be read another name, so that it can be looked at; if it can be."""
    with suppress(OSError):
        path.rename(path.with_suffix(".bad"))


def checked(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document of a version that is known. Raises ValueError, KeyError, TypeError."""
    if document["version"] > VERSION:
        raise ValueError(f"version {document['version']} is newer than {VERSION}")
    return document
