import pytest

from minikubelet.images.keyring import Credential, SecretSource
from minikubelet.images.records import (
    Policy,
    PullRecord,
    Verification,
    after_pull,
    document_of,
    must_pull,
    records_of,
    without_tag,
)

MINE = Credential("r.io", "u", "p", source=SecretSource("ns", "mine", "1"))
ROTATED = Credential("r.io", "u", "new", source=SecretSource("ns", "mine", "1"))
COPY = Credential("r.io", "u", "p", source=SecretSource("other", "copy", "2"))
THEIRS = Credential("r.io", "x", "y", source=SecretSource("ns", "theirs", "3"))
NODE = Credential("r.io", "node", "p")
PRIVATE = {"r.io/app": after_pull(PullRecord(), MINE)}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy.NEVER, False),
        (Policy.NEVER_PRELOADED, False),
        (Policy.NEVER_ALLOWLISTED, True),
        (Policy.ALWAYS, True),
    ],
)
def test_a_preloaded_image(policy: Policy, expected: bool) -> None:
    assert must_pull("r.io/app:1", None, (), Verification(policy)) is expected


def test_a_listed_preloaded_image_is_free() -> None:
    rules = Verification(Policy.NEVER_ALLOWLISTED, ("r.io/*",))
    assert not must_pull("r.io/app:1", None, (), rules)
    assert must_pull("q.io/app:1", None, (), rules)


@pytest.mark.parametrize(
    ("credential", "expected"),
    [
        pytest.param(MINE, False, id="the-same"),
        pytest.param(ROTATED, False, id="the-same-secret-with-a-new-login"),
        pytest.param(COPY, False, id="the-same-login-in-another-secret"),
        pytest.param(THEIRS, True, id="somebody-else"),
        pytest.param(NODE, True, id="the-node-s"),
    ],
)
def test_a_private_image_has_to_be_proven(credential: Credential, expected: bool) -> None:
    rules = Verification()
    assert must_pull("r.io/app:2", PRIVATE, [credential], rules) is expected
    assert must_pull("r.io/app:2", PRIVATE, [], rules)
    assert must_pull("r.io/other:2", PRIVATE, [credential], rules)
    assert not must_pull("r.io/app:2", PRIVATE, [], Verification(Policy.NEVER))


@pytest.mark.parametrize("credential", [None, NODE])
def test_what_anybody_could_pull_is_for_all(credential: Credential | None) -> None:
    records = {"r.io/app": after_pull(PRIVATE["r.io/app"], credential)}
    assert not must_pull("r.io/app:1", records, (), Verification())


def test_records_survive_a_restart_without_any_login() -> None:
    document = document_of(PRIVATE)
    assert records_of(document) == PRIVATE
    assert "'p'" not in str(document)


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("r.io/app:1", "r.io/app"),
        ("r.io:5000/app", "r.io:5000/app"),
        ("r.io:5000/app:1@sha256:abc", "r.io:5000/app"),
        ("busybox", "busybox"),
    ],
)
def test_a_name_without_its_tag(image: str, name: str) -> None:
    assert without_tag(image) == name
