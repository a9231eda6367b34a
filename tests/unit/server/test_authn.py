"""Who sends a request: certificate, token, nobody in particular."""

import hashlib

import anyio
import pytest

from minikubelet.server.authn import (
    ANONYMOUS,
    Authenticator,
    ClientCertificate,
    ReviewFailed,
    Unauthenticated,
    User,
    bearer_token,
    user_of,
    user_of_review,
)

pytestmark = pytest.mark.anyio

JANE = User("jane", groups=("devs", "system:authenticated"))


@pytest.fixture
def anyio_backend(
    simulated_backend: tuple[str, dict[str, object]],
) -> tuple[str, dict[str, object]]:
    return simulated_backend


def a_certificate(*fields: tuple[str, str]) -> ClientCertificate:
    return ClientCertificate(tuple((field,) for field in fields), b"der")


class Tokens:
    """The apiserver's answers by token; notes what it was asked."""

    def __init__(self, **answers: User | Exception | None) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def __call__(self, token: str) -> User | None:
        self.asked.append(token)
        answer = self.answers.get(token)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_certificate_names_a_user_and_groups() -> None:
    certificate = a_certificate(
        ("organizationName", "system:masters"), ("organizationName", "b"), ("commonName", "admin")
    )
    fingerprint = hashlib.sha256(b"der").hexdigest()
    assert user_of(certificate) == User(
        "admin",
        groups=("system:masters", "b", "system:authenticated"),
        extra=(("authentication.kubernetes.io/credential-id", (f"X509SHA256={fingerprint}",)),),
    )


async def test_a_certificate_without_a_common_name_names_nobody() -> None:
    certificate = a_certificate(("organizationName", "system:masters"))
    assert user_of(certificate) is None
    with pytest.raises(Unauthenticated):
        await Authenticator(None, anonymous=False, ttl=120).authenticate(certificate, "")


async def test_a_certificate_goes_before_a_token() -> None:
    tokens = Tokens(t=JANE)
    authenticator = Authenticator(tokens, anonymous=False, ttl=120)
    user = await authenticator.authenticate(a_certificate(("commonName", "admin")), "Bearer t")
    assert (user.name, tokens.asked) == ("admin", [])


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("  Bearer abc  ", "abc"),
        ("Bearer abc def", "abc"),
        ("Bearer", ""),
        ("Bearer  abc", ""),
        ("Basic abc", ""),
        ("abc", ""),
        ("", ""),
    ],
)
async def test_the_token_of_a_header(header: str, token: str) -> None:
    assert bearer_token(header) == token


async def test_a_token_is_asked_for_once_in_two_minutes() -> None:
    tokens = Tokens(t=User("jane", groups=("devs",)))
    authenticator = Authenticator(tokens, anonymous=False, ttl=120)
    for _ in range(3):
        assert await authenticator.authenticate(None, "Bearer t") == JANE
    await anyio.sleep(121)
    tokens.answers["t"] = None
    with pytest.raises(Unauthenticated, match="invalid bearer token"):
        await authenticator.authenticate(None, "Bearer t")
    assert tokens.asked == ["t", "t"]


async def test_a_wrong_token_is_remembered_and_refused_even_where_anonymous_may_in() -> None:
    tokens = Tokens()
    authenticator = Authenticator(tokens, anonymous=True, ttl=120)
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            await authenticator.authenticate(None, "Bearer wrong")
    assert tokens.asked == ["wrong"]
    assert await authenticator.authenticate(None, "") == ANONYMOUS


async def test_a_failed_review_is_not_remembered() -> None:
    tokens = Tokens(t=ReviewFailed("away"))
    authenticator = Authenticator(tokens, anonymous=True, ttl=120)
    with pytest.raises(ReviewFailed):
        await authenticator.authenticate(None, "Bearer t")
    tokens.answers["t"] = JANE
    assert await authenticator.authenticate(None, "Bearer t") == JANE


async def test_nobody_is_let_in_only_where_anonymous_may() -> None:
    with pytest.raises(Unauthenticated):
        await Authenticator(None, anonymous=False, ttl=120).authenticate(None, "")
    assert await Authenticator(None, anonymous=True, ttl=120).authenticate(None, "") == ANONYMOUS


@pytest.mark.parametrize(
    ("status", "user"),
    [
        ({}, None),
        ({"authenticated": False, "user": {"username": "x"}}, None),
        ({"authenticated": True}, User("")),
        (
            {
                "authenticated": True,
                "user": {"username": "a", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}},
            },
            User("a", "1", ("g",), (("k", ("v",)),)),
        ),
    ],
)
async def test_a_reviews_status(status: dict[str, object], user: User | None) -> None:
    assert user_of_review(status) == user
