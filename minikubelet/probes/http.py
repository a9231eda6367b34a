"""httpGet: 200 to 399 is success; redirects are followed on the same host only.

A redirect to elsewhere counts as success, with a warning: the probe would leave the pod. Headers,
Host among them, go along on each hop. Source: kubelet pkg/probe/http/http.go.
"""

from collections.abc import Sequence
from http import HTTPStatus

from minikubelet.probes.attempt import SUCCESS, Attempt, Outcome, ProbeError, Verdict, failure
from minikubelet.probes.exchange import exchange
from minikubelet.probes.reply import CutBody, Reader, Reply
from minikubelet.probes.request import MAX_REDIRECTS, PROBE_AGENT, request_of
from minikubelet.probes.steps import OutOfTime

_NO_HEAD = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
_NO_BODY = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"


class HTTPProbe:
    """The attempts of one probe. Raises ValueError for a bad port or host."""

    def __init__(self, attempt: Attempt) -> None:
        action = attempt.probe.http_get
        assert action is not None  # noqa: S101  who dispatches knows
        self._request = request_of(action, attempt.container, attempt.pod_ip, PROBE_AGENT)
        self._encoded = self._request.encode()
        self._url = self._request.url
        self.host = self._request.host

    async def attempt(self, addresses: Sequence[str]) -> Outcome:
        """Make one, as steps. Raises ProbeError."""
        reader = Reader()
        try:
            return _judge(await self._get(addresses, reader))
        except CutBody as error:
            raise ProbeError(str(error), state="failure") from error
        except OSError as error:
            return failure(f'Get "{self._url}": {error}')
        except OutOfTime:
            if reader.head is None:
                return failure(f'Get "{self._url}": {_NO_HEAD}')
            # The kubelet takes a body that doesn't end for its own trouble, not the container's.
            raise ProbeError(_NO_BODY, state="failure") from None

    async def _get(self, addresses: Sequence[str], reader: Reader) -> Reply:
        current, encoded = self._request, self._encoded
        for _ in range(MAX_REDIRECTS):
            reply = await exchange(current, encoded, addresses, reader)
            following = current.following(reply.status, reply.headers.get("location", ""))
            if following is None or following.host != self.host:
                return reply
            current, encoded = following, following.encode()
            reader.reset()
        raise OSError(f"stopped after {MAX_REDIRECTS} redirects")


def _judge(reply: Reply) -> Outcome:
    if not HTTPStatus.OK <= reply.status < HTTPStatus.BAD_REQUEST:
        return failure(f"HTTP probe failed with statuscode: {reply.status}")
    if reply.status < HTTPStatus.MULTIPLE_CHOICES:
        return SUCCESS
    body = reply.body.decode(errors="replace")
    return Outcome(Verdict.WARNING, f"Probe terminated redirects, Response body: {body}")
