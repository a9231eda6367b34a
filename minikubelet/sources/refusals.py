"""What a static pod may not ask for: API objects, and what this agent can't do yet.

Source of the texts: pkg/api/pod/util.go HasAPIObjectReference, kubelet config/common.go.
"""

from collections.abc import Iterator, Mapping

from minikubelet.api.pod import Pod, Volume
from minikubelet.api.problems import Problem, forbidden, join

_API_VOLUMES = {
    "config_map": ("configMap", "configmaps (via configmap volumes)"),
    "secret": ("secret", "secrets (via secret volumes)"),
    "csi": ("csi", "csidrivers (via CSI volumes)"),
    "glusterfs": ("glusterfs", "endpoints (via glusterFS volumes)"),
    "persistent_volume_claim": ("persistentVolumeClaim", "persistentvolumeclaims"),
    "ephemeral": ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    "azure_file": ("azureFile", "secrets (via azureFile volumes)"),
}
_API_PROJECTIONS = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}
_MOUNTABLE = frozenset({"name", "empty_dir", "host_path"})
_VOLUME_SECRET_REFS = ("secretRef", "nodePublishSecretRef", "secretName")


def api_references(pod: Pod) -> list[Problem]:
    """Return a problem for each reference to an API object, in the kubelet's order of checks."""
    checks = (_accounts, _secrets, _config_maps, _resource_claims, _volumes)
    return [
        Problem(path, f"static pods may not reference {what}")
        for check in checks
        for path, what in check(pod)
    ]


Found = Iterator[tuple[str, str]]


def _accounts(pod: Pod) -> Found:
    if pod.spec.service_account_name:
        yield "spec.serviceAccountName", "serviceaccounts"


def _secrets(pod: Pod) -> Found:
    for index, _ in enumerate(pod.spec.image_pull_secrets):
        yield f"spec.imagePullSecrets[{index}]", "secrets"
    yield from _environment(pod, "secret", "secrets")
    for index, volume in enumerate(pod.spec.volumes):
        for name in volume.__struct_fields__:
            source = getattr(volume, name)
            if isinstance(source, Mapping) and name not in _API_VOLUMES:
                for ref in _VOLUME_SECRET_REFS:
                    if source.get(ref):
                        yield f"spec.volumes[{index}].{_json_name(name)}.{ref}", "secrets"


def _config_maps(pod: Pod) -> Found:
    yield from _environment(pod, "config_map", "configmaps")


def _environment(pod: Pod, kind: str, what: str) -> Found:
    json_kind = "secret" if kind == "secret" else "configMap"
    for path, container in pod.containers_with_paths():
        for index, source in enumerate(container.env_from):
            if getattr(source, f"{kind}_ref") is not None:
                yield join(path, "envFrom", index, f"{json_kind}Ref"), what
        for index, variable in enumerate(container.env):
            value = variable.value_from
            if value is not None and getattr(value, f"{kind}_key_ref") is not None:
                yield join(path, "env", index, "valueFrom", f"{json_kind}KeyRef"), what


def _resource_claims(pod: Pod) -> Found:
    if pod.spec.resource_claims:
        yield "spec.resourceClaims", "resourceclaims"


def _volumes(pod: Pod) -> Found:
    for index, volume in enumerate(pod.spec.volumes):
        path = f"spec.volumes[{index}]"
        for name, (json_name, what) in _API_VOLUMES.items():
            if getattr(volume, name) is not None:
                yield join(path, json_name), what
        projected = volume.projected if isinstance(volume.projected, Mapping) else {}
        for number, source in enumerate(projected.get("sources") or ()):
            for kind in source if isinstance(source, Mapping) else ():
                if kind in _API_PROJECTIONS:
                    yield join(path, "projected", "sources", number, kind), _API_PROJECTIONS[kind]


def unsupported(pod: Pod) -> list[Problem]:
    """Return a problem for each thing that the kubelet would do and this agent doesn't."""
    problems = [
        forbidden(
            f"spec.volumes[{index}].{_json_name(name)}",
            "this volume type isn't supported; use emptyDir or hostPath",
        )
        for index, volume in enumerate(pod.spec.volumes)
        for name in _sources(volume)
        if name not in _MOUNTABLE
        and name not in _API_VOLUMES
        and not _refused_projection(volume, name)
    ]
    if pod.spec.ephemeral_containers:
        problems.append(
            forbidden("spec.ephemeralContainers", "a manifest cannot have ephemeral containers")
        )
    return problems


def _sources(volume: Volume) -> list[str]:
    return [n for n in volume.__struct_fields__ if n != "name" and getattr(volume, n) is not None]


def _refused_projection(volume: Volume, name: str) -> bool:
    if name != "projected" or not isinstance(volume.projected, Mapping):
        return False
    return any(
        kind in _API_PROJECTIONS
        for source in volume.projected.get("sources") or ()
        for kind in source
    )


def _json_name(name: str) -> str:
    encoded = dict(zip(Volume.__struct_fields__, Volume.__struct_encode_fields__, strict=True))
    return encoded[name]
