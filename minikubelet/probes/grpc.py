"""grpc: the health service says SERVING.

One bare unary call on a channel of its own, without generated stubs: the request is one string, the
reply one number. Source: kubelet pkg/probe/grpc/grpc.go, grpc-proto health/v1/health.proto.
"""

from typing import Any

import anyio
import grpc
import grpc.aio

from minikubelet.api.duration import go_duration_seconds
from minikubelet.probes.attempt import SUCCESS, Attempt, Outcome, Run, failure
from minikubelet.probes.request import PROBE_AGENT, authority

METHOD = "/grpc.health.v1.Health/Check"
SERVING = 1

_NAMES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_OPTIONS = (
    ("grpc.primary_user_agent", PROBE_AGENT),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # no connection of an earlier attempt
    ("grpc.initial_reconnect_backoff_ms", 200),
)


def prepare(attempt: Attempt) -> Run:
    """Return a callable that makes the attempt. Raises ValueError for a pod without IP."""
    action = attempt.probe.grpc
    assert action is not None  # noqa: S101  who dispatches knows
    if not attempt.pod_ip:
        raise ValueError("failed to find networking container: the pod has no IP")
    address = authority(attempt.pod_ip, action.port)
    request = _request(action.service or "")
    timeout = attempt.timeout

    async def run() -> Outcome:
        channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        deadline = anyio.current_time() + timeout
        try:
            with anyio.move_on_after(timeout) as connecting:
                await channel.channel_ready()
            if connecting.cancelled_caught:
                text = f'timeout: failed to connect service "{address}" within'
                return failure(f"{text} {go_duration_seconds(timeout)}: context deadline exceeded")
            # A time limit of its own: cancelling a call of grpc.aio cancels more than that.
            remaining = max(0.0, deadline - anyio.current_time())
            return _judge(await channel.unary_unary(METHOD)(request, timeout=remaining))
        except grpc.aio.AioRpcError as error:
            return failure(_words(error, timeout))
        finally:
            with anyio.CancelScope(shield=True):
                await channel.close()

    return run


def _request(service: str) -> bytes:
    """Return a HealthCheckRequest: field 1, a string."""
    data = service.encode()
    if not data:
        return b""
    length, size = b"", len(data)
    while size > 0x7F:  # noqa: PLR2004  a varint's seven bits
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return b"\n" + length + bytes([size]) + data


def _judge(reply: Any) -> Outcome:
    """Read a HealthCheckResponse: field 1, an enum; nothing at all is its zero."""
    status = reply[1] if len(reply) > 1 and reply[0] == 0x08 else 0  # noqa: PLR2004  field 1, varint
    if status == SERVING:
        return SUCCESS
    name = _NAMES[status] if status < len(_NAMES) else str(status)
    return failure(f'service unhealthy (responded with "{name}")')


def _words(error: grpc.aio.AioRpcError, timeout: int) -> str:
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return (
            "error: this server does not implement the grpc health protocol"
            f" (grpc.health.v1.Health): {details}"
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        took = go_duration_seconds(timeout)
        return f"timeout: health rpc did not complete within {took}"
    name = "".join(part.capitalize() for part in code.name.split("_"))
    name = {"Cancelled": "Canceled", "Ok": "OK"}.get(name, name)
    return f"error: health rpc probe failed: rpc error: code = {name} desc = {details}"
