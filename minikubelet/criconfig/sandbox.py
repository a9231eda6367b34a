"""PodSandboxConfig: what the runtime needs to make a pod's namespaces, network and cgroup parent.

Source: kuberuntime_sandbox.go generatePodSandboxConfig.
"""

import posixpath
from collections.abc import Iterator

from minikubelet.api.pod import ContainerPort, Pod
from minikubelet.cri import messages as m
from minikubelet.criconfig.cgroup import pod_cgroup
from minikubelet.criconfig.context import NodeContext
from minikubelet.criconfig.hosts import kernel_hostname
from minikubelet.criconfig.labels import sandbox_labels
from minikubelet.criconfig.resources import sandbox_overhead, sandbox_resources
from minikubelet.criconfig.security import sandbox_security

_PROTOCOLS = {"TCP": m.TCP, "UDP": m.UDP, "SCTP": m.SCTP}


def pod_sandbox_config(
    pod: Pod, attempt: int, node: NodeContext, dns: m.DNSConfig
) -> m.PodSandboxConfig:
    """Return the config of the pod's sandbox number `attempt`. Raises ConfigProblem."""
    meta = pod.metadata
    return m.PodSandboxConfig(
        metadata=m.PodSandboxMetadata(
            name=meta.name, namespace=meta.namespace, uid=meta.uid, attempt=attempt
        ),
        # Runtimes refuse a hostname in the node's own UTS namespace.
        hostname="" if pod.spec.host_network else kernel_hostname(pod, node),
        log_directory=pod_log_directory(pod, node),
        dns_config=dns,
        port_mappings=_port_mappings(pod),
        labels=sandbox_labels(pod),
        annotations=dict(meta.annotations),
        linux=m.LinuxPodSandboxConfig(
            cgroup_parent=pod_cgroup(pod, node),
            sysctls=_sysctls(pod),
            security_context=sandbox_security(pod),
            overhead=sandbox_overhead(pod, node),
            resources=sandbox_resources(pod, node),
        ),
    )


def pod_log_directory(pod: Pod, node: NodeContext) -> str:
    """Return the folder of the pod's logs on the node."""
    meta = pod.metadata
    return posixpath.join(node.pod_logs_dir, f"{meta.namespace}_{meta.name}_{meta.uid}")


def _sysctls(pod: Pod) -> dict[str, str]:
    context = pod.spec.security_context
    sysctls = context.sysctls if context is not None else ()
    return {dotted_sysctl(sysctl.name): sysctl.value for sysctl in sysctls}


def dotted_sysctl(name: str) -> str:
    """Return the name with dots between its parts; dots inside a part of `net/x/eth0.1` turn."""
    first = next((character for character in name if character in "./"), ".")
    return name if first == "." else name.translate({ord("/"): ".", ord("."): "/"})


def _port_mappings(pod: Pod) -> Iterator[m.PortMapping]:
    """Yield each port once a container; hostPort 0 only informs, nothing is published for it."""
    for container in pod.spec.containers:
        seen: set[str] = set()
        for port in container.ports:
            key = port.name or _port_key(port)
            if key in seen:
                continue
            seen.add(key)
            yield m.PortMapping(
                protocol=_PROTOCOLS.get(port.protocol, m.TCP),
                container_port=port.container_port,
                host_port=port.host_port,
                host_ip=port.host_ip,
            )


def _port_key(port: ContainerPort) -> str:
    family = "any"
    if port.host_ip:
        family = "v6" if ":" in port.host_ip else "v4"
    protocol = port.protocol or "TCP"
    return f"{family}-{protocol}-{port.host_ip}:{port.container_port}:{port.host_port}"
