"""GET /containerLogs/NAMESPACE/POD/CONTAINER with the options of kubectl logs.

The answer begins as soon as the log is found, so that a follower of a silent container knows that
it is connected. Refusals and their order are the kubelet's. Source: kubelet server/server.go
getContainerLogs, core/v1 validation ValidatePodLogOptions, apimachinery runtime/conversion.go.
"""

import re
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from minikubelet.api import timestamp
from minikubelet.server.callables import Callables, LogRequest, NotFound, NotReady
from minikubelet.server.errors import plain_error

_STREAMS = ("All", "Stdout", "Stderr")
_NUMBER = re.compile(r"[+-]?[0-9]+")
_MAX_NUMBER = 2**63


class Undecodable(ValueError):
    """The query isn't one of options; the text names what is missing or wrong."""


class Invalid(ValueError):
    """The options are decoded and make no sense; the text names the option."""


def container_logs(
    callables: Callables,
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return the handler."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            wanted = log_request(request.match_info, request.query)
        except Undecodable as error:
            return plain_error(f'{{"message": "{error}"}}', 400)
        except Invalid:
            return plain_error('{"message": "Invalid request."}', 422)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        try:
            async with callables.container_logs(wanted) as pieces:
                await response.prepare(request)
                async for piece in pieces:
                    await response.write(piece)
        except NotFound as error:
            return plain_error(str(error), 404)
        except NotReady as error:
            return plain_error(str(error), 400)
        return response

    return handle


def log_request(path: Mapping[str, str], query: Mapping[str, str]) -> LogRequest:
    """Read the request. Raises Undecodable, then Invalid."""
    for key, text in (
        ("pod", "Missing podID."),
        ("container", "Missing container name."),
        ("namespace", "Missing podNamespace."),
    ):
        if not path[key]:
            raise Undecodable(text)
    wanted = LogRequest(
        namespace=path["namespace"],
        pod=path["pod"],
        container=path["container"],
        follow=_flag(query, "follow"),
        previous=_flag(query, "previous"),
        timestamps=_flag(query, "timestamps"),
        tail_lines=_tail_lines(query),
        limit_bytes=_number(query, "limitBytes"),
        since_seconds=_number(query, "sinceSeconds"),
        since_time=_time(query, "sinceTime"),
        stream=query.get("stream", ""),
    )
    _check(wanted, has_stream="stream" in query)
    return wanted


def _check(wanted: LogRequest, *, has_stream: bool) -> None:
    if wanted.tail_lines is not None and wanted.tail_lines < 0:
        raise Invalid("tailLines: must be greater than or equal to 0")
    if wanted.limit_bytes is not None and wanted.limit_bytes < 1:
        raise Invalid("limitBytes: must be greater than 0")
    if wanted.since_seconds is not None:
        if wanted.since_time:
            raise Invalid("at most one of `sinceTime` or `sinceSeconds` may be specified")
        if wanted.since_seconds < 1:
            raise Invalid("sinceSeconds: must be greater than 0")
    if has_stream and wanted.stream not in _STREAMS:
        raise Invalid("stream: must be All, Stdout or Stderr")
    if has_stream and wanted.stream != "All" and wanted.tail_lines is not None:
        raise Invalid("`tailLines` and specific `stream` are mutually exclusive for now")


def _flag(query: Mapping[str, str], name: str) -> bool:
    """Return a truth value: a name alone means yes, and so does every word but two."""
    return query.get(name, "false").lower() not in ("false", "0")


def _tail_lines(query: Mapping[str, str]) -> int | None:
    """Return tailLines, or what its older name says."""
    tail = query.get("tail")
    if not tail:
        return _number(query, "tailLines")
    return None if tail == "all" else _number(query, "tail")


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text) or not -_MAX_NUMBER <= int(text) < _MAX_NUMBER:
        raise Undecodable("Unable to decode query.")
    return int(text)


def _time(query: Mapping[str, str], name: str) -> str:
    text = query.get(name, "")
    if text in ("", "null"):
        return ""
    try:
        timestamp.parse(text)
    except ValueError:
        raise Undecodable("Unable to decode query.") from None
    return text
