"""The effective configuration as /configz shows it."""

from typing import Any

from minikubelet.config.config import Config


def configz(config: Config) -> dict[str, Any]:
    """Return the body of GET /configz, where the kind is left out (kubelet server.go)."""
    document = {k: v for k, v in config.document.items() if k not in {"apiVersion", "kind"}}
    if headers := document.get("staticPodURLHeader"):  # they may carry credentials
        document["staticPodURLHeader"] = {name: ["<masked>"] for name in headers}
    return {"kubeletconfig": document}
