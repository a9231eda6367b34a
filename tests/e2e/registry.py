"""A registry on loopback that has an image under any name: for pulls without any network.

Speaks as much of the OCI distribution API as a pull needs. The images are the busybox that
hack/images made, each with a label of its own, so that none is the same as another or as what is
loaded already. It counts, can be slow, and can say no.
"""

import base64
import hashlib
import json
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HACK = Path(__file__).parent.parent.parent / "hack"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def _open_gate() -> threading.Event:
    gate = threading.Event()
    gate.set()
    return gate


@dataclass
class Registry:
    """What it does and what it was asked. `missing` names repositories that aren't there."""

    port: int = 0
    host: str = "127.0.0.1"
    login: str = ""
    """`user:password` that everybody needs; empty: nobody does."""
    missing: set[str] = field(default_factory=set)
    delay: float = 0.0
    gate: threading.Event = field(default_factory=_open_gate)
    """While it isn't set, blobs are held back, a minute at most."""
    pulls: list[str] = field(default_factory=list)
    """Repositories whose manifest was asked for by name, in order."""
    at_once: int = 0
    """How many blobs were being sent at the same time, at most."""

    def image(self, name: str, tag: str = "1") -> str:
        return f"{self.address}/{name}:{tag}"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def trust(self, containerd_folder: Path) -> None:
        """Tell a containerd that this registry speaks plain HTTP."""
        folder = containerd_folder / "certs.d" / self.address
        folder.mkdir(parents=True, exist_ok=True)
        address = f"http://{self.address}"
        text = f'server = "{address}"\n[host."{address}"]\ncapabilities = ["pull", "resolve"]\n'
        (folder / "hosts.toml").write_text(text)


class _Handler(BaseHTTPRequestHandler):
    """Answers from `blobs`; `base` is the digest of the image that all others are made from."""

    registry: Registry
    blobs: dict[str, bytes]
    base: str
    lock = threading.Lock()
    sending: list[int]

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        if not self._may():
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="private"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        parts = self.path.split("?")[0].strip("/").split("/")
        if parts == ["v2"]:
            self._send(b"{}", "application/json", body=body)
            return
        name, kind, reference = "/".join(parts[1:-2]), parts[-2], parts[-1]
        if kind == "manifests" and not reference.startswith("sha256:"):
            if not body:
                self.registry.pulls.append(name)
            reference = _labelled(self.blobs, self.base, self.registry.image(name))
        data = self.blobs.get(reference)
        if data is None or name in self.registry.missing:
            self.send_error(404)
            return
        if kind == "blobs":
            self._wait()
        content = MANIFEST if kind == "manifests" else "application/octet-stream"
        self._send(data, content, body=body, digest=reference)

    def _may(self) -> bool:
        login = self.registry.login
        wanted = f"Basic {base64.b64encode(login.encode()).decode()}"
        return not login or self.headers.get("Authorization") == wanted

    def _wait(self) -> None:
        with self.lock:
            self.sending.append(1)
            self.registry.at_once = max(self.registry.at_once, len(self.sending))
        time.sleep(self.registry.delay)
        self.registry.gate.wait(60)
        with self.lock:
            self.sending.pop()

    def _send(self, data: bytes, content: str, *, body: bool, digest: str = "") -> None:
        self.send_response(200)
        self.send_header("Content-Type", content)
        self.send_header("Content-Length", str(len(data)))
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()
        if body:
            self.wfile.write(data)


@contextmanager
def a_registry(host: str = "127.0.0.1", login: str = "") -> Iterator[Registry]:
    """Serve until the end of the block."""
    blobs, base = _contents()
    registry = Registry(host=host, login=login)
    parts = {"registry": registry, "blobs": blobs, "base": base, "sending": []}
    server = ThreadingHTTPServer((host, 0), type("Handler", (_Handler,), parts))
    registry.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield registry
    finally:
        registry.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _labelled(blobs: dict[str, bytes], base: str, label: str) -> str:
    """Make the base image with a label, among the blobs; return its manifest's digest."""
    manifest = json.loads(blobs[base])
    config = json.loads(blobs[manifest["config"]["digest"]])
    config["config"]["Labels"] = {"pulled-as": label}
    data = json.dumps(config).encode()
    manifest["config"] |= {"digest": _store(blobs, data), "size": len(data)}
    return _store(blobs, json.dumps(manifest).encode())


def _store(blobs: dict[str, bytes], data: bytes) -> str:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    blobs[digest] = data
    return digest


def _contents() -> tuple[dict[str, bytes], str]:
    """Return all blobs of the archive and the digest of its first image's manifest."""
    built = subprocess.run(
        [str(HACK / "images"), "build"], capture_output=True, text=True, check=True
    )
    archive = Path(built.stdout.strip().splitlines()[-1]) / "busybox.tar"
    blobs: dict[str, bytes] = {}
    index: dict[str, list[dict[str, str]]] = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            stream = tar.extractfile(member)
            if stream is None:
                continue
            data = stream.read()
            name = member.name.removeprefix("./")
            if name == "index.json":
                index = json.loads(data)
            elif name.startswith("blobs/sha256/"):
                blobs[f"sha256:{name.rpartition('/')[2]}"] = data
    return blobs, index["manifests"][0]["digest"]
