"""What a runtime can refuse, by what the caller can do about it.

    CRIError                the call failed; `code` is gRPC's name, `message` the runtime's text
    ├── NotFound            the object doesn't exist: for stop and remove that is success
    ├── AlreadyExists       the name is taken or reserved: list before trying again
    ├── DeadlineExceeded    no answer in time; the call may still succeed: list before trying again
    ├── Unavailable         the runtime isn't there (socket gone, restarting): wait and try again
    └── Unimplemented       the runtime lacks this ability: never try again

Names are those of gRPC's status codes.
"""


class CRIError(Exception):
    """A CRI call failed. The text is the runtime's own, as the kubelet's users see it in events."""

    def __init__(self, call: str, code: str, message: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {message}")
        self.call = call
        self.code = code
        self.message = message


class NotFound(CRIError):
    """Raised when the named object isn't known to the runtime."""


class AlreadyExists(CRIError):
    """Raised when a name is taken, also by a creation that is still under way."""


class DeadlineExceeded(CRIError):
    """Raised when no reply came within the call's time limit."""


class Unavailable(CRIError):
    """Raised when the runtime can't be reached."""


class Unimplemented(CRIError):
    """Raised when the runtime doesn't offer the call."""
