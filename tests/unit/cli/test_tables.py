"""What people see of pods and manifests: rows, and notes above them."""

from pathlib import Path
from typing import Any

import pytest

from minikubelet.agent.views import manifest_document
from minikubelet.cli.tables import manifests_table, notes, pods_table, select
from minikubelet.sources.decode import decode_manifest
from minikubelet.sources.folder import Look, Request, look
from minikubelet.sources.reports import ManifestReport
from minikubelet.sources.static import Place
from tests.unit.cli.documents import NOW, a_pod, a_report, manifests, running

POD = a_pod(running(), phase="Running", podIP="10.0.0.7")
INVALID = a_report(errors=("/m/web.yaml:3: spec.containers: Required value",))


def rows(*pods: dict[str, Any], of: Any = None, **options: bool) -> list[dict[str, str]]:
    chosen: dict[str, bool] = {"wide": False, "narrowed": False} | options
    table = pods_table(pods, of or manifests(), NOW, **chosen)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


class TestPods:
    def test_a_row(self) -> None:
        assert rows(POD) == [
            {
                "NAMESPACE": "default",
                "NAME": "web-node1",
                "READY": "1/1",
                "STATUS": "Running",
                "RESTARTS": "0",
                "AGE": "5s",
                "IP": "10.0.0.7",
                "SOURCE": "file",
                "MESSAGE": "",
            }
        ]

    def test_what_is_not_known(self) -> None:
        pod = a_pod(metadata={"annotations": {}}, startTime=None)
        (row,) = rows(pod)
        assert (row["AGE"], row["IP"], row["SOURCE"]) == ("<unknown>", "<none>", "<none>")

    @pytest.mark.parametrize(
        ("metadata", "start", "age"),
        [
            ({"creationTimestamp": "2026-01-02T03:00:05Z"}, "2026-01-02T03:04:00Z", "4m"),
            ({"annotations": {"kubernetes.io/config.seen": "2026-01-02T03:03:05Z"}}, None, "60s"),
        ],
    )
    def test_the_age_counts_from_the_creation(
        self, metadata: dict[str, Any], start: str | None, age: str
    ) -> None:
        assert rows(a_pod(running(), metadata=metadata, startTime=start))[0]["AGE"] == age

    def test_a_static_pod_that_the_apiserver_does_not_show(self) -> None:
        document = manifests(a_report("web-node1_default"))
        document["mirrors"] = {"web-node1_default": "cannot keep the mirror pod"}
        assert rows(POD, of=document)[0]["MESSAGE"] == "cannot keep the mirror pod"
        (row,) = manifests_table(document).rows
        assert row[3:] == ("Warning", "default/web-node1", "cannot keep the mirror pod")
        worse = a_pod(running(), phase="Running", message="it is out of order")
        assert rows(worse, of=document)[0]["MESSAGE"] == "it is out of order"

    def test_wide(self) -> None:
        report = a_report("web-node1_default", document=2)
        pod = a_pod(running(), running("b"), init=(running("i"),))
        (row,) = rows(pod, of=manifests(report), wide=True)
        assert [row[name] for name in ("UID", "NODE", "CONTAINERS", "IMAGES", "ORIGIN")] == [
            "uid-1",
            "Node1",
            "i,app,b",
            "j,i,i",
            "/m/web.yaml#2",
        ]

    def test_a_manifest_whose_last_good_version_runs(self) -> None:
        report = a_report(
            "web-node1_default", errors=("/m/web.yaml:3: spec: bad",), lastGoodRuns=True
        )
        (row,) = rows(POD, of=manifests(report))
        assert row["STATUS"] == "Running"
        assert row["MESSAGE"] == "the last good version runs: /m/web.yaml:3: spec: bad"

    def test_an_invalid_manifest_has_a_row_of_its_own(self) -> None:
        both = rows(POD, of=manifests(INVALID))
        assert both[1] == {
            "NAMESPACE": "-",
            "NAME": "-",
            "READY": "-",
            "STATUS": "Invalid",
            "RESTARTS": "-",
            "AGE": "-",
            "IP": "-",
            "SOURCE": "file",
            "MESSAGE": "/m/web.yaml:3: spec.containers: Required value",
        }

    def test_an_invalid_manifest_in_the_wide_table_names_its_place(self) -> None:
        (row,) = rows(of=manifests(INVALID), wide=True)
        assert (row["UID"], row["IMAGES"], row["ORIGIN"]) == ("-", "-", "/m/web.yaml#1")

    def test_narrowed_pods_come_without_invalid_manifests(self) -> None:
        assert len(rows(POD, of=manifests(INVALID), narrowed=True)) == 1
        assert notes(manifests(INVALID), hides_invalid=True) == [
            "invalid manifests: 1 (see `minikubelet get manifests`)"
        ]
        assert notes(manifests(INVALID)) == []

    def test_B02_a_missing_name_names_the_file_and_the_field(self) -> None:
        text = b"apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {containers: []}\n"
        found = decode_manifest(text, Place("file", "/m/web.yaml", "node1"))
        (row,) = rows(of=manifests(*map(manifest_document, found.reports)))
        assert row["STATUS"] == "Invalid"
        assert row["MESSAGE"].startswith("/m/web.yaml:3: metadata.name: Required value")
        assert "-node1" not in row["MESSAGE"]


class TestNotes:
    def test_B05_a_missing_manifest_path_stands_above_the_table(self, tmp_path: Path) -> None:
        path = str(tmp_path / "missing")
        found = look(Request(path, "node1"), Look(), {})
        report = manifest_document(ManifestReport("file", path, errors=(found.fault,)))
        assert notes(manifests(report)) == [
            f"cannot read manifests: {path} does not exist; create it, it will be picked up"
        ]
        assert rows(of=manifests(report)) == []

    def test_the_runtime_comes_first_then_sources_then_conflicts(self) -> None:
        url = a_report(
            location="http://m/", errors=("cannot read pods from http://m/: status 500",)
        )
        conflict = "cannot run pod web-node1_default of /m/b.yaml: /m/a.yaml has the same name"
        document = manifests(url, conflicts=(conflict,), runtime="container runtime is down")
        assert notes(document) == [
            "runtime: container runtime is down",
            "cannot read pods from http://m/: status 500",
            conflict,
        ]


class TestManifests:
    @pytest.mark.parametrize(
        ("report", "state", "pods", "message"),
        [
            pytest.param(
                a_report("web-node1_default"), "Valid", "default/web-node1", "", id="fine"
            ),
            pytest.param(INVALID, "Invalid", "-", INVALID["errors"][0], id="invalid"),
            pytest.param(
                a_report("a_x", "b_y", errors=("bad",), lastGoodRuns=True, warnings=["odd"]),
                "LastGoodRuns",
                "x/a\ny/b",
                "bad\nodd",
                id="last good",
            ),
            pytest.param(a_report("a_x", warnings=["odd"]), "Warning", "x/a", "odd", id="warning"),
            pytest.param(a_report(warnings=["left out"]), "Skipped", "-", "left out", id="skipped"),
        ],
    )
    def test_state(self, report: dict[str, Any], state: str, pods: str, message: str) -> None:
        table = manifests_table(manifests(report))
        assert table.columns[3:] == ("STATE", "PODS", "MESSAGE")
        assert table.rows == (("file", "/m/web.yaml", "1", state, pods, message),)

    def test_a_whole_file_has_no_number(self) -> None:
        assert manifests_table(manifests(a_report(document=0))).rows[0][2] == "-"


class TestSelect:
    PODS = (
        a_pod(metadata={"name": "web-node1"}),
        a_pod(metadata={"name": "web-node1", "namespace": "other"}),
        a_pod(metadata={"name": "web"}),
        a_pod(metadata={"name": "web-node1-node1"}),
    )

    @pytest.mark.parametrize(
        ("namespace", "name", "found"),
        [
            ("", "", [0, 1, 2, 3]),
            ("other", "", [1]),
            ("", "web-node1", [0, 1]),
            ("other", "web", [1]),
            ("", "web", [2]),
            ("default", "web-node1", [0]),
            ("nowhere", "", []),
            ("", "we", []),
        ],
    )
    def test_by_namespace_and_name(self, namespace: str, name: str, found: list[int]) -> None:
        assert select(self.PODS, namespace, name) == [self.PODS[index] for index in found]
