"""Which starts must wait: CrashLoopBackOff, and the pause after a start that failed.

`lifecycle.crashloop` decides; this tells it to the pod's status and events. Who comes next: sync.
"""

from dataclasses import replace

from minikubelet.lifecycle import crashloop
from minikubelet.lifecycle.actions import PodActions
from minikubelet.lifecycle.runtime import PodRuntimeStatus, State
from minikubelet.observe.events import WARNING
from minikubelet.pods.kit import Kit
from minikubelet.pods.state import PodState


def hold_back(
    kit: Kit, state: PodState, view: PodRuntimeStatus, actions: PodActions
) -> tuple[PodActions, float | None]:
    """Take out the starts that must wait; return seconds to the first that is due."""
    now = kit.clock.monotonic()
    held: dict[str, float] = {}
    if not actions.create_sandbox:
        for container in state.containers((*actions.init, *actions.regular)):
            loop = crashloop.crash_loop(state.backoff, state.pod, container, view, now)
            if loop is None:
                newest = view.newest(container.name)
                is_dead = newest is not None and newest.state is State.EXITED
                # A dead one has its back-off, which has just passed.
                if not is_dead and (pause := state.pause(container.name, now)):
                    held[container.name] = pause
                continue
            held[container.name] = loop.until - now
            state.fail(container.name, "CrashLoopBackOff", loop.message)
            kit.events.emit(state.ref(container), WARNING, "BackOff", loop.event)
    if not held:
        return actions, None
    remaining = replace(
        actions,
        init=tuple(name for name in actions.init if name not in held),
        regular=tuple(name for name in actions.regular if name not in held),
    )
    return remaining, min(held.values())
