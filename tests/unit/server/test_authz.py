"""What a request wants of the node, and what is made of the answers."""

import anyio
import pytest

from minikubelet.server.authn import ReviewFailed, User
from minikubelet.server.authz import (
    Attributes,
    Denied,
    attributes_of,
    authorize,
    remembering,
    subresources_of,
)

pytestmark = pytest.mark.anyio
JANE = User("jane", groups=("devs",))


@pytest.fixture
def anyio_backend(
    simulated_backend: tuple[str, dict[str, object]],
) -> tuple[str, dict[str, object]]:
    return simulated_backend


@pytest.mark.parametrize(
    ("path", "subresources"),
    [
        ("/stats/summary", ("stats",)),
        ("/metrics", ("metrics",)),
        ("/metrics/cadvisor", ("metrics",)),
        ("/logs/", ("log",)),
        ("/checkpoint/a/b/c", ("checkpoint",)),
        ("/statusz", ("statusz",)),
        ("/flagz", ("configz",)),
        ("/pods", ("pods", "proxy")),
        ("/pods/", ("pods", "proxy")),
        ("/runningpods/", ("pods", "proxy")),
        ("/healthz", ("healthz", "proxy")),
        ("/healthz/syncloop", ("healthz", "proxy")),
        ("/configz", ("configz", "proxy")),
        ("/exec/a/b/c", ("proxy",)),
        ("/run/a/b/c", ("proxy",)),
        ("/attach/a/b/c", ("proxy",)),
        ("/portForward/a/b", ("proxy",)),
        ("/containerLogs/a/b/c", ("proxy",)),
        ("/debug/pprof/heap", ("proxy",)),
        ("/podsandmore", ("proxy",)),
        ("/statsx", ("proxy",)),
        ("/", ("proxy",)),
    ],
)
async def test_subresources(path: str, subresources: tuple[str, ...]) -> None:
    assert subresources_of(path) == subresources


@pytest.mark.parametrize(
    ("method", "verb"),
    [
        ("GET", "get"),
        ("POST", "create"),
        ("PUT", "update"),
        ("PATCH", "patch"),
        ("DELETE", "delete"),
        ("HEAD", ""),
        ("OPTIONS", ""),
    ],
)
async def test_verbs(method: str, verb: str) -> None:
    assert attributes_of(JANE, method, "/exec/a/b/c", "n1") == (
        Attributes(JANE, verb, "proxy", "n1"),
    )


class Reviews:
    """Answers by subresource; an exception is raised; notes what it was asked."""

    def __init__(self, **answers: bool | Exception) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def __call__(self, attributes: Attributes) -> bool:
        self.asked.append(attributes.subresource)
        answer = self.answers.get(attributes.subresource, False)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("reviews", "asked"),
    [
        pytest.param(Reviews(pods=True), ["pods"], id="the finer is enough"),
        pytest.param(Reviews(proxy=True), ["pods", "proxy"], id="the whole is enough"),
    ],
)
async def test_the_first_yes_counts(reviews: Reviews, asked: list[str]) -> None:
    await authorize(attributes_of(JANE, "GET", "/pods", "n1"), reviews)
    assert reviews.asked == asked


async def test_the_text_of_a_no() -> None:
    with pytest.raises(Denied) as denied:
        await authorize(attributes_of(JANE, "GET", "/pods", "n1"), Reviews())
    text = "Forbidden (user=jane, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"
    assert (str(denied.value), denied.value.status) == (text, 403)


async def test_the_text_of_no_answer() -> None:
    reviews = Reviews(pods=ReviewFailed("apiserver away"), proxy=True)
    with pytest.raises(Denied) as denied:
        await authorize(attributes_of(JANE, "GET", "/pods", "n1"), reviews)
    text = "Authorization error (user=jane, verb=get, resource=nodes, subresource=pods)"
    assert (str(denied.value), denied.value.status) == (text, 500)


async def test_yes_is_remembered_longer_than_no() -> None:
    reviews = Reviews(proxy=True)
    ask = remembering(reviews, 300, 30)
    yes, no = Attributes(JANE, "get", "proxy", "n1"), Attributes(JANE, "get", "stats", "n1")
    for _ in range(3):
        assert await ask(yes)
        assert not await ask(no)
    assert reviews.asked == ["proxy", "stats"]
    await anyio.sleep(31)
    assert await ask(yes)
    assert not await ask(no)
    assert reviews.asked == ["proxy", "stats", "stats"]
    await anyio.sleep(270)
    assert await ask(yes)
    assert reviews.asked == ["proxy", "stats", "stats", "proxy"]


async def test_no_answer_is_not_remembered() -> None:
    reviews = Reviews(proxy=ReviewFailed("away"))
    ask = remembering(reviews, 300, 30)
    attributes = Attributes(JANE, "get", "proxy", "n1")
    with pytest.raises(ReviewFailed):
        await ask(attributes)
    reviews.answers["proxy"] = True
    assert await ask(attributes)


async def test_users_with_the_same_name_and_other_groups_are_two() -> None:
    reviews = Reviews(proxy=True)
    ask = remembering(reviews, 300, 30)
    assert await ask(Attributes(JANE, "get", "proxy", "n1"))
    reviews.answers["proxy"] = False
    assert not await ask(Attributes(User("jane"), "get", "proxy", "n1"))
