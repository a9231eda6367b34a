"""The variables of Services, as Docker's links had them: pure.

Of the pod's own namespace where enableServiceLinks says so, and always default/kubernetes.
Source: kubelet envvars/envvars.go, kubelet_pods.go getServiceEnvVarMap.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Service = Mapping[str, Any]


def service_env(services: Iterable[Service], namespace: str, *, links: bool) -> dict[str, str]:
    """Return the variables for a pod of a namespace."""
    chosen: dict[str, Service] = {}
    for service in services:
        meta = service["metadata"]
        spec = service.get("spec", {})
        if spec.get("clusterIP", "") in ("", "None"):
            continue
        name, is_own = meta["name"], links and meta["namespace"] == namespace
        is_master = (meta["namespace"], name) == ("default", "kubernetes")
        # A service of the pod's namespace goes before the cluster's own of the same name.
        if is_own or (is_master and name not in chosen):
            chosen[name] = service
    env: dict[str, str] = {}
    for name in sorted(chosen):
        env |= _variables(name, chosen[name]["spec"])
    return env


def _variables(name: str, spec: Service) -> dict[str, str]:
    ports = spec.get("ports") or ()
    if not ports:
        return {}
    prefix, address = _upper(name), spec["clusterIP"]
    env = {
        f"{prefix}_SERVICE_HOST": address,
        f"{prefix}_SERVICE_PORT": str(ports[0]["port"]),
    }
    for port in ports:
        if port.get("name"):
            env[f"{prefix}_SERVICE_PORT_{_upper(port['name'])}"] = str(port["port"])
    for index, port in enumerate(ports):
        protocol = port.get("protocol") or "TCP"
        url = f"{protocol.lower()}://{_bracketed(address)}:{port['port']}"
        if index == 0:
            env[f"{prefix}_PORT"] = url
        one = f"{prefix}_PORT_{port['port']}_{protocol.upper()}"
        env |= {
            one: url,
            f"{one}_PROTO": protocol.lower(),
            f"{one}_PORT": str(port["port"]),
            f"{one}_ADDR": address,
        }
    return env


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
