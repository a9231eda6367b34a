"""A real agent in a process of its own, seen from outside: by CRI, by its socket, by its files.

Each agent has its own root folder, manifest folder, pod logs and cgroup root below the session's
mark, so that nothing of it can be missed by the check for leftovers.
"""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import yaml

from minikubelet.cri import messages as m
from minikubelet.cri.client import Client
from minikubelet.cri.errors import CRIError
from minikubelet.host.cgroups import Cgroups, detect
from tests import leftovers
from tests.containerds import BUSYBOX, Containerd

NODE = "node1"
FOREVER = "trap 'exit 0' TERM; sleep 1000 & wait"
"""A script that ends at once when it is asked to."""
STUBBORN = "trap '' TERM; while :; do sleep 0.1; done"
"""A script that only a KILL ends."""
START_SECONDS = 20.0
_POLL_SECONDS = 0.02  # seen from outside there is no event to wait for


class Agent:
    """One agent: start, kill, feed and watch it. `client` speaks CRI to the runtime it uses."""

    def __init__(
        self, folder: Path, cgroup: str, containerd: Containerd, client: Client, node: str = NODE
    ) -> None:
        self.folder = folder
        self.node = node
        self.cgroup = cgroup
        self.containerd = containerd
        self.client = client
        self.root = folder / "root"
        self.manifests = folder / "manifests"
        self.logs = folder / "logs"
        self.log_file = folder / "agent.log"
        self.settings: dict[str, Any] = {}
        self.flags: list[str] = []
        self.prefix: list[str] = []
        """What the agent is started through, such as nsenter."""
        self._process: subprocess.Popen[bytes] | None = None
        for path in (folder, self.manifests, self.logs):
            path.mkdir()

    # the process

    async def start(self, *, faults: str = "", env: Mapping[str, str] | None = None) -> None:
        """Start it and wait until its socket answers; with fault points it may end before."""
        argv = [*self.prefix, sys.executable, "-m", "minikubelet", "run", *self.arguments()]
        variables = {**os.environ, **(env or {}), "MINIKUBELET_FAULTS": faults}
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: ASYNC220  quick, and outlives this call
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables
            )
        await self.wait_until("the agent's socket answers", self._answers, START_SECONDS)

    def arguments(self) -> list[str]:
        """Write the configuration; return the command line without the program."""
        config = self.folder / "config.yaml"
        config.write_text(yaml.safe_dump(self._config()))
        names = [f"--hostname-override={self.node}", f"--root-dir={self.root}"]
        return [f"--config={config}", *names, *self.flags]

    def _config(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "staticPodPath": str(self.manifests),
            "podLogsDir": str(self.logs),
            "containerRuntimeEndpoint": self.containerd.endpoint,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "failCgroupV1": False,
            "oomScoreAdj": 0,
            "healthzPort": 0,
        } | self.settings

    async def _answers(self) -> bool:
        if self.exit_code is not None:
            return True  # a fault point may have struck already; who starts it knows
        try:
            return (await self.get("/healthz"))[0] == http.HTTPStatus.OK
        except OSError:
            return False

    @property
    def exit_code(self) -> int | None:
        """The exit code of an agent that has ended (-9 after a fault point), else None."""
        return None if self._process is None else self._process.poll()

    async def ended(self, seconds: float = 20.0) -> int:
        """Wait until the agent has ended by itself; return its exit code."""
        await self.wait_until("the agent ends", lambda: self.exit_code is not None, seconds)
        return self.exit_code or 0

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """End it as a service manager does."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise AssertionError(f"the agent ignored signal {number} for 10 s") from None

    # manifests

    def write(self, name: str, document: Mapping[str, Any] | str) -> Path:
        """Put a manifest in place by rename, complete or not at all."""
        # JSON, since PyYAML leaves a name like `y` without quotes, which others read as true.
        text = document if isinstance(document, str) else json.dumps(document, indent=2)
        part = self.folder / f"{name}.part"
        part.write_text(text)
        return part.rename(self.manifests / name)

    def remove(self, name: str) -> None:
        """Take a manifest away."""
        (self.manifests / name).unlink()

    async def run(self, name: str, *containers: Mapping[str, Any], **spec: Any) -> None:
        """Write NAME.yaml and wait until the pod is ready; arguments as of `a_manifest`."""
        self.write(f"{name}.yaml", a_manifest(name, *containers, **spec))
        await self.wait_until(f"pod {name} is ready", lambda: self.is_ready(name))

    async def outputs(
        self, name: str, *containers: Mapping[str, Any], **spec: Any
    ) -> dict[str, str]:
        """Run a pod to its end (restartPolicy Never); return what each container wrote."""
        pod = a_manifest(name, *containers, **{"restartPolicy": "Never"} | spec)
        self.write(f"{name}.yaml", pod)
        await self.wait_until(f"pod {name} has ended", lambda: self.has_ended(name))
        return {each["name"]: await self.output(name, each["name"]) for each in containers}

    # looking

    async def get(self, path: str) -> tuple[int, bytes]:
        """Make a request to the agent's socket; return the status and the body."""
        return await anyio.to_thread.run_sync(_get, self.root / "minikubelet.sock", path)

    async def pods(self) -> dict[str, dict[str, Any]]:
        """Return the pods of /pods by name, without the node's suffix."""
        status, body = await self.get("/pods")
        assert status == http.HTTPStatus.OK, body
        found = json.loads(body)["items"]
        return {each["metadata"]["name"].removesuffix(f"-{self.node}"): each for each in found}

    async def status(self, pod: str) -> dict[str, Any]:
        """Return a pod's status as /pods shows it; empty while it isn't known."""
        status: dict[str, Any] = (await self.pods()).get(pod, {}).get("status", {})
        return status

    async def container_status(self, pod: str, name: str) -> dict[str, Any]:
        """Return one container's status as /pods shows it; empty while it isn't known."""
        status = await self.status(pod)
        lists = ("initContainerStatuses", "containerStatuses")
        found = [each for kind in lists for each in status.get(kind, ()) if each["name"] == name]
        return found[0] if found else {}

    async def is_ready(self, pod: str) -> bool:
        """Tell whether a pod's condition Ready is True."""
        conditions = (await self.status(pod)).get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    async def has_ended(self, pod: str) -> bool:
        """Tell whether a pod's phase is a final one."""
        return (await self.status(pod)).get("phase") in ("Succeeded", "Failed")

    async def waits(self, pod: str, name: str, reason: str) -> bool:
        """Tell whether a container waits for this reason."""
        state = (await self.container_status(pod, name)).get("state", {})
        return bool(state.get("waiting", {}).get("reason") == reason)

    async def is_gone(self, pod: str) -> bool:
        """Tell whether neither the runtime nor /pods knows anything of a pod."""
        left = await self.sandboxes(pod) or await self.containers(pod)
        return not left and pod not in await self.pods()

    async def wait_gone(self, pod: str, seconds: float = 30.0) -> None:
        """Wait until nothing of a pod is left."""
        await self.wait_until(f"nothing of pod {pod} is left", lambda: self.is_gone(pod), seconds)

    async def manifest_reports(self) -> dict[str, Any]:
        """Return what /manifests says."""
        status, body = await self.get("/manifests")
        assert status == http.HTTPStatus.OK, body
        found: dict[str, Any] = json.loads(body)
        return found

    async def exec(self, pod: str, name: str, script: str) -> str:
        """Run a shell script in a container; return what it wrote to stdout and stderr."""
        newest = (await self.containers(pod, name))[-1]
        reply = await self.client.runtime.exec_sync(newest.id, ["/bin/sh", "-c", script], 20)
        return (reply.stdout + reply.stderr).decode()

    async def containers(self, pod: str, name: str = "") -> list[m.Container]:
        """Return the containers that the runtime has for a pod, dead or alive, oldest first."""
        labels = {"io.kubernetes.pod.name": f"{pod}-{self.node}"}
        if name:
            labels["io.kubernetes.container.name"] = name
        found = await self.client.runtime.list_containers(label_selector=labels)
        return sorted(found, key=lambda each: each.created_at)

    async def running(self, pod: str) -> list[str]:
        """Return the names of a pod's running containers, oldest first."""
        found = await self.containers(pod)
        return [each.metadata.name for each in found if each.state == m.CONTAINER_RUNNING]

    async def sandboxes(self, pod: str) -> list[m.PodSandbox]:
        """Return the sandboxes that the runtime has for a pod, oldest first."""
        labels = {"io.kubernetes.pod.name": f"{pod}-{self.node}"}
        found = await self.client.runtime.list_pod_sandbox(label_selector=labels)
        return sorted(found, key=lambda each: each.created_at)

    async def output(self, pod: str, name: str) -> str:
        """Return what all instances of a container wrote, oldest first."""
        text = ""
        for container in await self.containers(pod, name):
            status = await self.client.runtime.container_status(container.id)
            text += read_log(Path(status.log_path)) if status.log_path else ""
        return text

    async def said(self, pod: str, name: str, lines: int = 1) -> str:
        """Wait until a container has written some lines; return what it wrote."""

        async def written() -> bool:
            return (await self.output(pod, name)).count("\n") >= lines

        await self.wait_until(f"{name} of pod {pod} has written {lines} lines", written)
        return await self.output(pod, name)

    async def restarts(self, pod: str, name: str = "main") -> int:
        """Return how often the agent says that a container was restarted."""
        return int((await self.container_status(pod, name)).get("restartCount", 0))

    async def restarted(self, pod: str, name: str = "main", times: int = 1) -> bool:
        """Tell whether a container was restarted so often."""
        return await self.restarts(pod, name) >= times

    async def wait_until(
        self,
        text: str,
        condition: Callable[[], Awaitable[bool]] | Callable[[], bool],
        seconds: float = 30.0,
    ) -> None:
        """Wait for a condition; when it doesn't come, fail with all that can be seen."""
        with anyio.move_on_after(seconds):
            while True:
                result = condition()
                if result if isinstance(result, bool) else await result:
                    return
                await anyio.sleep(_POLL_SECONDS)
        raise AssertionError(f"waited {seconds:g} s in vain until {text}\n{await self.dump()}")

    async def dump(self) -> str:
        """Return what the runtime holds, what /pods says, and the end of the agent's log."""
        lines = ["--- sandboxes and containers"]
        try:
            for sandbox in await self.client.runtime.list_pod_sandbox():
                state = m.v1.PodSandboxState.Name(sandbox.state)
                lines.append(f"{sandbox.metadata.name} #{sandbox.metadata.attempt} {state}")
                for each in await self.client.runtime.list_containers(pod_sandbox_id=sandbox.id):
                    status = await self.client.runtime.container_status(each.id)
                    state = m.v1.ContainerState.Name(status.state)
                    end = f"exit {status.exit_code} {status.reason} {status.message}"
                    lines.append(f"  {each.metadata.name} #{each.metadata.attempt} {state} {end}")
        except CRIError as error:
            lines.append(str(error))
        lines.append("--- /pods")
        try:
            for name, pod in (await self.pods()).items():
                lines.append(f"{name}: {json.dumps(pod.get('status'))}")
        except (OSError, AssertionError) as error:
            lines.append(f"no answer: {error}")
        log = self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
        return "\n".join([*lines, "--- the agent's log", *log.splitlines()[-60:]])

    # the end

    def owns(self, sandbox: m.PodSandbox) -> bool:
        """Tell whether a sandbox is this agent's."""
        return sandbox.metadata.name.endswith(f"-{self.node}")

    async def clean(self) -> None:
        """Kill it and remove all that it made on the runtime and on the machine."""
        self.kill()
        runtime = self.client.runtime
        for sandbox in await runtime.list_pod_sandbox():
            if not self.owns(sandbox):
                continue  # another agent's, on the same runtime
            await runtime.stop_pod_sandbox(sandbox.id)
            await runtime.remove_pod_sandbox(sandbox.id)
        await Cgroups(detect()).remove(f"/{self.cgroup}")
        await anyio.to_thread.run_sync(leftovers.detach, self.folder)
        shutil.rmtree(self.folder)


def a_manifest(name: str, *containers: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a pod's document; keyword arguments are JSON names of its spec."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name[:60]}},
        "spec": {"containers": [dict(each) for each in containers], **spec},
    }


def a_shell(name: str, script: str, **fields: Any) -> dict[str, Any]:
    """Return a container that runs a shell script; keyword arguments are its other JSON fields."""
    return {"name": name, "image": BUSYBOX, "command": ["/bin/sh", "-c", script], **fields}


def read_log(path: Path) -> str:
    """Return the text of a CRI log file: each line has a time, a stream and a tag before it."""
    if not path.exists():
        return ""
    text = ""
    for line in path.read_text(errors="replace").splitlines():
        _, _, tag, words = line.split(" ", 3)
        text += words + ("\n" if tag == "F" else "")
    return text


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _get(path: Path, url: str) -> tuple[int, bytes]:
    connection = _UnixConnection(path)
    try:
        connection.request("GET", url)
        response = connection.getresponse()
        return response.status, response.read()
    except http.client.HTTPException as error:
        raise OSError(f"no answer on {path}: {error!r}") from error
    finally:
        connection.close()
