"""The request as an object: what is sent, and what its state means."""

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from minikubelet.node.certificates import client_template, serving_template
from minikubelet.node.certificates_keys import BadCertificate, make_request
from minikubelet.node.certificates_request import (
    Issued,
    RequestFailed,
    digested_name,
    outcome,
    request_document,
)

CLIENT = client_template("n1")
APPROVED = {"type": "Approved", "status": "True"}


def test_a_client_request_says_what_the_kubelet_s_does() -> None:
    request = make_request(CLIENT)
    document = request_document(CLIENT, request.pem)
    assert document["metadata"] == {"generateName": "csr-"}
    assert document["spec"] | {"request": ""} == {
        "request": "",
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "usages": ["digital signature", "client auth"],
    }
    csr = x509.load_pem_x509_csr(base64.b64decode(document["spec"]["request"]))
    assert csr.subject.rfc4514_string() == "CN=system:node:n1,O=system:nodes"
    assert len(csr.extensions) == 0
    key = csr.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"
    assert request.key.startswith(b"-----BEGIN EC PRIVATE KEY-----")


def test_a_serving_request_carries_names_and_addresses() -> None:
    addresses = [
        {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "InternalIP", "address": "fd00::1"},
        {"type": "Hostname", "address": "n1"},
    ]
    template = serving_template("n1", addresses)
    assert template is not None
    csr = x509.load_pem_x509_csr(make_request(template).pem)
    found = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert found.get_values_for_type(x509.DNSName) == ["n1"]
    assert [str(ip) for ip in found.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "fd00::1"]


def test_a_request_is_found_again_by_its_key() -> None:
    first = make_request(CLIENT)
    again = make_request(CLIENT, first.key)
    assert again.public_key == first.public_key
    name = digested_name(first.public_key, CLIENT)
    assert name == digested_name(again.public_key, CLIENT)
    assert name.startswith("node-csr-")
    assert len(name) == len("node-csr-") + 43
    assert name != digested_name(first.public_key, client_template("n2"))
    assert name != digested_name(make_request(CLIENT).public_key, CLIENT)


def test_the_name_is_the_kubelet_s_digest() -> None:
    # sha512/256 of each part as unpadded base64url, with `|` after each.
    assert digested_name(b"key", CLIENT) == "node-csr-qHrZoGmz7n4QzFn42jbwGhrcJU9T-zkJb_IhDRCXqmo"


def test_a_key_that_is_none_is_told() -> None:
    with pytest.raises(BadCertificate, match="the key can't be read"):
        make_request(CLIENT, b"nonsense")


@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        {"conditions": [APPROVED]},
        pytest.param({"certificate": "YQ=="}, id="not approved"),
    ],
)
def test_a_request_is_waited_for(status: dict[str, Any] | None) -> None:
    assert outcome({"metadata": {"name": "csr-1"}, "status": status}) is None


def test_an_issued_one_gives_its_certificate() -> None:
    status = {"conditions": [APPROVED], "certificate": base64.b64encode(b"pem").decode()}
    assert outcome({"metadata": {"name": "csr-1"}, "status": status}) == Issued(b"pem")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            {"conditions": [{"type": "Denied", "reason": "No", "message": "not you"}]},
            r"csr-1 was denied \(No: not you\)",
        ),
        (
            {"conditions": [APPROVED, {"type": "Failed", "reason": "SignerValidationFailure"}]},
            r"csr-1 has failed \(SignerValidationFailure\)",
        ),
        ({"conditions": [{"type": "Denied"}]}, "no reason given"),
        (
            {"conditions": [APPROVED], "certificate": "%%%"},
            r"csr-1: status\.certificate is not base64",
        ),
    ],
)
def test_a_refusal_says_why(status: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestFailed, match=words):
        outcome({"metadata": {"name": "csr-1"}, "status": status})
