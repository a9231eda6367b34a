"""Which ConfigMaps and Secrets a pod refers to: pure.

Source: pkg/api/v1/pod/util.go VisitPodSecretNames, VisitPodConfigmapNames.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from minikubelet.api.pod import Container, Pod, Volume
from minikubelet.objects.cache import CONFIG_MAPS, SECRETS, Ref


def references(pod: Pod) -> frozenset[Ref]:
    """Return everything that must be known before the pod can start or be refreshed."""
    return frozenset((*pull_secrets(pod), *_of_containers(pod), *_of_volumes(pod)))


def pull_secrets(pod: Pod) -> tuple[Ref, ...]:
    """Return the Secrets with registry credentials, in the spec's order."""
    namespace = pod.metadata.namespace
    return tuple(
        Ref(SECRETS, namespace, secret.name)
        for secret in pod.spec.image_pull_secrets
        if secret.name
    )


def env_references(pod: Pod, container: Container) -> frozenset[Ref]:
    """Return what a container's variables come from."""
    namespace = pod.metadata.namespace
    found: set[Ref] = set()
    for source in container.env_from:
        if source.config_map_ref is not None:
            found.add(Ref(CONFIG_MAPS, namespace, source.config_map_ref.name))
        if source.secret_ref is not None:
            found.add(Ref(SECRETS, namespace, source.secret_ref.name))
    for variable in container.env:
        value = variable.value_from
        if value is not None and value.config_map_key_ref is not None:
            found.add(Ref(CONFIG_MAPS, namespace, value.config_map_key_ref.name))
        if value is not None and value.secret_key_ref is not None:
            found.add(Ref(SECRETS, namespace, value.secret_key_ref.name))
    return frozenset(ref for ref in found if ref.name)


def volume_references(pod: Pod, volume: Volume) -> frozenset[Ref]:
    """Return what a volume's files come from."""
    sources: list[Mapping[str, Any]] = [
        {"configMap": volume.config_map, "secret": _as_projection(volume.secret)}
    ]
    if isinstance(volume.projected, Mapping):
        sources += [s for s in volume.projected.get("sources") or () if isinstance(s, Mapping)]
    namespace = pod.metadata.namespace
    found: set[Ref] = set()
    for source in sources:
        for key, kind in (("configMap", CONFIG_MAPS), ("secret", SECRETS)):
            named = source.get(key)
            if isinstance(named, Mapping) and named.get("name"):
                found.add(Ref(kind, namespace, named["name"]))
    return frozenset(found)


def _as_projection(secret: Any) -> Any:
    """Return a secret volume's source with the name where all others have it."""
    if not isinstance(secret, Mapping):
        return None
    return {**secret, "name": secret.get("secretName", "")}


def _of_containers(pod: Pod) -> Iterator[Ref]:
    for container in pod.all_containers():
        yield from env_references(pod, container)


def _of_volumes(pod: Pod) -> Iterator[Ref]:
    for volume in pod.spec.volumes:
        yield from volume_references(pod, volume)
