from dataclasses import replace
from typing import Any

import pytest

from minikubelet.api.timestamp import rfc3339
from minikubelet.kube.api import Document
from minikubelet.kube.errors import Unavailable
from minikubelet.objects.tokens import TokenKey, Tokens
from tests.apiserver import MemoryAPI

pytestmark = pytest.mark.anyio
KEY = TokenKey("ns", "sa", "vault", 3600, "pod", "uid-1")
PATH = "/api/v1/namespaces/ns/serviceaccounts/sa/token"


class Clock:
    seconds = 1_700_000_000.0

    def monotonic(self) -> float:
        return self.seconds

    def wall_ns(self) -> int:
        return round(self.seconds * 1e9)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def api(clock: Clock) -> MemoryAPI:
    api = MemoryAPI()

    def answer(_path: str, body: Document) -> Document:
        expires = rfc3339(clock.wall_ns() + body["spec"]["expirationSeconds"] * 10**9)
        status = {"token": f"token-{len(api.requests)}", "expirationTimestamp": expires}
        return body | {"status": status}

    api.on_create = answer
    return api


async def test_a_token_is_bound_to_the_pod_and_asked_for_once(api: MemoryAPI, clock: Clock) -> None:
    tokens = Tokens(api, clock, lambda: 0.5)
    assert [(await tokens.get(KEY)).token for _ in range(3)] == ["token-1"] * 3
    request = api.requests[0]
    assert request.path == PATH
    assert request.body["spec"] == {
        "audiences": ["vault"],
        "expirationSeconds": 3600,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "uid-1"},
    }


async def test_it_is_renewed_after_four_fifths_of_its_life(api: MemoryAPI, clock: Clock) -> None:
    tokens = Tokens(api, clock, lambda: 0.5)
    await tokens.get(KEY)
    assert tokens.renew_at("uid-1") == clock.seconds + 2880 - 5
    clock.seconds += 2870
    assert (await tokens.get(KEY)).token == "token-1"
    clock.seconds += 10
    assert (await tokens.get(KEY)).token == "token-2"


async def test_a_long_one_is_renewed_each_day(api: MemoryAPI, clock: Clock) -> None:
    tokens = Tokens(api, clock, lambda: 0.0)
    await tokens.get(replace(KEY, expiration=10 * 86400))
    clock.seconds += 86401
    assert (await tokens.get(replace(KEY, expiration=10 * 86400))).token == "token-2"


async def test_the_old_one_serves_until_its_end(api: MemoryAPI, clock: Clock) -> None:
    tokens = Tokens(api, clock, lambda: 0.0)
    await tokens.get(KEY)
    api.always = Unavailable("connection refused")
    clock.seconds += 3500
    assert (await tokens.get(KEY)).token == "token-1"
    clock.seconds += 101
    with pytest.raises(Unavailable):
        await tokens.get(KEY)


async def test_a_pod_that_is_gone_leaves_none(api: MemoryAPI, clock: Clock) -> None:
    tokens = Tokens(api, clock, lambda: 0.0)
    await tokens.get(KEY)
    tokens.forget("uid-1")
    assert tokens.renew_at("uid-1") is None


@pytest.mark.parametrize("status", [{}, {"token": "x"}, {"token": "x", "expirationTimestamp": "?"}])
async def test_a_strange_answer_names_the_account(clock: Clock, status: dict[str, Any]) -> None:
    api = MemoryAPI()
    api.on_create = lambda _path, body: body | {"status": status}
    with pytest.raises(Exception, match="cannot read the token of service account ns/sa"):
        await Tokens(api, clock, lambda: 0.0).get(KEY)
