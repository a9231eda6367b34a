"""The files of a certificate: laid out as a kubelet does, and what is done with broken ones."""

import os
from pathlib import Path

import pytest

from minikubelet.node.certificates import client_template
from minikubelet.node.certificates_keys import BadCertificate, make_request, new_key
from minikubelet.node.certificates_request import request_document
from minikubelet.node.certificates_store import CertificateStore, PairFiles
from tests.unit.node.signer import Signer

CLIENT = client_template("n1")
NOW = 1_700_000_000.0
NAME = "kubelet-client"


@pytest.fixture(scope="module")
def signer() -> Signer:
    return Signer.new()


def a_pair(signer: Signer, seconds: float = 3600, now: float = NOW) -> tuple[bytes, bytes]:
    request = make_request(CLIENT)
    spec = request_document(CLIENT, request.pem)["spec"]
    return signer.sign(spec, now, seconds), request.key


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_pair_is_stored_and_the_link_switched(tmp_path: Path, signer: Signer) -> None:
    store = CertificateStore(str(tmp_path / "pki"), NAME)
    held = store.update(*a_pair(signer), wall_ns=int(NOW * 1e9))
    assert (held.common_name, held.not_after) == ("system:node:n1", NOW + 3600)
    folder = tmp_path / "pki"
    file = folder / "kubelet-client-2023-11-14-22-13-20.pem"
    assert sorted(path.name for path in folder.iterdir()) == [
        file.name,
        "kubelet-client-current.pem",
    ]
    assert Path(store.current).readlink() == file
    text = file.read_text()
    assert text.index("BEGIN CERTIFICATE") < text.index("BEGIN EC PRIVATE KEY")
    store.update(*a_pair(signer, 7200), wall_ns=int(NOW * 1e9) + 10**9)
    assert Path(store.current).readlink().name == "kubelet-client-2023-11-14-22-13-21.pem"
    loaded = store.load(NOW)
    assert loaded.held is not None
    assert (loaded.held.not_after, loaded.files) == (NOW + 7200, store.files)
    assert file.exists()


def test_keys_are_for_root_alone_whatever_the_umask(tmp_path: Path, signer: Signer) -> None:
    store = CertificateStore(str(tmp_path), NAME)
    before = os.umask(0)
    try:
        store.update(*a_pair(signer), wall_ns=int(NOW * 1e9))
        store.keep_pending(new_key())
    finally:
        os.umask(before)
    assert mode(Path(store.current)) == 0o600
    assert mode(tmp_path / "kubelet-client.key.tmp") == 0o600


def test_a_key_left_open_to_all_is_replaced_by_a_closed_one(tmp_path: Path, signer: Signer) -> None:
    (tmp_path / "kubelet-client.part").write_text("left behind")
    (tmp_path / "kubelet-client.part").chmod(0o666)
    store = CertificateStore(str(tmp_path), NAME)
    store.update(*a_pair(signer), wall_ns=int(NOW * 1e9))
    assert mode(Path(store.current)) == 0o600


def test_a_certificate_for_another_key_changes_nothing(tmp_path: Path, signer: Signer) -> None:
    store = CertificateStore(str(tmp_path), NAME)
    certificate, _ = a_pair(signer)
    with pytest.raises(BadCertificate, match="not for the key"):
        store.update(certificate, new_key(), wall_ns=1)
    with pytest.raises(BadCertificate, match="no certificate can be read"):
        store.update(b"nonsense", new_key(), wall_ns=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_broken_file_counts_as_none_and_is_told(tmp_path: Path, content: str) -> None:
    store = CertificateStore(str(tmp_path), NAME)
    (tmp_path / "x.pem").write_text(content)
    Path(store.current).symlink_to("x.pem")
    loaded = store.load(NOW)
    assert (loaded.held, loaded.files) == (None, None)
    assert f"cannot use the certificate in {store.current}" in loaded.problem


def test_a_link_to_nothing_counts_as_none_and_is_told(tmp_path: Path) -> None:
    store = CertificateStore(str(tmp_path), NAME)
    Path(store.current).symlink_to("gone.pem")
    assert store.load(NOW).held is None
    assert "No such file" in store.load(NOW).problem


def test_nothing_there_is_no_problem(tmp_path: Path) -> None:
    loaded = CertificateStore(str(tmp_path / "none"), NAME).load(NOW)
    assert (loaded.held, loaded.problem) == (None, "")


def test_files_of_a_kubeconfig_count_until_one_is_stored(tmp_path: Path, signer: Signer) -> None:
    certificate, key = a_pair(signer, 100)
    (tmp_path / "c").write_bytes(certificate)
    (tmp_path / "k").write_bytes(key)
    given = PairFiles(str(tmp_path / "c"), str(tmp_path / "k"))
    store = CertificateStore(str(tmp_path / "pki"), NAME, given)
    assert store.load(NOW).files == given
    store.update(*a_pair(signer, 200), wall_ns=int(NOW * 1e9))
    assert store.load(NOW).files == store.files


def test_one_that_ended_long_ago_yields_to_one_that_counts(tmp_path: Path, signer: Signer) -> None:
    certificate, key = a_pair(signer, 1000)
    (tmp_path / "c").write_bytes(certificate)
    (tmp_path / "k").write_bytes(key)
    given = PairFiles(str(tmp_path / "c"), str(tmp_path / "k"))
    store = CertificateStore(str(tmp_path), NAME, given)
    store.update(*a_pair(signer, 10), wall_ns=int(NOW * 1e9))
    assert store.load(NOW + 100).files == given
    assert store.load(NOW + 5000).files == store.files


def test_a_folder_that_can_t_be_written_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "pki").write_text("a file")
    store = CertificateStore(str(tmp_path / "pki"), NAME)
    with pytest.raises(OSError, match="pki"):
        store.check()


def test_the_key_of_a_request_outlives_the_agent(tmp_path: Path) -> None:
    store = CertificateStore(str(tmp_path), NAME)
    assert store.pending_key() == b""
    store.keep_pending(b"key")
    assert CertificateStore(str(tmp_path), NAME).pending_key() == b"key"
    store.drop_pending()
    store.drop_pending()
    assert list(tmp_path.iterdir()) == []
