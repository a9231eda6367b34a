"""The files of a node's certificate in --cert-dir, as a kubelet lays them out. Blocking.

`NAME-<date>.pem` (0600) holds certificates and key, the link `NAME-current.pem` names the one in
use and is switched by rename, so that a reader sees the old pair or the new one. What can't be read
counts as missing and is told. Source: client-go util/certificate/certificate_store.go.
"""

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from minikubelet.node.certificates import Held, is_valid
from minikubelet.node.certificates_keys import BadCertificate, joined, read_files, read_pair

_PRIVATE = 0o600
_FOLDER = 0o755


@dataclass(frozen=True, slots=True)
class PairFiles:
    """Where a certificate and its key are; both may be in one file."""

    cert_file: str
    key_file: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The pair in use, if there is one; `problem` names a file that is there and of no use."""

    held: Held | None = None
    files: PairFiles | None = None
    problem: str = ""


class CertificateStore:
    """One kind of certificate (`kubelet-client`, `kubelet-server`) in a folder.

    `fallback` is a pair of other files that counts until the first one is stored here.
    """

    def __init__(self, folder: str, name: str, fallback: PairFiles | None = None) -> None:
        self._folder = Path(folder)
        self._name = name
        self._fallback = fallback

    @property
    def current(self) -> str:
        """The path that always leads to the newest pair."""
        return str(self._folder / f"{self._name}-current.pem")

    @property
    def files(self) -> PairFiles:
        """The same as a pair."""
        return PairFiles(self.current, self.current)

    def load(self, now: float) -> Loaded:
        """Return the pair in use: the first of those that count at `now` (Unix seconds)."""
        plain = PairFiles(*(str(self._folder / f"{self._name}.{end}") for end in ("crt", "key")))
        found: list[Loaded] = []
        problem = ""
        for files in (self.files, self._fallback, plain):
            if files is None or not os.path.lexists(files.cert_file):
                continue
            try:
                found.append(Loaded(read_files(files.cert_file, files.key_file), files))
            except (OSError, BadCertificate) as error:
                problem = problem or f"cannot use the certificate in {files.cert_file}: {error}"
        valid = [loaded for loaded in found if is_valid(loaded.held, now)]
        best = next(iter([*valid, *found]), Loaded())
        return replace(best, problem=problem)

    def check(self) -> None:
        """Make sure that a pair can be stored, before one is asked for. Raises OSError."""
        self._folder.mkdir(_FOLDER, parents=True, exist_ok=True)
        probe = self._folder / f"{self._name}.part"
        _write(probe, b"")
        probe.unlink()

    def update(self, certificate: bytes, key: bytes, wall_ns: int) -> Held:
        """Store a pair and switch to it. Raises OSError, BadCertificate (then nothing changed)."""
        text = joined(certificate, key)
        held = read_pair(certificate, key)
        stamp = datetime.fromtimestamp(wall_ns / 1e9, tz=UTC).strftime("%Y-%m-%d-%H-%M-%S")
        path = self._folder / f"{self._name}-{stamp}.pem"
        self._folder.mkdir(_FOLDER, parents=True, exist_ok=True)
        # A file of that very second may be the one in use: it is replaced whole, too.
        part = self._folder / f"{self._name}.part"
        _write(part, text)
        part.rename(path)
        link = self._folder / f"{self._name}-updated.pem"
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        link.rename(self.current)
        return held

    # The key of a request that outlives the agent.

    def pending_key(self) -> bytes:
        """Return the key of a request under way; empty when there is none. Raises OSError."""
        try:
            return self._pending.read_bytes()
        except FileNotFoundError:
            return b""

    def keep_pending(self, key: bytes) -> None:
        """Remember the key of a request. Raises OSError."""
        self._folder.mkdir(_FOLDER, parents=True, exist_ok=True)
        part = self._folder / f"{self._name}.part"
        _write(part, key)
        part.rename(self._pending)

    def drop_pending(self) -> None:
        """Forget it; a file that can't be removed is used again."""
        with suppress(OSError):
            self._pending.unlink(missing_ok=True)

    @property
    def _pending(self) -> Path:
        return self._folder / f"{self._name}.key.tmp"


def _write(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, from its first moment on."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file:
        file.write(data)
