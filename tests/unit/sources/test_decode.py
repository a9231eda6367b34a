import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikubelet.sources.decode import Manifest, decode_manifest
from tests.unit.sources.documents import PLACE, content_of, pod_document


def names(manifest: Manifest) -> list[str]:
    return [record.pod.metadata.name for record in manifest.pods]


def errors(manifest: Manifest) -> list[str]:
    return [error for report in manifest.reports for error in report.errors]


def warnings(manifest: Manifest) -> list[str]:
    return [warning for report in manifest.reports for warning in report.warnings]


def a_list(kind: str, *items: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "items": list(items)}


def test_B08_every_document_of_a_file_runs() -> None:
    manifest = decode_manifest(content_of(pod_document("a"), pod_document("b")), PLACE)
    assert names(manifest) == ["a-node1", "b-node1"]
    assert [r.origin for r in manifest.pods] == ["/m/web.yaml#1", "/m/web.yaml#2"]
    assert [(r.document, r.pods) for r in manifest.reports] == [
        (1, ("a-node1_default",)),
        (2, ("b-node1_default",)),
    ]


@pytest.mark.parametrize("kind", ["PodList", "List"])
def test_B08_every_item_of_a_list_runs(kind: str) -> None:
    manifest = decode_manifest(
        content_of(a_list(kind, pod_document("a"), pod_document("b"))), PLACE
    )
    assert names(manifest) == ["a-node1", "b-node1"]
    assert [r.origin for r in manifest.pods] == ["/m/web.yaml#1[0]", "/m/web.yaml#1[1]"]


def test_items_of_a_pod_list_need_no_kind() -> None:
    item = pod_document("a")
    del item["kind"], item["apiVersion"]
    assert names(decode_manifest(content_of(a_list("PodList", item)), PLACE)) == ["a-node1"]
    assert errors(decode_manifest(content_of(a_list("List", item)), PLACE)) == [
        "/m/web.yaml:3: items[0].kind: Required value: must be Pod, PodList or List"
    ]


def test_json_is_read() -> None:
    manifest = decode_manifest(json.dumps(pod_document("a")).encode(), PLACE)
    assert names(manifest) == ["a-node1"]
    assert manifest.pods[0].origin == "/m/web.yaml"


def test_a_byte_order_mark_is_no_fault() -> None:
    assert names(decode_manifest(b"\xef\xbb\xbf" + content_of(pod_document("a")), PLACE)) == [
        "a-node1"
    ]


def test_B07_a_skipped_object_is_a_warning_with_kind_and_name() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"}}
    manifest = decode_manifest(content_of(pod_document("a"), service), PLACE)
    assert names(manifest) == ["a-node1"]
    assert warnings(manifest) == [
        "/m/web.yaml:10: Service/svc is skipped: only Pod, PodList and List are read here"
    ]


def test_B06_an_unknown_field_is_a_warning_with_line_path_and_nearest_name() -> None:
    content = content_of(pod_document("a", restartPolice="Never"))
    (warning,) = warnings(decode_manifest(content, PLACE))
    assert (
        warning == "/m/web.yaml:9: spec.restartPolice: unknown field, did you mean restartPolicy?"
    )


def test_B02_the_error_about_a_missing_name_has_file_and_line() -> None:
    document = pod_document()
    del document["metadata"]["name"]
    assert errors(decode_manifest(content_of(document), PLACE)) == [
        "/m/web.yaml:3: metadata.name: Required value"
    ]


def test_one_bad_document_never_blocks_the_others() -> None:
    bad = pod_document("bad", image=5)  # type: ignore[arg-type]  # that is the point
    manifest = decode_manifest(content_of(pod_document("a"), bad, 5, pod_document("b")), PLACE)
    assert names(manifest) == ["a-node1", "b-node1"]
    assert errors(manifest) == [
        "/m/web.yaml:16: spec.containers[0].image: expected string, got integer 5",
        "/m/web.yaml:18: expected an object with kind Pod",
    ]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            {"apiVersion": "v2"},
            '/m/web.yaml:1: apiVersion: Unsupported value: supported values: "v1"',
        ),
        ({"apiVersion": None}, "/m/web.yaml:1: apiVersion: Required value: must be v1"),
        ({"kind": None}, "/m/web.yaml:2: kind: Required value: must be Pod, PodList or List"),
    ],
)
def test_kind_and_version_are_checked(change: dict[str, Any], error: str) -> None:
    assert errors(decode_manifest(content_of({**pod_document(), **change}), PLACE)) == [error]


def test_a_list_in_a_list_is_refused() -> None:
    content = content_of(a_list("List", a_list("List")))
    assert errors(decode_manifest(content, PLACE)) == [
        "/m/web.yaml:5: items[0].kind: a list cannot hold a list"
    ]


class TestLastGood:
    def test_B03_text_that_cannot_be_read_keeps_every_pod(self) -> None:
        good = decode_manifest(content_of(pod_document("a"), pod_document("b")), PLACE)
        broken = decode_manifest(b"kind: [Pod", PLACE, good.documents)
        assert [r.uid for r in broken.pods] == [r.uid for r in good.pods]
        assert broken.documents == good.documents
        (report,) = broken.reports
        assert report.last_good
        assert report.pods == ("a-node1_default", "b-node1_default")
        assert report.errors[0].startswith("/m/web.yaml:2: cannot read YAML")

    def test_an_invalid_document_keeps_its_own_last_version(self) -> None:
        good = decode_manifest(content_of(pod_document("a"), pod_document("b")), PLACE)
        edited = content_of(pod_document("b", dnsPolicy="x"), pod_document("a", image="b:2"))
        manifest = decode_manifest(edited, PLACE, good.documents)
        images = {r.pod.metadata.name: r.pod.spec.containers[0].image for r in manifest.pods}
        assert images == {"b-node1": "b:1", "a-node1": "b:2"}
        assert [report.last_good for report in manifest.reports] == [True, False]
        kept = next(r for r in manifest.pods if r.pod.metadata.name == "b-node1")
        assert kept.uid == good.pods[1].uid

    def test_its_errors_stand_beside_it(self) -> None:
        good = decode_manifest(content_of(pod_document("a")), PLACE)
        manifest = decode_manifest(
            content_of(pod_document("a", dnsPolicy="x")), PLACE, good.documents
        )
        (report,) = manifest.reports
        assert report.pods == ("a-node1_default",)
        assert report.errors[0].startswith("/m/web.yaml:9: spec.dnsPolicy: Unsupported value")

    def test_a_document_without_a_name_keeps_what_is_not_named_any_more(self) -> None:
        good = decode_manifest(content_of(pod_document("a"), pod_document("b")), PLACE)
        nameless = pod_document("b")
        del nameless["metadata"]
        manifest = decode_manifest(content_of(pod_document("a"), nameless), PLACE, good.documents)
        assert names(manifest) == ["a-node1", "b-node1"]

    def test_a_valid_content_that_does_not_name_a_pod_any_more_removes_it(self) -> None:
        good = decode_manifest(content_of(pod_document("a"), pod_document("b")), PLACE)
        manifest = decode_manifest(content_of(pod_document("a")), PLACE, good.documents)
        assert names(manifest) == ["a-node1"]
        assert len(manifest.documents) == 1

    def test_the_last_good_version_survives_a_second_bad_one(self) -> None:
        good = decode_manifest(content_of(pod_document("a")), PLACE)
        first = decode_manifest(content_of(pod_document("a", dnsPolicy="x")), PLACE, good.documents)
        second = decode_manifest(b"{", PLACE, first.documents)
        assert names(second) == ["a-node1"]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["metadata", "spec", "status", "kind", "items", "apiVersion"]), json_values
    )
)
def test_no_document_breaks_the_decoder(document: dict[str, Any]) -> None:
    content = json.dumps({"apiVersion": "v1", "kind": "Pod", **document}).encode()
    for report in decode_manifest(content, PLACE).reports:
        assert not any("cannot check it" in error for error in report.errors)


@given(st.binary())
def test_no_bytes_break_the_decoder(content: bytes) -> None:
    decode_manifest(content, PLACE)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"priority":%s}}'
            % ("9" * 5000),
            "expected integer, got string",
            id="more digits than Python reads",
        ),
        pytest.param("a: " + "[" * 5000, "exceeded maximum nesting depth", id="deep flow"),
        pytest.param("[" * 100_000, "nested too deeply", id="deep JSON"),
        pytest.param("a: [" + "x," * 1_000_001 + "]", "more than 1,000,000 values", id="values"),
        pytest.param(
            f"a: &a [{'x,' * 1000}]\nb: [{'*a,' * 9000}]\n# {'p' * 1_000_000}",
            "more than 1,000,000 values",
            id="values by aliases",
        ),
    ],
)
def test_a_hostile_text_is_one_error(text: str, error: str) -> None:
    kept = decode_manifest(text.encode(), PLACE, [pod_document("web")])
    assert names(kept) == ["web-node1"]
    assert error in errors(kept)[0]


def test_thousands_of_unknown_fields_are_told_in_a_few_lines() -> None:
    document = pod_document("a") | {f"field{number}": 1 for number in range(2000)}
    told = warnings(decode_manifest(content_of(document), PLACE))
    assert len(told) == 21
    assert told[-1] == "/m/web.yaml: 1980 more like these"


def test_half_a_surrogate_pair_is_replaced() -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "Job\ud800", "metadata": {"name": "\U0001f600"}})
    assert warnings(decode_manifest(text.encode(), PLACE)) == [
        "/m/web.yaml:1: Job\ufffd/\U0001f600 is skipped: only Pod, PodList and List are read here"
    ]


@pytest.mark.parametrize("uid", ["../../../etc", "a/b", "..", ".hidden", "a" * 65])
def test_a_uid_is_no_way_to_other_folders(uid: str) -> None:
    document = pod_document("a")
    document["metadata"]["uid"] = uid
    manifest = decode_manifest(content_of(document), PLACE)
    assert names(manifest) == []
    assert "metadata.uid: Invalid value" in errors(manifest)[0]


@pytest.mark.parametrize("stored", [1, "x", None, [], {}, {"metadata": []}, {"metadata": {}}])
def test_last_good_documents_edited_by_hand_harm_nothing(stored: Any) -> None:
    last_good = [stored, pod_document("web")]
    assert names(decode_manifest(b"{", PLACE, last_good)) == ["web-node1"]
    assert names(decode_manifest(b"kind: Pod", PLACE, last_good)) == ["web-node1"]
