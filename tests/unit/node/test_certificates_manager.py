"""A certificate in time: asked for, waited for, renewed, and what comes in between."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from minikubelet.kube.api import API, Document
from minikubelet.kube.errors import Forbidden, Unauthorized, Unavailable
from minikubelet.node.certificates import Template, client_template, serving_template
from minikubelet.node.certificates_manager import ISSUED_WAIT, CertificateManager
from minikubelet.node.certificates_request import REQUESTS
from minikubelet.node.certificates_store import CertificateStore
from tests.apiserver import MemoryAPI
from tests.unit.node.signer import Signer
from tests.unit.pods.harness import jump

pytestmark = pytest.mark.anyio
START = 1_700_000_000


@pytest.fixture(scope="module")
def signer() -> Signer:
    return Signer.new()


class Clock:
    def monotonic(self) -> float:
        return anyio.current_time()

    def wall_ns(self) -> int:
        return round((START + anyio.current_time()) * 1e9)


@dataclass
class Cluster:
    """An apiserver whose signer answers each request by `verdict`, at once or after a while."""

    signer: Signer
    lasts: float = 1000.0
    back: float = 0.0
    after: float = 0.0
    verdict: Callable[[int], str] = lambda _number: "issue"
    api: MemoryAPI = field(default_factory=MemoryAPI)
    asked: list[float] = field(default_factory=list)
    begun: float = field(default_factory=anyio.current_time)
    group: TaskGroup = field(init=False)

    def __post_init__(self) -> None:
        self.api.on_create = self._create

    def _create(self, path: str, body: Document) -> Document:
        self.asked.append(anyio.current_time() - self.begun)
        number = len(self.asked)
        name = body["metadata"].get("name") or f"csr-{number}"
        document = {**body, "metadata": {"name": name}}
        self.group.start_soon(self._answer, number, f"{path}/{name}")
        if body["metadata"].get("name"):
            return document
        return self.api.put(f"{path}/{name}", document)

    async def _answer(self, number: int, path: str) -> None:
        # Never at once: the request is watched by then.
        await anyio.sleep(max(self.after, 0.01))
        verdict = self.verdict(number)
        if verdict == "delete":
            self.api.drop(path)
        elif verdict != "nothing":
            request = self.api.objects[path]
            self.api.put(path, {**request, "status": self._status(verdict, request["spec"])})

    def _status(self, verdict: str, spec: dict[str, Any]) -> Document:
        if verdict == "deny":
            return {"conditions": [{"type": "Denied", "reason": "No", "message": "not you"}]}
        if verdict == "nonsense":
            return self.signer.status(b"nonsense")
        now = START + anyio.current_time()
        names = verdict != "strip"
        certificate = self.signer.sign(spec, now, self.lasts, self.back, names=names)
        return self.signer.status(certificate)

    def gaps(self) -> list[float]:
        return [b - a for a, b in zip(self.asked, self.asked[1:], strict=False)]


@asynccontextmanager
async def running(
    cluster: Cluster,
    folder: Path,
    template: Callable[[], Template | None] = lambda: client_template("n1"),
    *,
    named: bool = False,
    once: bool = False,
) -> AsyncIterator[CertificateManager]:
    async def api() -> API:
        return cluster.api

    store = CertificateStore(str(folder), "kubelet-client")
    manager = CertificateManager(store, template, api, Clock(), lambda: 0.5, named=named)
    async with anyio.create_task_group() as group:
        cluster.group = group
        group.start_soon(jump)
        await manager.load()
        group.start_soon(manager.obtain if once else manager.run)
        yield manager
        group.cancel_scope.cancel()


def named(manager: CertificateManager) -> set[str]:
    """Return the addresses of the certificate in use."""
    return set(manager.held.addresses) if manager.held is not None else set()


async def test_the_first_certificate_comes_by_a_watch_and_is_used_at_once(
    tmp_path: Path, signer: Signer
) -> None:
    cluster = Cluster(signer, after=100)
    issued: list[float] = []

    async def on_issued() -> None:
        issued.append(anyio.current_time() - cluster.begun)

    async with running(cluster, tmp_path) as manager:
        manager.on_issued = on_issued
        assert manager.held is None
        await anyio.sleep(200)
        assert manager.valid
        assert manager.files is not None
        assert Path(manager.files.cert_file).exists()
    assert issued == [pytest.approx(100, abs=0.2)]
    lists = [r for r in cluster.api.sent("GET") if r.path == REQUESTS]
    assert {r.query["fieldSelector"] for r in lists} == {"metadata.name=csr-1"}
    assert len(lists) == 1


async def test_it_is_renewed_within_its_lifetime_for_ever(tmp_path: Path, signer: Signer) -> None:
    cluster = Cluster(signer, lasts=1000)
    async with running(cluster, tmp_path) as manager:
        for _ in range(40):
            await anyio.sleep(100)
            assert manager.valid
    # A share of 0.5 between 70 and 90 %.
    assert cluster.gaps() == [pytest.approx(800, abs=2)] * 4


async def test_a_short_one_of_a_signer_that_dates_back_is_not_asked_for_in_a_loop(
    tmp_path: Path, signer: Signer
) -> None:
    cluster = Cluster(signer, lasts=60, back=300)
    async with running(cluster, tmp_path):
        await anyio.sleep(500)
    assert cluster.gaps() == [pytest.approx(48, abs=2)] * 10


async def test_a_restart_asks_for_nothing_while_the_stored_one_counts(
    tmp_path: Path, signer: Signer
) -> None:
    cluster = Cluster(signer, lasts=100_000)
    async with running(cluster, tmp_path):
        await anyio.sleep(1)
    async with running(cluster, tmp_path) as manager:
        await anyio.sleep(1000)
        assert manager.valid
    assert len(cluster.asked) == 1


async def test_requests_are_five_seconds_apart_even_of_certificates_that_end_at_once(
    tmp_path: Path, signer: Signer
) -> None:
    cluster = Cluster(signer, lasts=1)
    async with running(cluster, tmp_path):
        await anyio.sleep(60)
    assert len(cluster.asked) > 5
    assert min(cluster.gaps()) >= 5


async def test_a_denied_request_is_made_anew_with_back_off(tmp_path: Path, signer: Signer) -> None:
    cluster = Cluster(signer, verdict=lambda n: "deny" if n <= 6 else "issue")
    async with running(cluster, tmp_path) as manager:
        await anyio.sleep(20)
        assert (manager.held, manager.server_answers) == (None, True)
        await anyio.sleep(200)
        assert manager.valid
    gaps = cluster.gaps()
    assert [round(gap) for gap in gaps] == [5, 5, 8, 17, 34, 34]


@pytest.mark.parametrize("verdict", ["delete", "nonsense"])
async def test_a_request_that_comes_to_nothing_is_made_anew(
    tmp_path: Path, signer: Signer, verdict: str
) -> None:
    cluster = Cluster(signer, verdict=lambda n: verdict if n == 1 else "issue")
    async with running(cluster, tmp_path) as manager:
        await anyio.sleep(30)
        assert manager.valid
    assert len(cluster.asked) == 2


async def test_nobody_who_signs_is_waited_for_a_quarter_of_an_hour(
    tmp_path: Path, signer: Signer
) -> None:
    cluster = Cluster(signer, verdict=lambda n: "nothing" if n == 1 else "issue")
    async with running(cluster, tmp_path) as manager:
        await anyio.sleep(ISSUED_WAIT - 10)
        assert len(cluster.asked) == 1
        await anyio.sleep(20)
        assert manager.valid
    assert cluster.gaps()[0] == pytest.approx(ISSUED_WAIT + 5, abs=1)


@pytest.mark.parametrize(
    ("failure", "answers"),
    [
        (Unavailable("connection refused"), False),
        (Unauthorized("Unauthorized", code=401), True),
        (Forbidden("no", code=403), True),
    ],
)
async def test_a_server_that_refuses_or_is_away_is_asked_again(
    tmp_path: Path, signer: Signer, failure: Any, answers: bool
) -> None:
    cluster = Cluster(signer)
    cluster.api.always = failure
    async with running(cluster, tmp_path) as manager:
        await anyio.sleep(400)
        assert manager.server_answers is answers
        posts = len(cluster.api.sent("POST"))
        assert 10 <= posts <= 18
        cluster.api.always = None
        await anyio.sleep(40)
        assert manager.valid


async def test_a_folder_that_can_t_be_written_costs_no_request(
    tmp_path: Path, signer: Signer
) -> None:
    folder = tmp_path / "pki"
    folder.write_text("somebody's file")
    cluster = Cluster(signer)
    async with running(cluster, folder) as manager:
        await anyio.sleep(100)
        assert cluster.asked == []
        folder.unlink()
        await anyio.sleep(40)
        assert manager.valid


async def test_a_broken_stored_one_is_replaced(tmp_path: Path, signer: Signer) -> None:
    (tmp_path / "kubelet-client-current.pem").write_text("half a certif")
    cluster = Cluster(signer)
    async with running(cluster, tmp_path) as manager:
        await anyio.sleep(5)
        assert manager.valid


async def test_new_addresses_need_a_new_certificate(tmp_path: Path, signer: Signer) -> None:
    addresses: list[dict[str, str]] = []
    cluster = Cluster(signer, lasts=100_000)
    async with running(cluster, tmp_path, lambda: serving_template("n1", addresses)) as manager:
        await anyio.sleep(100)
        assert cluster.asked == []
        addresses.append({"type": "InternalIP", "address": "10.0.0.1"})
        manager.changed()
        await anyio.sleep(100)
        assert named(manager) == {"10.0.0.1"}
        addresses.append({"type": "ExternalIP", "address": "198.51.100.1"})
        manager.changed()
        await anyio.sleep(100)
        assert named(manager) == {"10.0.0.1", "198.51.100.1"}
        addresses.pop()
        manager.changed()
        await anyio.sleep(100)
    assert len(cluster.asked) == 2


async def test_a_signer_that_leaves_names_out_is_asked_with_back_off(
    tmp_path: Path, signer: Signer
) -> None:
    cluster = Cluster(signer, verdict=lambda _: "strip", lasts=100_000)
    addresses = [{"type": "InternalIP", "address": "10.0.0.1"}]
    async with running(cluster, tmp_path, lambda: serving_template("n1", addresses)) as manager:
        await anyio.sleep(120)
        assert manager.valid  # better than none
    assert [round(gap) for gap in cluster.gaps()] == [5, 5, 8, 17, 34, 34]


async def test_a_named_request_is_found_again_after_a_restart(
    tmp_path: Path, signer: Signer
) -> None:
    cluster = Cluster(signer, verdict=lambda n: "nothing" if n == 1 else "issue")
    async with running(cluster, tmp_path, named=True, once=True):
        await anyio.sleep(10)
    assert (tmp_path / "kubelet-client.key.tmp").exists()
    async with running(cluster, tmp_path, named=True, once=True) as manager:
        await anyio.sleep(10)
        assert manager.valid
    requests = [path for path in cluster.api.objects if path.startswith(REQUESTS)]
    assert len(requests) == 1
    assert requests[0].startswith(f"{REQUESTS}/node-csr-")
    assert not (tmp_path / "kubelet-client.key.tmp").exists()


async def test_after_a_refusal_a_named_request_has_another_key(
    tmp_path: Path, signer: Signer
) -> None:
    cluster = Cluster(signer, verdict=lambda n: "deny" if n == 1 else "issue")
    async with running(cluster, tmp_path, named=True, once=True) as manager:
        await anyio.sleep(30)
        assert manager.valid
    assert len([path for path in cluster.api.objects if path.startswith(REQUESTS)]) == 2
