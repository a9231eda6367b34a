"""One suite on each runtime: the in-memory one, containerd 1.6 and containerd 2.

A test says what a container does by a shell command; the fake looks it up in PROGRAMS, so that both
kinds run the same test.
"""

import itertools
import shutil
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from minikubelet.cri import messages as m
from minikubelet.cri.client import Client, connect
from minikubelet.cri.errors import CRIError
from minikubelet.cri.fake import NEVER, Exec, FakeRuntime, Program
from minikubelet.cri.services import ImageService, RuntimeEvents, RuntimeService
from minikubelet.host.cgroups import Cgroups, detect
from tests.containerds import BUSYBOX, Containerd, Pool

SLEEP = "trap 'exit 0' TERM; sleep 1000 & wait"
STUBBORN = "trap '' TERM; while :; do sleep 0.2; done"
MISSING = "/no/such/program"

NUMBERS = itertools.count(1)  # no two sandboxes of a session share a uid

PROGRAMS = {
    SLEEP: Program(term_code=0),
    STUBBORN: Program(term_takes=NEVER),
    "exit 0": Program(0, runs_for=0),
    "exit 3": Program(3, runs_for=0),
}
COMMANDS = {
    "echo out; echo err >&2; exit 4": Exec(4, b"out\n", b"err\n"),
    "sleep 100": Exec(takes=100),
    "true": Exec(),
}


@dataclass
class Harness:
    """A runtime under test and short ways to use it. Everything made is removed at the end."""

    name: str
    runtime: RuntimeService
    images: ImageService
    events: tuple[RuntimeEvents, ...]
    logs: Path
    cgroup: str
    containerd: Containerd | None = None
    fake: FakeRuntime | None = None
    made: dict[str, m.PodSandboxConfig] = field(default_factory=dict)

    def sandbox_config(self, uid: str = "", attempt: int = 0) -> m.PodSandboxConfig:
        uid = uid or f"uid-{next(NUMBERS)}"
        config = m.PodSandboxConfig(
            metadata=m.PodSandboxMetadata(name="pod", namespace="ns", uid=uid, attempt=attempt),
            log_directory=str(self.logs),
            labels={"uid": uid},
            annotations={"note": "kept"},
        )
        config.linux.cgroup_parent = f"/{self.cgroup}"
        return config

    def container_config(self, script: str, name: str = "c", attempt: int = 0) -> m.ContainerConfig:
        return m.ContainerConfig(
            metadata=m.ContainerMetadata(name=name, attempt=attempt),
            image=m.ImageSpec(image=BUSYBOX),
            command=[MISSING] if script == MISSING else ["/bin/sh", "-c", script],
            log_path=f"{name}-{attempt}.log",
            labels={"name": name},
            annotations={"note": "kept, too"},
        )

    async def sandbox(self, config: m.PodSandboxConfig | None = None) -> str:
        config = config or self.sandbox_config()
        sandbox_id = await self.runtime.run_pod_sandbox(config)
        self.made[sandbox_id] = config
        return sandbox_id

    async def create(self, sandbox_id: str, script: str, name: str = "c", attempt: int = 0) -> str:
        config = self.container_config(script, name, attempt)
        of_sandbox = self.made.get(sandbox_id) or self.sandbox_config()
        return await self.runtime.create_container(sandbox_id, config, of_sandbox)

    async def start(self, script: str, sandbox_id: str = "", name: str = "c") -> str:
        container_id = await self.create(sandbox_id or await self.sandbox(), script, name)
        await self.runtime.start_container(container_id)
        return container_id

    async def exited(self, container_id: str) -> m.ContainerStatus:
        """Wait until the runtime says that a container has ended."""
        with anyio.fail_after(10):
            while True:
                status = await self.runtime.container_status(container_id)
                if status.state == m.CONTAINER_EXITED:
                    return status
                await anyio.sleep(0.01)

    async def remove_all(self) -> None:
        for sandbox_id in self.made:
            await self.runtime.stop_pod_sandbox(sandbox_id)
            await self.runtime.remove_pod_sandbox(sandbox_id)


def start_hook(config: m.ContainerConfig) -> Program:
    if config.command[0] == MISSING:
        raise CRIError("StartContainer", "Unknown", f'exec: "{MISSING}": no such file or directory')
    return PROGRAMS[config.command[2]]


def exec_hook(_config: m.ContainerConfig, command: Sequence[str]) -> Exec:
    return COMMANDS[command[2]]


@pytest.fixture(params=["fake", "containerd-1.6", "containerd-2"])
async def harness(
    request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Harness]:
    if request.param == "fake":
        fake = FakeRuntime(on_start=start_hook, on_exec=exec_hook, images=[BUSYBOX])
        yield Harness("fake", fake, fake.images, (fake,), tmp_path, "unused", fake=fake)
        return
    pool: Pool = request.getfixturevalue("containerds")
    containerd = pool.get(request.param.removeprefix("containerd-"))
    mark = request.getfixturevalue("session_mark")
    client: Client = connect(containerd.endpoint)
    logs = mark.folder / "logs"
    logs.mkdir(exist_ok=True)
    harness = Harness(
        request.param,
        client.runtime,
        client.images,
        client.events,
        logs,
        f"{mark.cgroup}/contract",
        containerd=containerd,
    )
    try:
        yield harness
        await harness.remove_all()
        await Cgroups(detect()).remove(f"/{mark.cgroup}")
    finally:
        await client.runtime.close()
        shutil.rmtree(logs, ignore_errors=True)
