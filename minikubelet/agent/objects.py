"""What pods get from API objects: plugged together from the caches of `objects` for `pods`.

Secrets stay in memory: nothing here is ever written down.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from minikubelet.api.meta import CONFIG_SOURCE
from minikubelet.api.pod import Container, Pod
from minikubelet.api.timestamp import NANOSECONDS
from minikubelet.criconfig.context import ConfigProblem
from minikubelet.criconfig.service_env import service_env
from minikubelet.host.clock import Clock
from minikubelet.images.keyring import Credential, SecretSource, parse
from minikubelet.kube import api as kube
from minikubelet.kube.errors import APIError, NotFound
from minikubelet.objects.cache import CONFIG_MAPS, ObjectCache, Ref
from minikubelet.objects.references import env_references, pull_secrets, references
from minikubelet.objects.services import Services
from minikubelet.objects.tokens import Tokens
from minikubelet.pods.kit import EnvObjects
from minikubelet.sources.updates import API
from minikubelet.volumes.errors import VolumeError
from minikubelet.volumes.payload import secret_data

_DOCKER_KEYS = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


class ClusterObjects:
    """The API objects that pods of this node use. `on_change(uid)` tells of changed ones."""

    def __init__(
        self,
        api: kube.API,
        clock: Clock,
        random: Callable[[], float],
        on_change: Callable[[str], None],
    ) -> None:
        self._api = api
        self._clock = clock
        self.cache = ObjectCache(api, on_change)
        self.services = Services(api)
        self.tokens = Tokens(api, clock, random)

    def use(self, pod: Pod) -> None:
        """Keep what a pod refers to at hand from now on."""
        self.cache.use(pod.metadata.uid, references(pod))

    def forget(self, uid: str) -> None:
        """Drop what only a pod that is gone used."""
        self.cache.use(uid, ())
        self.tokens.forget(uid)

    async def env(self, pod: Pod, container: Container) -> EnvObjects:
        """Return what a container's variables come from. Raises ConfigProblem."""
        config_maps: dict[str, Mapping[str, str] | None] = {}
        secrets: dict[str, Mapping[str, str] | None] = {}
        for ref in sorted(env_references(pod, container)):
            known = config_maps if ref.kind == CONFIG_MAPS else secrets
            known[ref.name] = await self._data(ref)
        services = await self._services_for(pod)
        links = pod.spec.enable_service_links is not False
        variables = service_env(services, pod.metadata.namespace, links=links)
        return EnvObjects(config_maps, secrets, variables)

    async def _services_for(self, pod: Pod) -> Iterable[kube.Document]:
        """Return the Services; a static pod waits for no apiserver (kubelet_pods.go)."""
        if pod.metadata.annotations.get(CONFIG_SOURCE, API) != API:
            return self.services.known
        try:
            return await self.services.all()
        except APIError as error:
            raise ConfigProblem(error.message) from error

    async def _data(self, ref: Ref) -> Mapping[str, str] | None:
        try:
            document = await self.cache.get(ref)
        except NotFound:
            return None
        except APIError as error:
            raise ConfigProblem(error.message) from error
        if ref.kind == CONFIG_MAPS:
            return {key: str(text) for key, text in (document.get("data") or {}).items()}
        try:
            data = secret_data(document)
        except VolumeError as error:
            raise ConfigProblem(str(error)) from error
        return {key: value.decode("utf-8", "replace") for key, value in data.items()}

    async def pull_credentials(self, pod: Pod) -> tuple[list[Credential], list[str]]:
        """Return the logins of a pod's imagePullSecrets and the names of those without any."""
        found: list[Credential] = []
        missing: list[str] = []
        for ref in pull_secrets(pod):
            try:
                document = await self.cache.get(ref)
                found += _logins(document)
            except (APIError, ValueError, KeyError, VolumeError):
                missing.append(ref.name)
        return found, missing

    async def runtime_handler(self, pod: Pod) -> str:
        """Return the handler of the pod's RuntimeClass. Raises ConfigProblem."""
        name = pod.spec.runtime_class_name
        if not name:
            return ""
        try:
            found = await self._api.request("GET", f"{RUNTIME_CLASSES}/{name}")
        except NotFound as error:
            text = f'failed to get sandbox runtime: RuntimeClass "{name}" not found'
            raise ConfigProblem(text) from error
        except APIError as error:
            raise ConfigProblem(f"failed to get sandbox runtime: {error.message}") from error
        handler: str = found.get("handler", "")
        return handler

    def renewal_in(self, uid: str) -> float | None:
        """Return the seconds until a token of the pod is due; None when it has none."""
        due = self.tokens.renew_at(uid)
        return None if due is None else due - self._clock.wall_ns() / NANOSECONDS


def _logins(document: kube.Document) -> tuple[Credential, ...]:
    """Return the logins of a Secret. Raises KeyError, ValueError, VolumeError."""
    meta = document["metadata"]
    source = SecretSource(meta["namespace"], meta["name"], meta.get("uid", ""))
    data = secret_data(document)
    text = data[_DOCKER_KEYS[document.get("type", "")]]
    return parse(msgspec.json.decode(text, type=dict[str, Any]), source)
