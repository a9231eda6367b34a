"""Variables and tokens in containers of a real node: from ConfigMaps, Secrets, Services."""

import base64
import http.client
import json
import time
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from minikubelet.host.cgroups import detect
from tests.e2e.administrator import path_of
from tests.e2e.agent import FOREVER, a_manifest, a_shell
from tests.e2e.cluster.objects import a_config_map, a_secret, change
from tests.e2e.workers import Worker
from tests.integration.proxy import Front

pytestmark = pytest.mark.anyio

FRONTS: dict[str, Front] = {}
KINDS = {"selfsubjectreviews": "SelfSubjectReview"}
ACCESS = "/var/run/secrets/kubernetes.io/serviceaccount"


def prepare(worker: Worker) -> None:
    """Look at the agent's requests; let no restart wait for longer than a second."""
    FRONTS[worker.node] = worker.behind_a_front()
    worker.settings["crashLoopBackOff"] = {"maxContainerRestartPeriod": "1s"}


def mounted(at: str = "/v", **source: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a volume `v` and a shell's fields that mount it."""
    return {"name": "v", **source}, {"volumeMounts": [{"name": "v", "mountPath": at}]}


async def run(worker: Worker, pod: str, script: str) -> str:
    """Run a script in container `main`; return what it wrote."""
    return await worker.exec(pod, "main", script)


async def waits_for(worker: Worker, pod: str, reason: str, message: str) -> None:
    async def waits() -> bool:
        for status in (await worker.told(pod)).get("containerStatuses", []):
            waiting = status["state"].get("waiting", {})
            if waiting.get("reason") == reason and message in waiting.get("message", ""):
                return True
        return False

    await worker.wait_until(f"{pod} waits: {reason} {message}", waits)


# variables


async def test_variables_from_config_maps_and_secrets(worker: Worker) -> None:
    """envFrom with a prefix, later ones win, one key, and what is optional and missing."""
    await worker.create(a_config_map("first", {"A": "1", "B": "1", "odd-name": "x"}))
    await worker.create(a_secret("second", {"B": "2", "C": "two words"}))

    def key(kind: str, name: str, key: str, **more: Any) -> dict[str, Any]:
        return {"valueFrom": {kind: {"name": name, "key": key, **more}}}

    env_from = [
        {"configMapRef": {"name": "first"}},
        {"secretRef": {"name": "second"}},
        {"prefix": "P_", "configMapRef": {"name": "first"}},
        {"configMapRef": {"name": "none", "optional": True}},
    ]
    env = [
        {"name": "ONE", **key("configMapKeyRef", "first", "A")},
        {"name": "TWO", **key("secretKeyRef", "second", "C")},
        {"name": "THREE", **key("secretKeyRef", "second", "none", optional=True)},
        {"name": "FOUR", **key("configMapKeyRef", "none", "A", optional=True)},
        {"name": "FIVE", "value": "$(C), $(ONE)"},
    ]
    # No shell: it would drop names that aren't its own.
    main = a_shell("main", "", envFrom=env_from, env=env) | {"command": ["env"]}
    await worker.create(a_manifest("env", main, restartPolicy="Never"))
    await worker.pod_in_phase("env", "Succeeded")
    lines = sorted((await worker.kubectl("logs", "env")).splitlines())
    others = ("KUBERNETES_", "PATH=", "HOSTNAME=", "HOME=")
    assert [line for line in lines if not line.startswith(others)] == [
        "A=1",
        "B=2",
        "C=two words",
        "FIVE=two words, 1",
        "ONE=1",
        "P_A=1",
        "P_B=1",
        "P_odd-name=x",
        "TWO=two words",
        "odd-name=x",
    ]


async def test_what_is_missing_holds_the_container_until_it_is_there(worker: Worker) -> None:
    """CreateContainerConfigError in the kubelet's words; then it starts at once."""
    ns = worker.namespace
    source = {"secretKeyRef": {"name": "late", "key": "k"}}
    env = [{"name": "X", "valueFrom": source}]
    await worker.create(a_config_map("there", {"other": "1"}))
    keyed = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "there", "key": "k"}}}]
    await worker.create(a_manifest("object", a_shell("main", f"echo $X; {FOREVER}", env=env)))
    await worker.create(a_manifest("key", a_shell("main", f"echo $X; {FOREVER}", env=keyed)))
    reason = "CreateContainerConfigError"
    await waits_for(worker, "object", reason, 'secret "late" not found')
    await waits_for(worker, "key", reason, f"couldn't find key k in ConfigMap {ns}/there")
    for pod, text in (("object", 'Error: secret "late" not found'), ("key", "Error: couldn't")):
        await worker.wait_for_events(pod, text)
    began = time.monotonic()
    await worker.create(a_secret("late", {"k": "came"}))
    await change(worker, "configmap", "there", {"data": {"k": "came"}})
    for pod in ("object", "key"):
        await worker.wait_until(f"{pod} is ready", lambda pod=pod: worker.pod_is_ready(pod))
        assert await worker.kubectl("logs", pod) == "came\n"
        assert (await worker.told(pod))["containerStatuses"][0]["restartCount"] == 0
    assert time.monotonic() - began < 5


async def test_services_as_variables(worker: Worker) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "my-web"},
        "spec": {
            "selector": {"app": "x"},
            "ports": [{"name": "http", "port": 80}, {"name": "more", "port": 81}],
        },
    }
    made = await worker.create(service)
    ip = made["spec"]["clusterIP"]
    script = "env | grep -E 'SERVICE|MY_WEB' | sort"
    # What services there are is heard by a watch of its own: the first pods may come before.
    container = a_shell("main", f"{script}; {FOREVER}")
    await worker.run_pod(a_manifest("early", container))

    async def knows() -> bool:
        name = f"links-{int(time.monotonic() * 1000)}"
        await worker.run_pod(a_manifest(name, container))
        return f"MY_WEB_SERVICE_HOST={ip}" in await worker.kubectl("logs", name)

    await worker.wait_until("a pod's variables tell of the service", knows)
    await worker.run_pod(a_manifest("linked", container))
    lines = (await worker.kubectl("logs", "linked")).splitlines()
    assert {
        f"MY_WEB_SERVICE_HOST={ip}",
        "MY_WEB_SERVICE_PORT=80",
        "MY_WEB_SERVICE_PORT_HTTP=80",
        "MY_WEB_SERVICE_PORT_MORE=81",
        f"MY_WEB_PORT=tcp://{ip}:80",
        f"MY_WEB_PORT_81_TCP=tcp://{ip}:81",
        f"MY_WEB_PORT_81_TCP_ADDR={ip}",
        "KUBERNETES_SERVICE_HOST=10.96.0.1",
        "KUBERNETES_SERVICE_PORT=443",
        "KUBERNETES_SERVICE_PORT_HTTPS=443",
    } <= set(lines)
    await worker.run_pod(a_manifest("unlinked", container, enableServiceLinks=False))
    text = await worker.kubectl("logs", "unlinked")
    assert "KUBERNETES_SERVICE_HOST=10.96.0.1" in text
    assert "MY_WEB" not in text


# tokens


async def test_a_pod_reaches_the_apiserver_with_its_own_token(worker: Worker) -> None:
    """Token, CA and namespace of kube-api-access; what the token is bound to."""
    main = a_shell("main", FOREVER)
    pod = await worker.run_pod(a_manifest("client", main))
    assert await run(worker, "client", f"cat {ACCESS}/namespace") == worker.namespace
    assert "BEGIN CERTIFICATE" in await run(worker, "client", f"cat {ACCESS}/ca.crt")
    assert await run(worker, "client", f"stat -L -c %a {ACCESS}/token") == "644\n"
    answer = await from_inside(worker, pod, "/apis/authentication.k8s.io/v1/selfsubjectreviews")
    assert answer["status"]["userInfo"]["username"] == (
        f"system:serviceaccount:{worker.namespace}:default"
    )
    claims = claims_of(await run(worker, "client", f"cat {ACCESS}/token"))
    assert claims["sub"] == f"system:serviceaccount:{worker.namespace}:default"
    bound = claims["kubernetes.io"]
    assert bound["pod"]["uid"] == pod["metadata"]["uid"]
    assert bound["node"]["name"] == worker.node
    # Bound to the pod: with it the token ends.
    token = await run(worker, "client", f"cat {ACCESS}/token")
    assert await reviewed(worker, token)
    await worker.delete("pod", "client")
    await worker.pod_gone("client")

    async def refused() -> bool:
        return not await reviewed(worker, token)

    await worker.wait_until("its token is void", refused)


async def from_inside(worker: Worker, pod: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Post to the apiserver with what a pod has: its network, its token, its CA, its variables.

    busybox speaks no cipher of the apiserver's, so that the machine's curl runs beside it.
    """
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    ca = worker.folder / "pod-ca.crt"
    ca.write_text(await run(worker, name, f"cat {ACCESS}/ca.crt"))
    token = await run(worker, name, f"cat {ACCESS}/token")
    host = await run(worker, name, "echo -n $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT")
    (container,) = await worker.containers(name, "main")
    procs = next(
        found
        for mount in detect().mounts
        for found in (mount / worker.cgroup).glob(f"**/pod{uid}/{container.id}/cgroup.procs")
    )
    kind = path.rpartition("/")[2]
    body = {"apiVersion": path.removeprefix("/apis/").rpartition("/")[0], "kind": KINDS[kind]}
    argv = ["nsenter", f"--net=/proc/{procs.read_text().split()[0]}/ns/net", "curl", "-sS"]
    argv += ["--noproxy", "*", "--max-time", "10", "--cacert", str(ca), "-d", json.dumps(body)]
    argv += ["-H", f"Authorization: Bearer {token}", "-H", "Content-Type: application/json"]
    done = await anyio.run_process([*argv, f"https://{host}{path}"], check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def claims_of(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims


async def reviewed(worker: Worker, token: str) -> bool:
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    }
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    status, answer = await worker.admin.request("POST", path, review)
    assert status == http.client.CREATED
    return bool(answer["status"].get("authenticated"))


async def test_projected_tokens_of_other_audiences(worker: Worker) -> None:
    """One request a token, however many containers and volumes; user and group may read it."""
    source = {"audience": "vault", "expirationSeconds": 600, "path": "t"}
    volume, mount = mounted(projected={"sources": [{"serviceAccountToken": source}]})
    context = {"runAsUser": 1000, "fsGroup": 4444}
    main = a_shell("main", FOREVER, **mount)
    other = a_shell("other", FOREVER, **mount)
    pod = a_manifest("vault", main, other, volumes=[volume], securityContext=context)
    await worker.run_pod(pod)
    claims = claims_of(await run(worker, "vault", "cat /v/t"))
    assert claims["aud"] == ["vault"]
    assert claims["exp"] - claims["iat"] == 600
    assert await run(worker, "vault", "stat -L -c '%u %g %a' /v/t") == "1000 4444 640\n"
    front = FRONTS[worker.node]
    path = path_of("serviceaccount", worker.namespace, "default", "token")
    assert sum(seen.path == path for seen in front.requests) == 2  # and kube-api-access


async def test_no_token_where_none_is_wanted(worker: Worker) -> None:
    main = a_shell("main", FOREVER)
    await worker.run_pod(a_manifest("without", main, automountServiceAccountToken=False))
    assert await run(worker, "without", f"ls {ACCESS} 2>/dev/null") == ""
    front = FRONTS[worker.node]
    path = path_of("serviceaccount", worker.namespace, "default", "token")
    assert not [seen for seen in front.requests if seen.path == path]
