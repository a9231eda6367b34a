"""httpGet: 200 to 399 is success; redirects are followed on the same host only.

A redirect to elsewhere counts as success, with a warning: the probe would leave the pod. Headers,
Host among them, go along on each hop. Source: kubelet pkg/probe/http/http.go.
"""

from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus

import anyio

from minikubelet.probes.attempt import SUCCESS, Attempt, Outcome, ProbeError, Run, Verdict, failure
from minikubelet.probes.exchange import exchange
from minikubelet.probes.reply import CutBody, Reply
from minikubelet.probes.request import PROBE_AGENT, HTTPRequest, request_of

MAX_REDIRECTS = 10

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SECRETS = frozenset({"authorization", "cookie", "www-authenticate", "host"})
"""Headers that are meant for the first host only."""


def prepare(attempt: Attempt) -> Run:
    """Return a callable that makes the attempt. Raises ValueError for a bad port or host."""
    action = attempt.probe.http_get
    assert action is not None  # noqa: S101  who dispatches knows
    request = request_of(action, attempt.container, attempt.pod_ip, PROBE_AGENT)
    encoded = request.encode()

    async def run() -> Outcome:
        return await _probe(request, encoded, attempt.timeout)

    return run


async def _probe(request: HTTPRequest, encoded: bytes, timeout: float) -> Outcome:
    in_body = False

    def head_seen() -> None:
        nonlocal in_body
        in_body = True

    try:
        with anyio.move_on_after(timeout):
            return _judge(await get(request, encoded, head_seen))
    except CutBody as error:
        raise ProbeError(str(error), state="failure") from error
    except OSError as error:
        return failure(f'Get "{request.url}": {error}')
    if in_body:
        # The kubelet takes a body that doesn't end for its own trouble, not the container's.
        text = (
            "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
        )
        raise ProbeError(text, state="failure")
    text = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    return failure(f'Get "{request.url}": {text}')


def _judge(reply: Reply) -> Outcome:
    if not HTTPStatus.OK <= reply.status < HTTPStatus.BAD_REQUEST:
        return failure(f"HTTP probe failed with statuscode: {reply.status}")
    if reply.status < HTTPStatus.MULTIPLE_CHOICES:
        return SUCCESS
    body = reply.body.decode(errors="replace")
    return Outcome(Verdict.WARNING, f"Probe terminated redirects, Response body: {body}")


async def get(
    request: HTTPRequest,
    encoded: bytes = b"",
    head_seen: Callable[[], None] = lambda: None,
    *,
    elsewhere: bool = False,
) -> Reply:
    """Send a request and follow redirects, to other hosts only with `elsewhere`.

    `encoded` are the first request's bytes, if made already. Raises OSError, CutBody.
    """
    current = request
    for _ in range(MAX_REDIRECTS):
        reply = await exchange(current, encoded or current.encode(), head_seen)
        location = reply.headers.get("location", "")
        if reply.status not in _REDIRECTS or not location:
            return reply
        try:
            following = current.redirected(location)
        except ValueError as error:
            raise OSError(f"failed to parse Location header {location!r}: {error}") from error
        if following.host != request.host:
            if not elsewhere:
                return reply
            kept = (pair for pair in following.headers if pair[0].lower() not in _SECRETS)
            following = replace(following, headers=tuple(kept))
        current, encoded = following, b""
    raise OSError(f"stopped after {MAX_REDIRECTS} redirects")
