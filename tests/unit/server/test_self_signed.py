"""The node's own certificate: what it says, that it is kept."""

import ipaddress
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from minikubelet.server.self_signed import make_self_signed, self_signed
from minikubelet.server.tls import kept_pair

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_what_it_says() -> None:
    pem, key = self_signed("node1", ["10.0.0.1", "fd00::1"], NOW)
    certificate, authority = x509.load_pem_x509_certificates(pem)
    stamp = int(NOW.timestamp())
    names = [
        each.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        for each in (certificate, authority)
    ]
    assert names == [f"node1@{stamp}", f"node1-ca@{stamp}"]
    certificate.verify_directly_issued_by(authority)
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert found.get_values_for_type(x509.DNSName) == ["node1"]
    assert found.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("10.0.0.1"),
        ipaddress.ip_address("fd00::1"),
    ]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert (lifetime.days, certificate.not_valid_before_utc < NOW) == (365, True)
    assert b"PRIVATE KEY" in key


def test_a_long_host_name_fits() -> None:
    pem, _ = self_signed("n" * 63 + ".example", [], NOW)
    assert len(x509.load_pem_x509_certificates(pem)) == 2


def test_its_key_is_private_and_both_files_are_needed(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    assert kept_pair(str(folder)) is None
    old = os.umask(0)
    try:
        pair = make_self_signed(str(folder), "node1", [])
    finally:
        os.umask(old)
    assert (pair.cert_file, pair.key_file) == (f"{folder}/kubelet.crt", f"{folder}/kubelet.key")
    assert stat.S_IMODE(Path(pair.key_file).stat().st_mode) == 0o600
    assert kept_pair(str(folder)) == pair
    assert sorted(path.name for path in folder.iterdir()) == ["kubelet.crt", "kubelet.key"]
    Path(pair.key_file).unlink()
    assert kept_pair(str(folder)) is None
