import pytest

from minikubelet.api.codec import (
    DecodeError,
    canonical_json,
    content_hash,
    decode_pod,
    without_nulls,
)


def test_null_fields_count_as_absent() -> None:
    document = without_nulls({"a": None, "b": {"c": None, "d": [{"e": None}, None]}})
    assert document == {"b": {"d": [{}, None]}}


def test_a_pod_is_decoded() -> None:
    pod = decode_pod({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}], "x": 1}})
    assert pod.spec.containers[0].name == "c"


def test_every_wrong_type_is_told_with_its_path() -> None:
    with pytest.raises(DecodeError) as caught:
        decode_pod(
            {"spec": {"containers": [{}, {"ports": [{"containerPort": "x"}]}], "hostPID": 1}}
        )
    assert [p.path for p in caught.value.problems] == [
        "spec.containers[1].ports[0].containerPort",
        "spec.hostPID",
    ]


def test_canonical_json_does_not_depend_on_the_order_of_keys() -> None:
    assert canonical_json({"b": 1, "a": {"d": 1, "c": 2}}) == b'{"a":{"c":2,"d":1},"b":1}'


def test_a_hash_depends_on_where_its_parts_end() -> None:
    assert content_hash(b"ab", b"c") != content_hash(b"a", b"bc")
    assert len(content_hash(b"")) == 32
