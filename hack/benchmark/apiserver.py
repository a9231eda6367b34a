"""The control plane of a run and what its watch and its audit log say. Blocking, in threads."""

import http.client
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmark.room import NODE, BenchError, Room

PODS = "/api/v1/namespaces/default/pods"
_CREATORS = 8
_SECONDS = 30.0
_OK = (200, 201, 202, 404)


class Apiserver:
    """hack/cluster's control plane, with an audit log."""

    def __init__(self, room: Room) -> None:
        self.folder = room.folder / "cluster"
        self._hack = room.hack / "cluster"
        self._run("start", "--audit")
        self.address = (self.folder / "address").read_text().strip()
        pki = self.folder / "pki"
        self._tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._tls.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))
        self._local = threading.local()
        self._creators = ThreadPoolExecutor(_CREATORS)

    @property
    def inside(self) -> list[str]:
        """What a command is called through to be in the cluster's network."""
        return ["nsenter", f"--net={self.folder}/netns", "--"]

    @property
    def ca(self) -> Path:
        """The authority of all certificates."""
        return self.folder / "pki" / "ca.crt"

    def kubeconfig(self) -> Path:
        """Return a kubelet's kubeconfig of the node."""
        return Path(self._run("kubeconfig", NODE))

    def _run(self, action: str, *arguments: str) -> str:
        argv = [str(self._hack), action, "--dir", str(self.folder), *arguments]
        done = subprocess.run(argv, check=False, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise BenchError(f"{' '.join(argv)} failed")
        return done.stdout.strip()

    def connection(self, seconds: float = _SECONDS) -> http.client.HTTPSConnection:
        """Return a new connection of the administrator."""
        return http.client.HTTPSConnection(self.address, 6443, context=self._tls, timeout=seconds)

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Make a request; what isn't there is empty."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self.connection()
        headers = {"Content-Type": "application/json"}
        text = json.dumps(body) if body is not None else None
        try:
            connection.request(method, path, text, headers)
            answer = connection.getresponse()
        except (ConnectionError, ssl.SSLEOFError):  # what is idle for a while is closed
            connection.close()
            connection.request(method, path, text, headers)
            answer = connection.getresponse()
        found = answer.read()
        if answer.status not in _OK:
            raise BenchError(f"{method} {path}: {answer.status} {found[:300]!r}")
        document: dict[str, Any] = (
            json.loads(found) if answer.status != http.HTTPStatus.NOT_FOUND else {}
        )
        return document

    def create(self, pods: Sequence[Mapping[str, Any]]) -> None:
        """Create pods, several at a time."""
        list(self._creators.map(lambda pod: self.ask("POST", PODS, pod), pods))

    def node_is_ready(self) -> bool:
        """Tell whether the node is Ready."""
        status = self.ask("GET", f"/api/v1/nodes/{NODE}").get("status", {})
        return any(
            c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ())
        )

    def audit(self) -> list[dict[str, Any]]:
        """Return every request of the node so far."""
        path = self.folder / "audit.log"
        lines = path.read_text().splitlines() if path.exists() else []
        events = [json.loads(line) for line in lines if line.endswith("}")]
        return [e for e in events if e["user"]["username"] == f"system:node:{NODE}"]


class PodWatch:
    """Follows all pods in a thread: when each was first seen Ready, and gone. Monotonic seconds."""

    def __init__(self, apiserver: Apiserver) -> None:
        self.ready: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self._news = threading.Condition()
        self._apiserver = apiserver
        version = apiserver.ask("GET", PODS)["metadata"]["resourceVersion"]
        thread = threading.Thread(target=self._follow, args=(version,), daemon=True)
        thread.start()

    def _follow(self, version: str) -> None:
        """Watch for ever: the server ends a watch whose reader was too slow for its buffer."""
        while True:
            connection = self._apiserver.connection(3600)
            path = f"{PODS}?watch=1&resourceVersion={version}&timeoutSeconds=7200"
            connection.request("GET", path)
            answer = connection.getresponse()
            while line := answer.readline():
                now = time.monotonic()
                event = json.loads(line)
                self._take(event["type"], event["object"], now)
                version = event["object"]["metadata"]["resourceVersion"]
            connection.close()

    def _take(self, kind: str, pod: Mapping[str, Any], now: float) -> None:
        name = pod["metadata"]["name"]
        conditions = pod.get("status", {}).get("conditions", ())
        is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        with self._news:
            if kind == "DELETED":
                self.gone[name] = now
            elif is_ready:
                self.ready.setdefault(name, now)
            self._news.notify_all()

    def ready_at(self, names: Collection[str], seconds: float) -> float:
        """Wait until all pods were seen Ready; return when the last one was."""
        return self._all(self.ready, names, seconds, "Ready")

    def gone_at(self, names: Collection[str], seconds: float) -> float:
        """Wait until all pods are gone; return when the last one was."""
        return self._all(self.gone, names, seconds, "gone")

    def _all(
        self, seen: Mapping[str, float], names: Collection[str], seconds: float, word: str
    ) -> float:
        with self._news:
            if not self._news.wait_for(lambda: seen.keys() >= set(names), seconds):
                missing = sorted(set(names) - seen.keys())
                raise BenchError(f"waited {seconds:.0f} s in vain for {missing} to be {word}")
        return max(seen[name] for name in names)
