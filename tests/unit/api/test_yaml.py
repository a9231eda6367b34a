from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikubelet.api.yaml import YAMLError, load_all


def value_of(text: str) -> Any:
    (document,) = load_all(f"v: {text}\n")
    return document.value["v"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("On", True),
        ("y", True),
        ("no", False),
        ("OFF", False),
        ("n", False),
        ("true", True),
        ("~", None),
        ("", None),
        ("Null", None),
        ("2001-01-01", "2001-01-01"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
        ("12:30:45", "12:30:45"),
        ("0644", 420),
        ("0o644", 420),
        ("0x1F", 31),
        ("0b101", 5),
        ("1_000", 1000),
        ("-7", -7),
        ("+7", 7),
        ("089", 89),
        ("1e3", 1000),
        ("1.0", 1),
        (".5", 0.5),
        ("1e21", 1e21),
        ("18446744073709551615", 18446744073709551615),
        ("'5'", "5"),
        ('"yes"', "yes"),
        ("!!str 5", "5"),
        ("!!int '5'", 5),
        ("!!binary aGVsbG8=", "hello"),
        ("1.2.3", "1.2.3"),
        ("v1", "v1"),
        ("1Gi", "1Gi"),
        ("=", "="),
    ],
)
def test_a_scalar_means_what_go_yaml_takes_it_for(text: str, value: Any) -> None:
    result = value_of(text)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize("key", ["1", "true", "~"])
def test_keys_become_strings(key: str) -> None:
    (document,) = load_all(f"{key}: x\n")
    assert list(document.value) == [{"1": "1", "true": "true", "~": "null"}[key]]


def test_merge_keys_are_merged_and_own_keys_win() -> None:
    (document,) = load_all("a: &a {p: 1, q: 2}\nb: {<<: *a, q: 3}\n")
    assert document.value["b"] == {"p": 1, "q": 3}


def test_documents_keep_number_and_line_and_empty_ones_are_left_out() -> None:
    first, second = load_all("a: 1\n---\n# nothing\n---\nb: 2\n")
    assert (first.value, first.number, first.line) == ({"a": 1}, 1, 1)
    assert (second.value, second.number, second.line) == ({"b": 2}, 3, 5)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("spec.containers[1].name", 5),
        ("spec.containers[1].image", 5),
        ("spec.containers[0].ports[0].containerPort", 4),
        ("metadata.name", 1),
        ("spec.labels[a.b/c]", 7),
    ],
)
def test_a_path_has_its_line_or_that_of_its_nearest_ancestor(path: str, line: int) -> None:
    (document,) = load_all(
        "spec:\n"
        "  containers:\n"
        "  - name: a\n"
        "    ports: [{containerPort: 1}]\n"
        "  - name: b\n"
        "  labels:\n"
        "    a.b/c: d\n"
    )
    assert document.line_of(path) == line


def test_json_is_read_with_its_lines() -> None:
    (document,) = load_all('{\n\t"a": "x\\/y",\n\t"b": [1,\n\t\t2]\n}')
    assert document.value == {"a": "x/y", "b": [1, 2]}
    (plain,) = load_all('{"a": 1,\n "b": {"c": 2}}')
    assert plain.line_of("b.c") == 2


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("a: 1\nb: 2\na: 3\n", 'key "a" is set twice', 3),
        ('{"a": 1, "a": 2}', 'key "a" is set twice', 1),
        ("a: [1\n", "did not find expected", 2),
        ("a: &a [*a]\n", "contains itself", 1),
        ("{[1]: 2}", "a key must be a plain value", 1),
        ("a: .nan\n", "has no JSON form", 1),
        ("a: !!int x\n", "is no !!int", 1),
        ("<<: 5\n", "needs a mapping", 1),
        ("[" * 100_000, "nested too deeply", 0),
        ("- " * 500 + "x", "nested too deeply", 1),
        ("- " * 5_000, "nesting depth", 1),
    ],
)
def test_what_cannot_be_read_names_the_line(text: str, message: str, line: int) -> None:
    with pytest.raises(YAMLError, match="cannot read") as caught:
        load_all(text)
    assert message in str(caught.value)
    assert caught.value.line == line


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [
        f"{c}: &{c} [{','.join([f'*{p}'] * 9)}]" for p, c in zip("abcdefg", "bcdefgh", strict=True)
    ]
    with pytest.raises(YAMLError, match="excessive aliasing"):
        load_all("\n".join(lines))


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(YAMLError):
        load_all(text)
