"""What the apiserver answers instead of a document, by HTTP status.

APIError
├ Unavailable         no answer: refused, reset, timed out; trying again may help
├ BadRequest          400
├ Unauthorized        401: the credential isn't valid
├ Forbidden           403
├ NotFound            404
├ Conflict            409: another version, or a precondition that isn't met
│ └ AlreadyExists     409 with that reason
├ Gone                410: the resource version is too old, list again
├ Invalid             422: the object is refused; the same request is refused again
├ TooManyRequests     429
└ ServerError         5xx
"""

from typing import Any


class APIError(Exception):
    """A request wasn't answered as wished; the text is the server's message."""

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        reason: str = "",
        retry_after: float | None = None,
        document: Any = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        """HTTP status; 0 without an answer."""
        self.reason = reason
        """Status.reason, such as `NotFound`."""
        self.retry_after = retry_after
        """Seconds the server asks to wait."""
        self.document = document
        """The Status object, if the body was one."""


class Unavailable(APIError):
    """The server gave no answer."""


class BadRequest(APIError):
    """400."""


class Unauthorized(APIError):
    """401: the credential isn't valid (any more)."""


class Forbidden(APIError):
    """403: the node may not do this."""


class NotFound(APIError):
    """404."""


class Conflict(APIError):
    """409: another version, or a precondition that isn't met."""


class AlreadyExists(Conflict):
    """409 with the reason AlreadyExists."""


class Gone(APIError):
    """410: the resource version is too old."""


class Invalid(APIError):
    """422: the object doesn't pass validation."""


class TooManyRequests(APIError):
    """429."""


class ServerError(APIError):
    """5xx."""


_BY_CODE: dict[int, type[APIError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def of(
    code: int,
    message: str,
    *,
    reason: str = "",
    retry_after: float | None = None,
    document: Any = None,
) -> APIError:
    """Return the error of an HTTP status."""
    kind = _BY_CODE.get(code, ServerError if code >= 500 else APIError)  # noqa: PLR2004  HTTP's own
    if kind is Conflict and reason == "AlreadyExists":
        kind = AlreadyExists
    return kind(message, code=code, reason=reason, retry_after=retry_after, document=document)
