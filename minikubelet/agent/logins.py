"""The logins to registries: the node's docker configuration and the Secrets of a pod.

The node's file is read for each pull: a changed login counts at once. Source: kubelet
credentialprovider/config.go ReadDockerConfigFile.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec
import structlog

from minikubelet.api.pod import Pod
from minikubelet.images.access import LoginsOf, PodLogins
from minikubelet.images.keyring import Credential, CredentialError, parse

_log = structlog.get_logger("images")

PullCredentials = Callable[[Pod], Awaitable[tuple[list[Credential], list[str]]]]


def docker_configs(root_dir: str) -> tuple[Path, ...]:
    """Return where a node's docker configuration may be; the first that is there counts."""
    folders = (Path(root_dir), Path.home() / ".docker", Path("/.docker"))
    return tuple(folder / "config.json" for folder in folders)


def logins(paths: tuple[Path, ...], of_secrets: PullCredentials | None) -> LoginsOf:
    """Return what finds the logins for a pod; `of_secrets` is None without an apiserver."""

    async def find(pod: Pod) -> PodLogins:
        node = await anyio.to_thread.run_sync(_read_first, paths)
        if of_secrets is None:
            return PodLogins(node=node)
        secrets, missing = await of_secrets(pod)
        return PodLogins(tuple(secrets), node, tuple(missing))

    return find


def _read_first(paths: tuple[Path, ...]) -> tuple[Credential, ...]:
    for path in paths:
        try:
            document = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except OSError:
            continue
        except msgspec.DecodeError as error:
            _log.warning("cannot read registry credentials", path=str(path), error=str(error))
            continue
        try:
            return parse(document.get("auths", {}))
        except CredentialError as error:
            _log.warning("cannot use registry credentials", path=str(path), error=str(error))
    return ()
