"""Whether a kubeconfig will do, and the one that is written after a bootstrap."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from minikubelet.kube.kubeconfig import Kubeconfig, Material, read
from minikubelet.node.certificates import client_template
from minikubelet.node.certificates_keys import make_request
from minikubelet.node.certificates_kubeconfig import document, usable, with_certificate, write
from minikubelet.node.certificates_request import request_document
from tests.unit.node.signer import Signer

NOW = 1_700_000_000.0
SERVER = "https://192.0.2.1:6443"


def a_kubeconfig(path: Path, user: dict[str, Any]) -> str:
    fields = {
        "clusters": [{"name": "c", "cluster": {"server": SERVER}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(fields))
    return str(path)


@pytest.fixture(scope="module")
def pair() -> tuple[bytes, bytes]:
    request = make_request(client_template("n1"))
    spec = request_document(client_template("n1"), request.pem)["spec"]
    return Signer.new().sign(spec, NOW, 100), request.key


def inline(certificate: bytes, key: bytes) -> dict[str, str]:
    return {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }


def test_one_whose_certificate_counts_is_used(tmp_path: Path, pair: tuple[bytes, bytes]) -> None:
    path = a_kubeconfig(tmp_path / "k", inline(*pair))
    found, why = usable(path, NOW)
    assert found is not None
    assert (found.server, why) == (SERVER, "")


def test_files_that_it_names_count_too(tmp_path: Path, pair: tuple[bytes, bytes]) -> None:
    (tmp_path / "pem").write_bytes(pair[0] + pair[1])
    path = a_kubeconfig(tmp_path / "k", {"client-certificate": "pem", "client-key": "pem"})
    assert usable(path, NOW)[0] is not None
    (tmp_path / "pem").write_text("nonsense")
    found, why = usable(path, NOW)
    assert found is None
    assert "no certificate can be read" in why


@pytest.mark.parametrize(
    ("user", "now", "why"),
    [
        ("pair", NOW + 100, "has expired"),
        ({"token": "t"}, NOW, "has no client certificate"),
        ({"client-certificate": "gone", "client-key": "gone"}, NOW, "No such file"),
        ({"client-certificate": "gone"}, NOW, "client-key: required"),
    ],
)
def test_others_lead_to_bootstrap_and_say_why(
    tmp_path: Path, pair: tuple[bytes, bytes], user: Any, now: float, why: str
) -> None:
    path = a_kubeconfig(tmp_path / "k", inline(*pair) if user == "pair" else user)
    found, told = usable(path, now)
    assert found is None
    assert why in told
    assert path in told


@pytest.mark.parametrize("text", [None, "", "a: [", "kind: Pod"])
def test_none_or_a_broken_one_leads_to_bootstrap(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "k"
    if text is not None:
        path.write_text(text)
    found, told = usable(str(path), NOW)
    assert found is None
    assert str(path) in told


@pytest.mark.parametrize(
    "config",
    [
        Kubeconfig("b", SERVER, ca=Material(path="/ca.crt")),
        Kubeconfig("b", SERVER, ca=Material(data=b"pem"), tls_server_name="kubernetes"),
        Kubeconfig("b", SERVER, insecure_skip_tls_verify=True, proxy_url="http://proxy:1"),
    ],
)
def test_the_written_one_leads_to_the_same_server(tmp_path: Path, config: Kubeconfig) -> None:
    path = tmp_path / "etc" / "kubelet.conf"
    write(str(path), document(config, "/pki/kubelet-client-current.pem"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["kubelet.conf"]
    found = read(path)
    wanted = with_certificate(config, "/pki/kubelet-client-current.pem")
    assert (found.server, found.ca, found.user) == (wanted.server, wanted.ca, wanted.user)
    assert found.tls_server_name == config.tls_server_name
    assert found.insecure_skip_tls_verify == config.insecure_skip_tls_verify
    assert found.proxy_url == config.proxy_url
    fields = yaml.safe_load(path.read_text())
    assert fields["current-context"] == "default-context"
    assert fields["contexts"][0]["context"]["namespace"] == "default"
