"""Images of a registry with a password: logins of the pod and of the node, and who may use what."""

import base64
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from minikubelet.cri import messages as m
from tests.e2e.agent import FOREVER, a_manifest, a_shell
from tests.e2e.registry import Registry, a_registry
from tests.e2e.workers import Worker

pytestmark = pytest.mark.anyio
LOGIN = "user:pass:word"


@pytest.fixture
def registry(worker: Worker) -> Iterator[Registry]:
    with a_registry(worker.cluster.machine_address, LOGIN) as registry:
        registry.trust(worker.containerd.folder)
        yield registry


@pytest.fixture(autouse=True)
async def no_images_left(worker: Worker, registry: Registry) -> AsyncIterator[None]:
    yield
    for image in await worker.client.images.list_images():
        if any(tag.startswith(registry.address) for tag in image.repo_tags):
            await worker.client.images.remove_image(m.ImageSpec(image=image.id))


def docker_config(registry: Registry, login: str = LOGIN) -> str:
    auth = base64.b64encode(login.encode()).decode()
    return json.dumps({"auths": {registry.address: {"auth": auth}}})


def a_secret(name: str, config: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": name},
        "stringData": {".dockerconfigjson": config},
    }


def a_pod(name: str, registry: Registry, *secrets: str, **fields: Any) -> dict[str, Any]:
    main = a_shell("main", FOREVER, image=registry.image("app"), **fields)
    pull = [{"name": secret} for secret in secrets]
    return a_manifest(name, main, terminationGracePeriodSeconds=1, imagePullSecrets=pull)


async def waits(worker: Worker, pod: str) -> str:
    """Wait until a pod's container can't have its image; return the message."""
    found: list[str] = []

    async def refused() -> bool:
        statuses = (await worker.told(pod)).get("containerStatuses", [{}])
        waiting = statuses[0].get("state", {}).get("waiting", {})
        found[:] = [waiting.get("message", "")]
        return waiting.get("reason") in ("ErrImagePull", "ImagePullBackOff")

    await worker.wait_until(f"{pod} has no image", refused)
    return found[0]


async def test_a_pull_secret_opens_the_registry_and_only_for_its_pods(
    worker: Worker, registry: Registry
) -> None:
    await worker.apply(a_secret("right", docker_config(registry)))
    await worker.apply(a_secret("wrong", docker_config(registry, "user:other")))
    await worker.apply(a_pod("nobody", registry), a_pod("stranger", registry, "wrong"))
    assert "401" in await waits(worker, "nobody") or "authorization" in await waits(
        worker, "nobody"
    )
    await waits(worker, "stranger")
    await worker.run_pod(a_pod("friend", registry, "wrong", "right"))
    # The image is on the node now; whoever can't prove a login doesn't get it all the same.
    await worker.apply(a_pod("late", registry, imagePullPolicy="IfNotPresent"))
    await waits(worker, "late")
    pulled = len(registry.pulls)
    await worker.run_pod(a_pod("other", registry, "right", imagePullPolicy="IfNotPresent"))
    assert len(registry.pulls) == pulled
    state = worker.root / "minikubelet"
    texts = [path.read_text() for path in state.rglob("*.json")]
    assert not any("pass:word" in text for text in texts)


async def test_a_missing_pull_secret_is_told_and_the_node_s_login_serves(
    worker: Worker, registry: Registry
) -> None:
    (worker.root / "config.json").write_text(docker_config(registry))
    try:
        await worker.run_pod(a_pod("web", registry, "gone"))
    finally:
        (worker.root / "config.json").unlink()
    await worker.wait_for_events("web", "FailedToRetrieveImagePullSecret", "Pulled")
    events = {event["reason"]: event["message"] for event in await worker.events("web")}
    assert events["FailedToRetrieveImagePullSecret"] == (
        "Unable to retrieve some image pull secrets (gone); attempting to pull the image may not "
        "succeed."
    )
    assert events["Pulled"].startswith(f'Successfully pulled image "{registry.image("app")}"')
