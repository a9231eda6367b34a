"""Requests to a real kube-apiserver: who we are, limits, errors, new credentials."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from minikubelet import __version__
from minikubelet.kube import kubeconfig
from minikubelet.kube.api import Pool, core_path
from minikubelet.kube.client import Connection
from minikubelet.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from minikubelet.kube.kubeconfig import ExecPlugin, Kubeconfig, KubeconfigError, Material, User
from tests.clusters import Cluster
from tests.integration.conftest import Connect, material, through, username, write
from tests.integration.proxy import Front, Wire

pytestmark = [pytest.mark.anyio, pytest.mark.root]

NAMESPACE = "/api/v1/namespaces/default"


@pytest.fixture
def front(apiserver: Cluster) -> Iterator[Front]:
    with Front(apiserver, apiserver.admin) as proxy:
        yield proxy


async def a_token(api: Connection, account: str) -> str:
    """Return a token of a new ServiceAccount."""
    path = core_path("default", "serviceaccounts")
    await api.request("POST", path, body={"metadata": {"name": account}})
    answer = await api.request("POST", f"{path}/{account}/token", body={"spec": {}})
    token: str = answer["status"]["token"]
    return token


def user_of(account: str) -> str:
    return f"system:serviceaccount:default:{account}"


# --- who we are ---------------------------------------------------------------------------------


async def test_a_client_certificate(connected: Connect, apiserver: Cluster, tmp_path: Path) -> None:
    keys = apiserver.keys("files", "/O=system:nodes/CN=system:node:files", "clientAuth")
    combined = tmp_path / "current.pem"
    combined.write_bytes(keys.certificate.read_bytes() + keys.key.read_bytes())
    for certificate, key in [(keys.certificate, keys.key), (combined, combined)]:
        user = {"client-certificate": str(certificate), "client-key": str(key)}
        file = write(tmp_path / "kubelet.conf", apiserver.server, apiserver.ca, user)
        assert await username(await connected(kubeconfig.read(file))) == "system:node:files"


async def test_inline_data(connected: Connect, apiserver: Cluster) -> None:
    file = apiserver.kubelet_kubeconfig("inline")
    assert await username(await connected(kubeconfig.read(file))) == "system:node:inline"


async def test_a_bootstrap_token(connected: Connect, apiserver: Cluster) -> None:
    connection = await connected(kubeconfig.read(apiserver.bootstrap_kubeconfig))
    assert (await username(connection)).startswith("system:bootstrap:")


async def test_in_cluster(
    connected: Connect, api: Connection, apiserver: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(await a_token(api, "pod"))
    (tmp_path / "ca.crt").write_bytes(apiserver.ca.read_bytes())
    environ = {
        "KUBERNETES_SERVICE_HOST": apiserver.address,
        "KUBERNETES_SERVICE_PORT": "6443",
    }
    connection = await connected(kubeconfig.in_cluster(environ, tmp_path))
    assert await username(connection) == user_of("pod")


@pytest.mark.parametrize("way", ["token", "certificate"])
async def test_an_exec_plugin(
    connected: Connect, api: Connection, apiserver: Cluster, tmp_path: Path, way: str
) -> None:
    if way == "token":
        status, expected = {"token": await a_token(api, "plugin")}, user_of("plugin")
    else:
        keys = apiserver.keys("plugin", "/CN=plugin", "clientAuth")
        status = {
            "clientCertificateData": keys.certificate.read_text(),
            "clientKeyData": keys.key.read_text(),
        }
        expected = "plugin"
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    (tmp_path / "answer").write_text(json.dumps({**answer, "status": status}))
    plugin = {
        "apiVersion": answer["apiVersion"],
        "command": "cat",
        "args": [str(tmp_path / "answer")],
    }
    file = write(tmp_path / "k", apiserver.server, apiserver.ca, {"exec": plugin})
    assert await username(await connected(kubeconfig.read(file))) == expected


async def test_another_name_of_the_server_and_no_verification(
    connected: Connect, config: Kubeconfig
) -> None:
    wrong = Kubeconfig(config.origin, config.server, config.ca, "example.com", user=config.user)
    with pytest.raises(Unavailable, match=r"example\.com"):
        await username(await connected(wrong))
    right = Kubeconfig(config.origin, config.server, config.ca, "kubernetes", user=config.user)
    assert await username(await connected(right)) == "kubernetes-admin"
    insecure = Kubeconfig(
        config.origin, config.server, insecure_skip_tls_verify=True, user=config.user
    )
    assert await username(await connected(insecure)) == "kubernetes-admin"


async def test_an_apiserver_of_another_authority_is_not_trusted(
    connected: Connect, config: Kubeconfig
) -> None:
    strange = Kubeconfig(config.origin, config.server, user=config.user)
    with pytest.raises(Unavailable, match=f"cannot reach the apiserver {config.server}: .*verif"):
        await username(await connected(strange))


@pytest.mark.parametrize(
    ("field", "content", "problem"),
    [
        ("certificate-authority", "no PEM", "certificate-authority .*: no start line"),
        ("client-certificate", "no PEM", "client-certificate .* with client-key .*: .*PEM"),
        ("client-key", "other", "client-certificate .* with client-key .*MISMATCH"),
    ],
)
async def test_material_that_does_not_fit_is_named(
    connected: Connect, apiserver: Cluster, tmp_path: Path, field: str, content: str, problem: str
) -> None:
    bad = tmp_path / "bad"
    other = apiserver.keys("other", "/CN=other", "clientAuth").key.read_text()
    bad.write_text(other if content == "other" else content)
    paths = {
        "certificate-authority": apiserver.ca,
        "client-certificate": apiserver.admin.certificate,
        "client-key": apiserver.admin.key,
        field: bad,
    }
    user = {name: str(paths[name]) for name in ("client-certificate", "client-key")}
    ca = paths["certificate-authority"]
    with pytest.raises(KubeconfigError, match=f"cannot use kubeconfig {tmp_path}/k: {problem}"):
        await connected(kubeconfig.read(write(tmp_path / "k", apiserver.server, ca, user)))


async def test_an_unknown_token_is_401_and_a_node_may_not_do_all(
    connected: Connect, apiserver: Cluster, config: Kubeconfig
) -> None:
    nobody = await connected(through(config, config.server, User(token="nobody")))
    with pytest.raises(Unauthorized):
        await nobody.request("GET", NAMESPACE)
    node = await connected(kubeconfig.read(apiserver.kubelet_kubeconfig("inline")))
    with pytest.raises(Forbidden, match=r"system:node:inline"):
        await node.request("GET", core_path("default", "secrets"))


# --- new credentials ----------------------------------------------------------------------------


async def test_reload_takes_a_rotated_certificate_and_drops_the_connections(
    connected: Connect, apiserver: Cluster, tmp_path: Path
) -> None:
    current = tmp_path / "kubelet-client-current.pem"
    for name in ("before", "after"):
        rotate(apiserver, tmp_path / name, name)
    current.symlink_to(tmp_path / "before")
    user = User(material(current), material(current))
    with Wire((apiserver.address, 6443)) as wire:
        config = Kubeconfig("k", wire.url, material(apiserver.ca), user=user)
        connection = await connected(config)
        assert await username(connection) == "before"
        current.unlink()
        current.symlink_to(tmp_path / "after")
        assert await username(connection) == "before"
        await connection.reload()
        assert await username(connection) == "after"
        assert wire.accepted == 2
        # A certificate that is not readable changes nothing.
        current.unlink()
        with pytest.raises(KubeconfigError, match=f"cannot read client-certificate {current}"):
            await connection.reload()
        assert await username(connection) == "after"


@dataclass
class Skipping:
    """A clock that a test puts forward."""

    ahead: float = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def wall_ns(self) -> int:
        return time.time_ns() + int(self.ahead * 1e9)


async def test_changed_files_are_noticed_within_a_minute_of_traffic(
    connected: Connect, apiserver: Cluster, api: Connection, tmp_path: Path
) -> None:
    clock, file, token = Skipping(), tmp_path / "client.pem", tmp_path / "token"
    token.write_text(await a_token(api, "earlier"))
    by_token, by_certificate = [
        await connected(
            Kubeconfig("k", apiserver.server, material(apiserver.ca), user=user), clock=clock
        )
        for user in (
            User(token_file=str(token)),
            User(rotate(apiserver, file, "earlier"), material(file)),
        )
    ]
    assert await username(by_certificate) == "earlier"
    assert await username(by_token) == user_of("earlier")
    rotate(apiserver, file, "later")
    token.write_text(await a_token(api, "later"))
    clock.ahead = 50
    assert await username(by_certificate) == "earlier"
    assert await username(by_token) == user_of("earlier")
    clock.ahead = 61
    assert await username(by_certificate) == "later"
    assert await username(by_token) == user_of("later")
    # Files that are gone for a while leave the last credential in use.
    file.unlink()
    token.unlink()
    clock.ahead = 130
    assert await username(by_certificate) == "later"
    assert await username(by_token) == user_of("later")


def rotate(apiserver: Cluster, file: Path, name: str) -> Material:
    """Write the certificate of a user, with its key, in one file."""
    keys = apiserver.keys(name, f"/CN={name}", "clientAuth")
    file.write_bytes(keys.certificate.read_bytes() + keys.key.read_bytes())
    return material(file)


async def test_a_refused_token_is_read_again_once(
    connected: Connect, api: Connection, apiserver: Cluster, config: Kubeconfig, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(await a_token(api, "first"))
    with Front(apiserver) as front:
        user = User(token_file=str(file))
        connection = await connected(through(config, front.url, user))
        assert await username(connection) == user_of("first")
        # The apiserver itself remembers a token for 10 s after it has ended.
        front.answer(401)
        with pytest.raises(Unauthorized):
            await username(connection)
        file.write_text(await a_token(api, "second"))
        assert await username(connection) == user_of("first")
        front.answer(401)
        assert await username(connection) == user_of("second")
        assert len(front.requests) == 5


async def test_many_refused_at_once_all_go_on_with_the_new_token(
    connected: Connect, api: Connection, apiserver: Cluster, config: Kubeconfig, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("over")
    names = []
    with Front(apiserver) as front:
        connection = await connected(through(config, front.url, User(token_file=str(file))))
        file.write_text(await a_token(api, "fresh"))

        async def ask() -> None:
            names.append(await username(connection))

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(ask)
        assert names == [user_of("fresh")] * 10
        assert len(front.requests) == 20


async def test_many_refused_at_once_run_a_plugin_once(
    connected: Connect, config: Kubeconfig, tmp_path: Path
) -> None:
    plugin = tmp_path / "login"
    plugin.write_text(
        f"#!/bin/sh\necho >>{tmp_path}/runs\ncat <<JSON\n"
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": {"token": "wrong"}}\nJSON\n'
    )
    plugin.chmod(0o755)
    user = User(exec_plugin=ExecPlugin(str(plugin), "client.authentication.k8s.io/v1"))
    connection = await connected(through(config, config.server, user))
    refused = []

    async def ask() -> None:
        with pytest.raises(Unauthorized):
            await connection.request("GET", NAMESPACE)
        refused.append(1)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(ask)
    assert len(refused) == 20
    assert (tmp_path / "runs").read_text().count("\n") == 2


async def test_a_plugin_that_fails_makes_the_apiserver_unavailable(
    connected: Connect, config: Kubeconfig
) -> None:
    user = User(exec_plugin=ExecPlugin("/bin/false", "client.authentication.k8s.io/v1"))
    connection = await connected(through(config, config.server, user))
    with pytest.raises(Unavailable, match=r"cannot get a credential from exec: .*/bin/false"):
        await connection.request("GET", NAMESPACE)


# --- requests -----------------------------------------------------------------------------------


async def test_the_server_tells_its_version(api: Connection) -> None:
    assert (await api.server_version())["gitVersion"].startswith("v1.")


async def test_errors_are_the_servers_own(api: Connection, configmaps: str) -> None:
    with pytest.raises(NotFound) as raised:
        await api.request("GET", f"{configmaps}/lost")
    assert (raised.value.message, raised.value.reason) == (
        'configmaps "lost" not found',
        "NotFound",
    )
    made = await api.request("POST", configmaps, body={"metadata": {"name": "a"}})
    with pytest.raises(AlreadyExists):
        await api.request("POST", configmaps, body={"metadata": {"name": "a"}})
    made["metadata"]["resourceVersion"] = "1"
    with pytest.raises(Conflict):
        await api.request("PUT", f"{configmaps}/a", body=made)
    with pytest.raises(Conflict):
        await api.request("DELETE", f"{configmaps}/a", body={"preconditions": {"uid": "another"}})
    with pytest.raises(Invalid, match=r"metadata\.name"):
        await api.request("POST", configmaps, body={"metadata": {"name": "A_"}})


async def test_retry_after_is_waited_for_within_the_deadline(
    connected: Connect, config: Kubeconfig, front: Front
) -> None:
    behind = await connected(through(config, front.url))
    front.answer(429, retry_after=1)
    begun = time.monotonic()
    assert (await behind.request("GET", NAMESPACE))["kind"] == "Namespace"
    assert 1 <= time.monotonic() - begun < 3
    front.answer(429, retry_after=60)
    with pytest.raises(TooManyRequests) as raised:
        await behind.request("GET", NAMESPACE, timeout=5)
    assert raised.value.retry_after == 60
    front.answer(500)
    with pytest.raises(ServerError, match="the proxy answers 500"):
        await behind.request("GET", NAMESPACE)


async def test_a_silent_server_is_unavailable_after_the_deadline(
    connected: Connect, config: Kubeconfig, apiserver: Cluster
) -> None:
    with Wire((apiserver.address, 6443)) as wire:
        behind = await connected(through(config, wire.url))
        await behind.request("GET", NAMESPACE)
        wire.stall()
        with pytest.raises(Unavailable, match=r"no answer to GET /api/v1/.* within 0.3 s"):
            await behind.request("GET", NAMESPACE, timeout=0.3)
        wire.resume()
        assert await behind.request("GET", NAMESPACE)


async def test_refused_connections_name_the_server(connected: Connect, config: Kubeconfig) -> None:
    away = await connected(through(config, "https://127.0.0.1:1"))
    with pytest.raises(Unavailable, match=r"cannot reach the apiserver https://127\.0\.0\.1:1: "):
        await away.request("GET", NAMESPACE)


async def test_the_limit_holds_for_all_but_heartbeats(
    connected: Connect, config: Kubeconfig
) -> None:
    limited = await connected(config, qps=20, burst=5)

    async def seconds(pool: Pool, count: int) -> float:
        begun = time.monotonic()
        async with anyio.create_task_group() as group:
            for _ in range(count):
                group.start_soon(ask, pool)
        return time.monotonic() - begun

    async def ask(pool: Pool) -> None:
        await limited.request("GET", NAMESPACE, pool=pool)

    assert 0.95 <= await seconds(Pool.REST, 25) < 2
    begun = time.monotonic()
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(ask, Pool.WATCH)
        await anyio.sleep(0.1)
        await ask(Pool.HEARTBEAT)
        heartbeat = time.monotonic() - begun
        await ask(Pool.REST)
        rest = time.monotonic() - begun
    assert heartbeat < 0.3
    assert rest < 0.5


async def test_requests_say_who_asks(connected: Connect, config: Kubeconfig, front: Front) -> None:
    behind = await connected(through(config, front.url))
    await behind.request("GET", NAMESPACE, query={"a": "b c"})
    assert front.requests[-1].query == {"a": "b c"}
    assert front.requests[-1].agent == f"minikubelet/{__version__}"


def test_the_library_is_imported_by_connect_only() -> None:
    script = (
        "import sys, minikubelet.kube.client, minikubelet.kube.reflector;"
        "assert not [m for m in sys.modules if m.startswith('kubernetes_asyncio')]"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
