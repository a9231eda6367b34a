"""Tests of rooms against a real kube-apiserver."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from minikubelet.kube import kubeconfig
from minikubelet.kube.api import core_path
from minikubelet.kube.client import Connection, connect
from minikubelet.kube.kubeconfig import Kubeconfig, Material, User
from tests.clusters import Cluster

Connect = Callable[..., Awaitable[Connection]]


@pytest.fixture
async def connected() -> AsyncIterator[Connect]:
    """Make connections that are closed with the test."""
    async with AsyncExitStack() as stack:

        async def make(config: Kubeconfig, **arguments: Any) -> Connection:
            connection = await connect(config, **arguments)
            stack.push_async_callback(connection.aclose)
            return connection

        yield make


@pytest.fixture
def config(apiserver: Cluster) -> Kubeconfig:
    """The administrator's."""
    return kubeconfig.read(apiserver.admin_kubeconfig)


@pytest.fixture
async def api(connected: Connect, config: Kubeconfig) -> Connection:
    """A connection of the administrator."""
    return await connected(config, qps=0)


@pytest.fixture
async def namespace(api: Connection, request: pytest.FixtureRequest) -> str:
    """A namespace of the test's own."""
    body = {"metadata": {"generateName": "test-"}}
    made = await api.request("POST", "/api/v1/namespaces", body=body)
    name: str = made["metadata"]["name"]
    return name


@pytest.fixture
def configmaps(namespace: str) -> str:
    """The path of the test's ConfigMaps."""
    return core_path(namespace, "configmaps")


def through(config: Kubeconfig, url: str, user: User | None = None) -> Kubeconfig:
    """Return the same cluster behind a proxy."""
    return Kubeconfig(
        origin=config.origin, server=url, ca=config.ca, user=config.user if user is None else user
    )


def write(path: Path, server: str, ca: Path, user: dict[str, Any], **cluster: Any) -> Path:
    """Write a kubeconfig."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "c",
                "cluster": {"server": server, "certificate-authority": str(ca), **cluster},
            }
        ],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return path


def material(path: Path) -> Material:
    return Material(path=str(path))


async def username(connection: Connection) -> str:
    """Return who the apiserver takes us for."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await connection.request(
        "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review
    )
    name: str = answer["status"]["userInfo"]["username"]
    return name
