"""When the node opens a port of its own, and what it may not be told about it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from minikubelet.config.load import ConfigError, load

HEAD = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
KUBECONFIG = "--kubeconfig=/etc/kubernetes/kubelet.conf"
OPEN = {"authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}}}
ALLOWED = {"authorization": {"mode": "AlwaysAllow"}}


def file_of(folder: Path, **fields: Any) -> str:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**HEAD, **fields}))
    return f"--config={path}"


@pytest.mark.parametrize(
    ("fields", "flags", "opens"),
    [
        pytest.param({}, [], False, id="alone"),
        pytest.param({}, [KUBECONFIG], True, id="a cluster"),
        pytest.param({"enableServer": False}, [KUBECONFIG], False, id="switched off"),
        pytest.param({**OPEN, **ALLOWED}, [], True, id="authentication in the file"),
        pytest.param({"authentication": {"anonymous": {"enabled": False}}}, [], False, id="zeros"),
        pytest.param(
            ALLOWED,
            ["--client-ca-file=/ca.crt", "--authentication-token-webhook=false"],
            True,
            id="authentication by flag",
        ),
        pytest.param({"address": "127.0.0.1", "port": 1250}, [], False, id="an address only"),
    ],
)
def test_when_a_port_is_opened(
    tmp_path: Path, fields: dict[str, Any], flags: list[str], opens: bool
) -> None:
    assert (load([file_of(tmp_path, **fields), *flags]).server is not None) is opens


def test_what_the_port_is_told(tmp_path: Path) -> None:
    fields = {
        "address": "::",
        "port": 1250,
        "tlsCertFile": "kubelet.crt",
        "tlsPrivateKeyFile": "kubelet.key",
        "tlsMinVersion": "VersionTLS13",
        "tlsCipherSuites": ["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
        "authentication": {"x509": {"clientCAFile": "ca.crt"}, "webhook": {"cacheTTL": "1m"}},
        "authorization": {"webhook": {"cacheAuthorizedTTL": "0s", "cacheUnauthorizedTTL": "3s"}},
        "enableDebuggingHandlers": False,
        "streamingConnectionIdleTimeout": "1h",
    }
    config = load([file_of(tmp_path, **fields), KUBECONFIG])
    assert not [each for each in config.warnings if not each.startswith("--kubeconfig")]
    server = config.server
    assert server is not None
    assert (server.address, server.port) == ("::", 1250)
    assert (server.cert_file, server.key_file) == (
        f"{tmp_path}/kubelet.crt",
        f"{tmp_path}/kubelet.key",
    )
    assert server.min_version == "VersionTLS13"
    assert server.ciphers == ("ECDHE-RSA-AES128-GCM-SHA256",)
    assert server.client_ca_file == f"{tmp_path}/ca.crt"
    assert (server.anonymous, server.token_webhook, server.authorization_webhook) == (
        False,
        True,
        True,
    )
    assert (server.token_ttl, server.authorized_ttl, server.unauthorized_ttl) == (60, 300, 3)
    assert (server.debugging_handlers, server.streaming_idle_timeout) == (False, 3600)


@pytest.mark.parametrize(
    ("fields", "flags", "fault"),
    [
        (
            {**OPEN},
            [],
            '(--authorization-mode): Invalid value: "Webhook": needs an apiserver',
        ),
        (
            {"authentication": {"x509": {"clientCAFile": "/ca.crt"}}, **ALLOWED},
            [],
            "(--authentication-token-webhook): Invalid value: true: needs an apiserver and there",
        ),
        (
            {"tlsMinVersion": "1.3"},
            [],
            '(--tls-min-version): Unsupported value: "1.3"',
        ),
        (
            {"tlsCipherSuites": ["TLS_RSA_WITH_RC4_128_SHA"]},
            [],
            "tlsCipherSuites[0]",
        ),
        ({"tlsCertFile": "/a.crt"}, [KUBECONFIG], "must be set together"),
        ({"tlsPrivateKeyFile": "/a.key"}, [KUBECONFIG], "must be set together"),
    ],
)
def test_what_the_port_may_not_be_told(
    tmp_path: Path, fields: dict[str, Any], flags: list[str], fault: str
) -> None:
    with pytest.raises(ConfigError) as error:
        load([file_of(tmp_path, **fields), *flags])
    assert any(fault in problem for problem in error.value.problems), error.value.problems
