"""What the apiserver answers, decoded: a document, or the error that its Status tells."""

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from minikubelet.kube import errors
from minikubelet.kube.api import Document

_DECODER = msgspec.json.Decoder()
_SHOWN_CHARACTERS = 300
_OK_FROM, _OK_BELOW = 200, 300


def document(server: str, status: int, headers: Mapping[str, str], body: bytes) -> Document:
    """Return an answer's document. Raises kube.errors.APIError for any but 2xx.

    An empty body is an empty document.
    """
    if not _OK_FROM <= status < _OK_BELOW:
        raise error(status, headers, body)
    if not body:
        return {}
    return decode(server, body)


def decode(server: str, data: bytes) -> Document:
    """Decode one JSON object. Raises Unavailable: then it isn't an apiserver that answers."""
    try:
        value = _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise errors.Unavailable(f"cannot read the answer of {server}: {problem}") from problem
    if not isinstance(value, dict):
        raise errors.Unavailable(f"cannot read the answer of {server}: it is not a JSON object")
    if not isinstance(value.get("metadata", {}), dict):
        raise errors.Unavailable(f"cannot read the answer of {server}: its metadata is no object")
    return value


def error(status: int, headers: Mapping[str, str], body: bytes) -> errors.APIError:
    """Return the error of an HTTP answer."""
    try:
        value = _DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError):
        value = None
    if isinstance(value, dict) and value.get("kind") == "Status":
        return of_status(value, status, retry_after(headers))
    text = body.decode(errors="replace").strip()[:_SHOWN_CHARACTERS]
    return errors.of(
        status, text or f"the apiserver answered {status}", retry_after=retry_after(headers)
    )


def of_status(
    status: Mapping[str, Any], code: int = 0, wait: float | None = None
) -> errors.APIError:
    """Return the error of a Status object, such as a watch's ERROR event carries."""
    code = code or _integer(status.get("code"))
    message = str(status.get("message") or status.get("reason") or f"status {code}")
    details = status.get("details")
    if wait is None and isinstance(details, dict) and _integer(details.get("retryAfterSeconds")):
        wait = float(_integer(details["retryAfterSeconds"]))
    reason = str(status.get("reason") or "")
    return errors.of(code, message, reason=reason, retry_after=wait, document=dict(status))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of Retry-After, which may be a number or a date (RFC 9110, 10.2.3)."""
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        moment, sent = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("Date", ""))
    except (TypeError, ValueError):
        return None
    wait = moment.replace(tzinfo=UTC) - sent.replace(tzinfo=UTC)
    return max(wait.total_seconds(), 0.0)


def _integer(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
