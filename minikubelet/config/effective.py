"""The effective configuration as /configz shows it."""

from typing import Any

from minikubelet.config.config import Config


def configz(config: Config) -> dict[str, Any]:
    """Return the body of /configz (kubelet cmd/kubelet/app/server.go setConfigz)."""
    head = {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"}
    document = {**config.document, **head}
    if headers := document.get("staticPodURLHeader"):  # they may carry credentials
        document["staticPodURLHeader"] = {name: ["<masked>"] for name in headers}
    return {"kubeletconfig": document}
