import base64
from typing import Any

import pytest

from minikubelet.images.keyring import (
    Credential,
    CredentialError,
    SecretSource,
    chosen,
    lookup,
    parse,
)

PAIR = base64.b64encode(b"user:pa:ss").decode()


def test_both_forms_and_all_kinds_of_logins_are_read() -> None:
    source = SecretSource("ns", "regcred", "u")
    auths = {
        "https://index.docker.io/v1/": {"auth": PAIR},
        "reg.example.com:5000/team/": {"username": "u", "password": "p"},
        "token.example.com": {"identitytoken": "t"},
        "empty.example.com": {},
    }
    found = parse({"auths": auths}, source)
    assert found == parse(auths, source)
    assert [(c.pattern, c.username, c.password, c.identity_token) for c in found] == [
        ("index.docker.io", "user", "pa:ss", ""),
        ("reg.example.com:5000/team", "u", "p", ""),
        ("token.example.com", "", "", "t"),
    ]
    assert {c.source for c in found} == {source}


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"auths": []}, id="no-map"),
        pytest.param({"auths": {"r": "text"}}, id="entry"),
        pytest.param({"auths": {"r": {"auth": "%"}}}, id="no-base64"),
        pytest.param({"auths": {"r": {"auth": "YWJj"}}}, id="no-colon"),
    ],
)
def test_what_can_not_be_read_is_told(document: dict[str, Any]) -> None:
    with pytest.raises(CredentialError, match="cannot read registry credentials"):
        parse(document)


@pytest.mark.parametrize(
    ("pattern", "image", "expected"),
    [
        ("reg.example.com", "reg.example.com/a/b:1", True),
        ("reg.example.com", "reg.example.com:5000/a", False),
        ("reg.example.com:5000", "reg.example.com:5000/a", True),
        ("*.example.com", "reg.example.com/a", True),
        ("*.example.com", "a.reg.example.com/a", False),
        ("*.*.example.com", "a.reg.example.com/a", True),
        ("reg.example.com/team", "reg.example.com/team/a", True),
        ("reg.example.com/team", "reg.example.com/other/a", False),
        ("index.docker.io", "busybox", True),
        ("index.docker.io", "docker.io/library/busybox", True),
        ("index.docker.io", "library/busybox", True),
        ("index.docker.io", "quay.io/library/busybox", False),
        ("index.docker.io", "localhost/busybox", False),
    ],
)
def test_which_logins_fit_an_image(pattern: str, image: str, expected: bool) -> None:
    assert bool(lookup([Credential(pattern, "u", "p")], image)) is expected


def test_the_most_specific_comes_first_and_the_pod_s_before_the_node_s() -> None:
    wide, narrow = Credential("r.io", "wide"), Credential("r.io/team", "narrow")
    node = Credential("r.io", "node")
    order = chosen([wide, narrow], [node], "r.io/team/app")
    assert [credential.username for credential in order] == ["narrow", "wide", "node"]


def test_a_login_never_shows_itself() -> None:
    secret = Credential("r.io", "u", "hunter2")
    assert "hunter2" not in repr(secret)
    assert "hunter2" not in secret.hash
    assert secret.hash != Credential("r.io", "u", "other").hash
