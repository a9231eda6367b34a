"""Nodes built as kind builds them: they join, run what they are given, are drained, come back.

There is no kube-proxy and no DNS: pods reach each other by address. The apiserver's own Service is
translated by the router of the cluster's network (hack/cluster), the rest of kube-proxy isn't.
"""

import signal
import time
from typing import Any

import pytest

from minikubelet.host.cgroups import detect
from tests.containerds import BUSYBOX
from tests.e2e.agent import FOREVER
from tests.e2e.kindlike.conftest import Nodes

pytestmark = pytest.mark.timeout(120)  # the first test waits for the cluster and both nodes

WEB = """
mkdir -p /www
echo $NAME on $NODE >/www/index.html
httpd -f -v -p 8080 -h /www &
trap 'kill $!; exit 0' TERM
wait
"""


def a_template(app: str, script: str, **spec: Any) -> dict[str, Any]:
    """Return a pod template whose one container runs a shell script."""
    variables = {"NAME": "metadata.name", "NODE": "spec.nodeName"}
    container = {
        "name": "main",
        "image": BUSYBOX,
        "command": ["/bin/sh", "-c", script],
        "env": [
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in variables.items()
        ],
    }
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def a_set(kind: str, app: str, script: str = FOREVER, **spec: Any) -> dict[str, Any]:
    """Return a Deployment or a DaemonSet."""
    selector = {"matchLabels": {"app": app}}
    template = a_template(app, script)
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": app},
        "spec": {"selector": selector, "template": template, **spec},
    }


def deploy(nodes: Nodes, replicas: int = 6) -> dict[str, list[dict[str, Any]]]:
    """Run the Deployment `web`; return its pods by node."""
    nodes.apply(a_set("Deployment", "web", WEB, replicas=replicas))
    nodes.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    return by_node(nodes, "web")


def by_node(nodes: Nodes, app: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for pod in nodes.pods(app):
        found.setdefault(pod["spec"]["nodeName"], []).append(pod)
    return found


def test_the_nodes_join_by_tls_bootstrap(nodes: Nodes) -> None:
    requests = nodes.get("certificatesigningrequests")["items"]
    for node in nodes:
        (request,) = [r for r in requests if node.name in subject_of(nodes, r)]
        conditions = [c["type"] for c in request["status"]["conditions"]]
        assert request["spec"]["username"].startswith("system:bootstrap:")
        assert (conditions, bool(request["status"]["certificate"])) == (["Approved"], True)
        kubeconfig = node.path("etc/kubernetes/kubelet.conf").read_text()
        assert "/var/lib/kubelet/pki/kubelet-client-current.pem" in kubeconfig
        assert node.cluster.server in kubeconfig
        assert node.exec("openssl", "x509", "-noout", "-subject", "-in", PEM).split() == (
            f"subject=O = system:nodes, CN = system:node:{node.name}".split()
        )


PEM = "/var/lib/kubelet/pki/kubelet-client-current.pem"


def subject_of(nodes: Nodes, request: dict[str, Any]) -> str:
    """Return the subject that a CSR asks for."""
    node = nodes.nodes[0]
    text = node.exec(
        "sh", "-c", "base64 -d | openssl req -noout -subject", stdin=request["spec"]["request"]
    )
    return text.strip()


def test_a_node_says_what_kind_told_it(nodes: Nodes) -> None:
    for node in nodes:
        told = nodes.get("node", node.name)
        addresses = {each["type"]: each["address"] for each in told["status"]["addresses"]}
        assert addresses == {"InternalIP": node.address, "Hostname": node.name}
        assert told["spec"]["providerID"] == f"kind://docker/kindlike/{node.name}"
        assert told["spec"]["podCIDR"].startswith("10.244.")
        assert "taints" not in told["spec"]
        # 0 % of hard eviction holds nothing back.
        assert told["status"]["capacity"] == told["status"]["allocatable"]
        handlers = {each["name"] for each in told["status"]["runtimeHandlers"]}
        assert {"runc", "test-handler"} <= handlers
        lease = nodes.get("lease", node.name, "--namespace=kube-node-lease")
        assert lease["metadata"]["ownerReferences"][0]["uid"] == told["metadata"]["uid"]
        assert node.exec("curl", "-s", "http://127.0.0.1:10248/healthz") == "ok"
        # kubeadm reads the version so before it joins.
        assert node.exec("/usr/bin/kubelet", "--version").startswith("Kubernetes v1.36.")


def test_a_node_is_not_ready_until_it_has_a_network(nodes: Nodes) -> None:
    for node in nodes:
        before = nodes.before_network[node.name]
        assert (before["status"], before["reason"]) == ("False", "KubeletNotReady")
        assert "reason:NetworkPluginNotReady" in before["message"]
        after = nodes.ready(node)
        assert (after["status"], after["reason"]) == ("True", "KubeletReady")


def test_the_cgroup_driver_is_the_runtimes(nodes: Nodes) -> None:
    # The file says systemd, as kubeadm wrote it; containerd says cgroupfs and counts.
    deploy(nodes)
    for node in nodes:
        top = detect().mounts[0] / node.cgroup / "kubelet"
        assert [each.name for each in top.iterdir() if each.is_dir()] == ["kubepods"]


def test_a_deployment_spreads_over_both(nodes: Nodes) -> None:
    found = deploy(nodes)
    assert {name: len(pods) for name, pods in found.items()} == dict.fromkeys(nodes.names, 3)
    for name, pods in found.items():
        cidr = nodes.get("node", name)["spec"]["podCIDR"].removesuffix(".0/24")
        assert all(pod["status"]["podIP"].startswith(f"{cidr}.") for pod in pods)


def test_pods_of_both_nodes_reach_each_other(nodes: Nodes) -> None:
    found = deploy(nodes, 2)
    first, second = (pods[0] for pods in found.values())
    for one, other in ((first, second), (second, first)):
        url = f"http://{other['status']['podIP']}:8080/"
        page = nodes.kubectl("exec", one["metadata"]["name"], "--", "wget", "-qO-", url)
        assert page == f"{other['metadata']['name']} on {other['spec']['nodeName']}\n"
        # The other saw the pod's own address: between nodes nothing is translated.
        seen = nodes.kubectl("logs", other["metadata"]["name"])
        assert f"{one['status']['podIP']}]:" in seen


def test_pods_reach_the_apiserver(nodes: Nodes) -> None:
    found = deploy(nodes, 2)
    for (pod,) in found.values():
        answer = nodes.kubectl("exec", pod["metadata"]["name"], "--", "sh", "-c", ASK)
        assert "Client sent an HTTP request to an HTTPS server." in answer


ASK = r"""
printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT
"""


def test_a_daemonset_and_a_job(nodes: Nodes) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sum"},
        "spec": {
            "completions": 4,
            "parallelism": 2,
            "template": a_template("sum", "echo done on $NODE", restartPolicy="Never"),
        },
    }
    nodes.apply(a_set("DaemonSet", "each", "echo here; " + FOREVER), job)
    nodes.kubectl("rollout", "status", "daemonset/each", "--timeout=30s")
    nodes.kubectl("wait", "job/sum", "--for=condition=Complete", "--timeout=30s")
    found = by_node(nodes, "each")
    assert {name: len(pods) for name, pods in found.items()} == dict.fromkeys(nodes.names, 1)
    ended = nodes.pods("sum")
    assert {pod["status"]["phase"] for pod in ended} == {"Succeeded"}
    assert len(ended) == 4
    for pod in ended:
        said = nodes.kubectl("logs", pod["metadata"]["name"])
        assert said == f"done on {pod['spec']['nodeName']}\n"


def test_kubectl_logs_and_exec_reach_both(nodes: Nodes) -> None:
    found = deploy(nodes, 2)
    for name, (pod,) in found.items():
        own = pod["metadata"]["name"]
        nodes.kubectl("exec", own, "--", "wget", "-qO-", "http://127.0.0.1:8080/")
        assert "response:200" in nodes.kubectl("logs", own)
        said = nodes.kubectl("exec", "-i", own, "--", "sh", "-c", "cat; echo $NODE", stdin="x\n")
        assert said == f"x\n{name}\n"


def test_rollout_restart_replaces_every_pod(nodes: Nodes) -> None:
    before = {pod["metadata"]["name"] for pods in deploy(nodes).values() for pod in pods}
    nodes.kubectl("rollout", "restart", "deployment/web")
    nodes.kubectl("rollout", "status", "deployment/web", "--timeout=40s")
    after = by_node(nodes, "web")
    assert not before & {pod["metadata"]["name"] for pods in after.values() for pod in pods}
    assert (sum(map(len, after.values())), set(after)) == (6, nodes.names)


def test_drain_empties_a_node(nodes: Nodes) -> None:
    nodes.apply(a_set("DaemonSet", "each"))
    deploy(nodes)
    nodes.kubectl("rollout", "status", "daemonset/each", "--timeout=30s")
    first, second = nodes
    nodes.kubectl("drain", first.name, "--ignore-daemonsets", "--timeout=40s")
    nodes.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert set(by_node(nodes, "web")) == {second.name}
    assert set(by_node(nodes, "each")) == nodes.names
    # What was evicted is gone from the node, too, not only from the API.
    assert sandboxes(nodes, first.name) == ["each"]
    nodes.kubectl("uncordon", first.name)
    nodes.kubectl("scale", "deployment/web", "--replicas=8")
    nodes.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert set(by_node(nodes, "web")) == nodes.names


def sandboxes(nodes: Nodes, name: str) -> list[str]:
    """Return the apps of the test's pods whose folders are on the node."""
    folders = nodes.by_name(name).path("var/log/pods").glob(f"{nodes.namespace}_*")
    return sorted(
        folder.name.removeprefix(f"{nodes.namespace}_").split("-")[0] for folder in folders
    )


def test_a_killed_agent_comes_back_and_the_pods_stay(nodes: Nodes) -> None:
    before = lives(deploy(nodes))
    for node in nodes:
        node.end_agent(signal.SIGKILL)
    for node in nodes:
        node.wait_until("the agent is well again", node.healthy)
        # kubeadm has removed the bootstrap kubeconfig that the command line still names.
        assert not node.path("etc/kubernetes/bootstrap-kubelet.conf").exists()
    for name, (pod, *_) in by_node(nodes, "web").items():
        said = nodes.kubectl("exec", pod["metadata"]["name"], "--", "sh", "-c", "echo $NODE")
        assert said == f"{name}\n"
    time.sleep(1)  # a wrong restart would follow the first sync
    assert lives(by_node(nodes, "web")) == before
    assert {nodes.ready(node)["status"] for node in nodes} == {"True"}


def lives(found: dict[str, list[dict[str, Any]]]) -> dict[str, tuple[str, int]]:
    """Return the container and its restarts of each pod."""
    return {
        pod["metadata"]["name"]: (status["containerID"], status["restartCount"])
        for pods in found.values()
        for pod in pods
        for status in pod["status"]["containerStatuses"]
    }


def test_a_node_that_went_down_comes_up_again(nodes: Nodes) -> None:
    """As after `docker stop` and `docker start` of a kind node: the same disk, new processes."""
    before = lives(deploy(nodes, 2))
    first, _ = nodes
    first.power_off()
    first.boot()
    first.wait_until("the agent is well", first.healthy)
    first.wait_until("its pod runs again", lambda: restarted(nodes, before, first.name))
    nodes.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    pods = by_node(nodes, "web")
    assert lives(pods).keys() == before.keys()
    (pod,) = pods[first.name]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
    page = nodes.kubectl(
        "exec", pods["kindlike-2"][0]["metadata"]["name"], "--",
        "wget", "-qO-", f"http://{pod['status']['podIP']}:8080/",
    )  # fmt: skip
    assert page.endswith(f"on {first.name}\n")


def restarted(nodes: Nodes, before: dict[str, tuple[str, int]], name: str) -> bool:
    """Tell whether each pod of a node has another container than before."""
    now = lives({name: by_node(nodes, "web").get(name, [])})
    return bool(now) and all(now[pod][0] != before.get(pod, ("", 0))[0] for pod in now)
