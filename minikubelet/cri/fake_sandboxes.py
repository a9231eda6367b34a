"""The sandbox calls of the in-memory runtime."""

from collections.abc import Mapping, Sequence

from minikubelet.cri import messages as m
from minikubelet.cri.fake_calls import FakeCalls, fail
from minikubelet.cri.fake_script import sandbox_name
from minikubelet.cri.fake_state import FakeSandbox
from minikubelet.cri.fake_views import list_sandbox, sandbox_status
from minikubelet.cri.services import EventKind


class FakeSandboxes(FakeCalls):
    """RunPodSandbox to ListPodSandbox."""

    async def run_pod_sandbox(self, config: m.PodSandboxConfig, runtime_handler: str = "") -> str:
        """Create a sandbox; its name is reserved while the call is under way, late or not."""
        sandbox_id = self.new_id()

        def effect() -> None:
            if runtime_handler not in self._handlers:
                fail("RunPodSandbox", f'no runtime for "{runtime_handler}" is configured')
            self._add_sandbox(sandbox_id, config, runtime_handler)

        name = sandbox_name(config.metadata)
        await self.create("RunPodSandbox", "sandbox", name, sandbox_id, effect)
        return sandbox_id

    async def stop_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """Kill all processes; an unknown id is fine."""

        def effect() -> None:
            if pod_sandbox_id in self.sandboxes:
                self.stop_sandbox(self.sandboxes[pod_sandbox_id])

        await self.run("StopPodSandbox", pod_sandbox_id, effect)

    async def remove_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """Stop and remove with all containers; an unknown id is fine."""

        def effect() -> None:
            if pod_sandbox_id in self.sandboxes:
                self.remove_sandbox(self.sandboxes[pod_sandbox_id])

        await self.run("RemovePodSandbox", pod_sandbox_id, effect)

    async def pod_sandbox_status(self, pod_sandbox_id: str) -> m.PodSandboxStatus:
        """Return one sandbox; raises NotFound."""
        return await self.run(
            "PodSandboxStatus",
            pod_sandbox_id,
            lambda: sandbox_status(self.sandbox("PodSandboxStatus", pod_sandbox_id)),
        )

    async def list_pod_sandbox(
        self,
        *,
        id: str = "",
        state: int | None = None,
        label_selector: Mapping[str, str] | None = None,
    ) -> Sequence[m.PodSandbox]:
        """Return the sandboxes that match all given filters, in no useful order."""

        def effect() -> list[m.PodSandbox]:
            views = [list_sandbox(each) for each in reversed(self.sandboxes.values())]
            return [
                view
                for view in views
                if view.id.startswith(id)
                and state in (None, view.state)
                and (label_selector or {}).items() <= dict(view.labels).items()
            ]

        return await self.run("ListPodSandbox", id, effect)

    def _add_sandbox(self, sandbox_id: str, config: m.PodSandboxConfig, handler: str) -> None:
        copy = m.PodSandboxConfig()
        copy.CopyFrom(config)
        sandbox = FakeSandbox(sandbox_id, copy, self.now_ns(), handler)
        if config.linux.security_context.namespace_options.network != m.NODE:
            self._addresses += 1
            sandbox.ip = f"10.0.{self._addresses // 256}.{self._addresses % 256}"
        self.sandboxes[sandbox_id] = sandbox
        self.emit(EventKind.CREATED, sandbox_id, sandbox)
        self.emit(EventKind.STARTED, sandbox_id, sandbox)
