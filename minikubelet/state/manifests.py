"""The newest valid documents of each manifest file and URL, for the day they turn invalid.

Blocking on purpose: the sources call it in worker threads.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minikubelet.state.directory import (
    VERSION,
    checked,
    make_private,
    remove_unfinished,
    set_aside,
    write_whole,
)

SUBJECT = "manifests"


class ManifestStore:
    """One file per manifest location, below the state directory."""

    def __init__(self, root: Path) -> None:
        self._folder = root / SUBJECT

    def load(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return everything stored; a broken file counts as nothing."""
        found = {}
        remove_unfinished(self._folder)
        for path in sorted(self._folder.glob("*.json")):
            try:
                stored = checked(json.loads(path.read_text(encoding="utf-8")))
                found[str(stored["location"])] = list(stored["documents"])
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                set_aside(path)
        return found

    def save(self, location: str, documents: Sequence[Mapping[str, Any]]) -> None:
        """Replace what is stored for a path or URL."""
        make_private(self._folder)
        path = self._path(location)
        content = {"version": VERSION, "location": location, "documents": list(documents)}
        write_whole(path, json.dumps(content, indent=1))

    def forget(self, location: str) -> None:
        """Drop a path or URL."""
        self._path(location).unlink(missing_ok=True)

    def _path(self, location: str) -> Path:
        return self._folder / f"{hashlib.sha256(location.encode()).hexdigest()[:32]}.json"
