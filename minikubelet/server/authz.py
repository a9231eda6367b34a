"""May they: what a request wants of the node, and the apiserver's word on it.

`attributes_of` is pure: the verb and the subresources of `nodes` that a path falls under, the finer
one first; the first that is allowed lets the request in. Answers count for a while, refusals
shorter. Source: kubelet server/auth.go, server/server.go InstallAuthFilter.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from minikubelet.server.authn import ReviewFailed, User
from minikubelet.server.remembered import Remembered

_VERBS = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_FINER = {
    "/pods": "pods",
    "/healthz": "healthz",
    "/configz": "configz",
    "/runningpods": "pods",
}
_WHOLE = {
    "/stats": "stats",
    "/metrics": "metrics",
    "/logs": "log",
    "/checkpoint": "checkpoint",
    "/statusz": "statusz",
    "/flagz": "configz",
}


@dataclass(frozen=True, slots=True)
class Attributes:
    """One question: may this user do this with this node."""

    user: User
    verb: str
    subresource: str
    node: str


Review = Callable[[Attributes], Awaitable[bool]]
"""Asks the apiserver; raises ReviewFailed."""


class Denied(Exception):
    """The request isn't let in; the text is for the client."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def attributes_of(user: User, method: str, path: str, node: str) -> tuple[Attributes, ...]:
    """Return what to ask, in order."""
    return tuple(
        Attributes(user, _VERBS.get(method, ""), subresource, node)
        for subresource in subresources_of(path)
    )


def subresources_of(path: str) -> tuple[str, ...]:
    """Return the subresources of `nodes` that a path falls under, the finer one first."""
    finer = [found for prefix, found in _FINER.items() if _is_below(path, prefix)]
    whole = [found for prefix, found in _WHOLE.items() if _is_below(path, prefix)]
    return (*finer, *(whole or ["proxy"]))


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


async def allow_all(_attributes: Attributes) -> bool:
    """Let everybody in: the mode AlwaysAllow."""
    return True


def remembering(review: Review, allowed_seconds: float, denied_seconds: float) -> Review:
    """Return the same review with its answers remembered."""
    answers: Remembered[Attributes, bool] = Remembered(
        lambda allowed: allowed_seconds if allowed else denied_seconds
    )

    async def ask(attributes: Attributes) -> bool:
        return await answers.get(attributes, lambda: review(attributes))

    return ask


async def authorize(attributes: tuple[Attributes, ...], review: Review) -> None:
    """Return when one of the questions is answered with yes. Raises Denied."""
    for each in attributes:
        try:
            if await review(each):
                return
        except ReviewFailed:
            raise Denied(
                f"Authorization error (user={each.user.name}, verb={each.verb}, resource=nodes, "
                f"subresource={each.subresource})",
                500,
            ) from None
    first = attributes[0]
    tried = " ".join(each.subresource for each in attributes)
    raise Denied(
        f"Forbidden (user={first.user.name}, verb={first.verb}, resource=nodes, "
        f"subresource(s)=[{tried}])\n",
        403,
    )
