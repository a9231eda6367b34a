"""Credentials from files and from exec plugins, which are small shell scripts here."""

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from minikubelet.api.timestamp import parse
from minikubelet.kube.credentials import Credentials, Identity
from minikubelet.kube.kubeconfig import ExecPlugin, Kubeconfig, KubeconfigError, Material, User

pytestmark = pytest.mark.anyio

VERSION = "client.authentication.k8s.io/v1"
SERVER = "https://192.0.2.1:6443"


@dataclass
class WallClock:
    now: str = "2026-01-01T00:00:00Z"

    def monotonic(self) -> float:
        return 0.0

    def wall_ns(self) -> int:
        return parse(self.now)


@dataclass
class Plugin:
    """A plugin that prints `answer` and notes its KUBERNETES_EXEC_INFO at each run."""

    folder: Path
    answer: Any
    script: str = ""
    user: User = field(init=False)

    def __post_init__(self) -> None:
        program = self.folder / "login"
        program.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$KUBERNETES_EXEC_INFO" >>{self.folder}/runs\n'
            f"{self.script}\ncat {self.folder}/answer\n"
        )
        program.chmod(0o755)
        self.print(self.answer)
        self.user = User(exec_plugin=ExecPlugin(str(program), VERSION, provide_cluster_info=True))

    def print(self, answer: Any) -> None:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        (self.folder / "answer").write_text(text)

    @property
    def runs(self) -> list[Any]:
        runs = self.folder / "runs"
        return [json.loads(line) for line in runs.read_text().splitlines()] if runs.exists() else []


def printed(**status: str) -> dict[str, Any]:
    return {"apiVersion": VERSION, "kind": "ExecCredential", "status": status}


def credentials(user: User, **config: Any) -> Credentials:
    return Credentials(Kubeconfig("k", SERVER, user=user, **config), WallClock())


async def test_files_are_read_anew_each_time(tmp_path: Path) -> None:
    certificate, token, ca = tmp_path / "current.pem", tmp_path / "token", tmp_path / "ca"
    certificate.write_bytes(b"C1")
    token.write_text("T1\n")
    ca.write_bytes(b"A")
    user = User(Material(str(certificate)), Material(str(certificate)), "old", str(token))
    reader = credentials(user, ca=Material(str(ca)))
    assert await reader.read() == Identity("T1", b"C1", b"C1", b"A")
    certificate.unlink()
    certificate.symlink_to(tmp_path / "ca")
    token.write_text("T2")
    assert await reader.read() == Identity("T2", b"A", b"A", b"A")


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        (User(token_file="/lost/token"), "cannot read tokenFile /lost/token: No such file"),
        (User(token_file="/dev/null"), "cannot use tokenFile /dev/null: it is empty"),
        (User(Material("/lost/c"), Material("/lost/k")), "cannot read client-certificate /lost/c"),
        (User(Material(data=b"C"), Material("/lost/k")), "cannot read client-key /lost/k"),
    ],
    ids=["lost token", "empty token", "lost certificate", "lost key"],
)
async def test_a_file_that_is_not_usable_is_named(user: User, problem: str) -> None:
    with pytest.raises(KubeconfigError, match=problem):
        await credentials(user).read()


async def test_a_plugin_is_told_the_cluster_and_asked_once(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, printed(token="t"))
    reader = credentials(plugin.user, ca=Material(data=b"CA"), tls_server_name="api")
    assert [(await reader.read()).token for _ in range(3)] == ["t"] * 3
    cluster = {
        "server": SERVER,
        "certificate-authority-data": base64.b64encode(b"CA").decode(),
        "tls-server-name": "api",
    }
    spec = {"interactive": False, "cluster": cluster}
    assert plugin.runs == [{"apiVersion": VERSION, "kind": "ExecCredential", "spec": spec}]


async def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, printed(clientCertificateData="C", clientKeyData="K"))
    assert await credentials(plugin.user).read() == Identity("", b"C", b"K")


async def test_a_plugin_runs_again_when_its_credential_is_over(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, printed(token="1", expirationTimestamp="2026-01-01T01:00:00Z"))
    clock = WallClock()
    reader = Credentials(Kubeconfig("k", SERVER, user=plugin.user), clock)
    first = await reader.read()
    assert (first.token, first.expires_ns) == ("1", parse("2026-01-01T01:00:00Z"))
    plugin.print(printed(token="2"))
    clock.now = "2026-01-01T00:59:59Z"
    assert (await reader.read()).token == "1"
    clock.now = "2026-01-01T01:00:00Z"
    assert (await reader.read()).token == "2"


async def test_a_plugin_runs_again_when_its_credential_was_refused(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, printed(token="1"))
    reader = credentials(plugin.user)
    await reader.read()
    plugin.print(printed(token="2"))
    assert (await reader.read(refused=True)).token == "2"
    assert len(plugin.runs) == 2


async def test_looking_at_the_files_runs_no_plugin(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, printed(token="1"))
    assert await credentials(plugin.user).from_files() == Identity()
    assert plugin.runs == []


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("Please log in", "JSON is malformed"),
        ([], "kind must be ExecCredential"),
        ({"kind": "ExecCredential", "apiVersion": "v0"}, "apiVersion must be client"),
        ({"kind": "ExecCredential", "apiVersion": VERSION}, "status: required"),
        (printed(), "neither token nor clientCertificateData"),
        (printed(clientKeyData="K"), "both or none"),
        (printed(token="t", expirationTimestamp="tomorrow"), "tomorrow"),
        ({**printed(), "status": {"token": 1}}, r"status\.token: must be a string"),
    ],
)
async def test_what_a_plugin_printed_wrongly_is_said(
    tmp_path: Path, answer: Any, problem: str
) -> None:
    with pytest.raises(KubeconfigError, match=problem) as raised:
        await credentials(Plugin(tmp_path, answer).user).read()
    assert "login (exec) printed" in str(raised.value)


async def test_a_plugin_that_fails_tells_why(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, printed(token="t"), script="echo no network >&2; exit 3")
    with pytest.raises(KubeconfigError, match=r"login: exit code 3: no network"):
        await credentials(plugin.user).read()


async def test_a_plugin_that_is_not_installed_comes_with_its_hint(tmp_path: Path) -> None:
    plugin = ExecPlugin(str(tmp_path / "lost"), VERSION, install_hint="apt install lost")
    with pytest.raises(KubeconfigError, match=r"No such file[^\n]*\napt install lost"):
        await credentials(User(exec_plugin=plugin)).read()
