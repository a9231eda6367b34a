"""What kindnet does in a kind cluster, as a hostNetwork pod that sees the node's file system.

Watches Nodes with its service account: when its own has a pod CIDR, writes the CNI configuration
(before, the node's network isn't ready) and lets pods reach the rest of the world with the node's
address; for each other node there is a route to its pods. It is run by the node's own Python.
"""

import json
import os
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CA = "/etc/kubernetes/pki/ca.crt"
CONFIG = Path("/etc/cni/net.d/10-kindnet.conflist")
PODS = "10.244.0.0/16"
LEAVING = ["POSTROUTING", "-s", PODS, "!", "-d", PODS, "-j", "MASQUERADE"]


def events(name: str) -> Iterator[dict[str, Any]]:
    """Yield each Node, then each as it changes, until the apiserver ends the watch."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    request = urllib.request.Request(
        f"https://{host}:{port}/api/v1/nodes?watch=true&resourceVersion=0",
        headers={"Authorization": f"Bearer {os.environ['TOKEN']}", "User-Agent": name},
    )
    context = ssl.create_default_context(cafile=CA)
    with urllib.request.urlopen(request, context=context, timeout=300) as answer:  # noqa: S310
        for line in answer:
            yield json.loads(line)["object"]


def conflist(cidr: str) -> str:
    """Return the CNI configuration of a node with this pod CIDR."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": cidr}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": ipam,
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "0.4.0", "name": "kindnet", "plugins": [bridge, portmap]})


def follow(own: str) -> None:
    """Follow the Nodes."""
    for node in events(own):
        cidr = node["spec"].get("podCIDR")
        addresses = node.get("status", {}).get("addresses", ())
        internal = [each["address"] for each in addresses if each["type"] == "InternalIP"]
        if not cidr or not internal:
            continue
        if node["metadata"]["name"] == own:
            part = CONFIG.with_suffix(".part")
            part.write_text(conflist(cidr))
            part.rename(CONFIG)
            say(f"this node's pods are {cidr}")
        else:
            run("ip", "route", "replace", cidr, "via", internal[0])


def run(*argv: str) -> int:
    return subprocess.run(argv, check=False).returncode


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Follow the Nodes for ever."""
    CONFIG.parent.mkdir(parents=True, exist_ok=True)
    if run("iptables", "-w", "10", "-t", "nat", "-C", *LEAVING):
        run("iptables", "-w", "10", "-t", "nat", "-A", *LEAVING)
    while True:
        try:
            follow(os.environ["NODE"])
        except (OSError, KeyError, ValueError) as error:
            say(f"cannot follow the nodes: {error!r}")
        time.sleep(1)


if __name__ == "__main__":
    main()
