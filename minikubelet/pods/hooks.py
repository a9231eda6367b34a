"""Lifecycle hooks: exec, httpGet, sleep, run to their end or to the end of their time.

Source: kubelet lifecycle/handlers.go.
"""

import anyio

from minikubelet.api.pod import Container, LifecycleHandler
from minikubelet.cri.errors import CRIError, DeadlineExceeded
from minikubelet.pods.kit import Kit
from minikubelet.pods.state import PodState

OUTPUT_SHOWN = 512


class HookFailed(Exception):
    """A hook said no; the text is for people."""


async def run_hook(
    kit: Kit,
    state: PodState,
    container: Container,
    handler: LifecycleHandler,
    container_id: str,
    ips: tuple[str, ...],
    budget: float | None = None,
) -> None:
    """Run one hook for `budget` seconds at most (None: no limit). Raises HookFailed.

    A hook that runs out of its time ends silently: what follows is due anyway.
    """
    if budget is None:
        await _run(kit, state, container, handler, container_id, ips, 0)
        return
    with anyio.move_on_after(budget):
        await _run(kit, state, container, handler, container_id, ips, budget)


async def _run(
    kit: Kit,
    state: PodState,
    container: Container,
    handler: LifecycleHandler,
    container_id: str,
    ips: tuple[str, ...],
    budget: float,
) -> None:
    if handler.exec is not None:
        await _exec(kit, container_id, handler.exec.command, budget)
    elif handler.http_get is not None:
        try:
            await kit.hooks.http_get(state.pod, container, handler.http_get, ips[0] if ips else "")
        except OSError as error:
            raise HookFailed(str(error)) from error
    elif handler.sleep is not None:
        await anyio.sleep(handler.sleep.seconds)
    else:
        raise HookFailed("invalid handler: no action is set")


async def _exec(kit: Kit, container_id: str, command: tuple[str, ...], budget: float) -> None:
    shown = " ".join(command)
    try:
        reply = await kit.execs.run(container_id, command, budget)
    except DeadlineExceeded:
        return
    except CRIError as error:
        raise HookFailed(f"cannot exec '{shown}': {error}") from error
    if reply.exit_code != 0:
        output = (reply.stdout + reply.stderr).decode(errors="replace")[:OUTPUT_SHOWN]
        raise HookFailed(f"command '{shown}' exited with {reply.exit_code}: {output}")
