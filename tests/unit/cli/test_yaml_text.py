"""YAML that Kubernetes' readers and PyYAML read alike."""

from typing import Any

import pytest
import yaml

from minikubelet.api.yaml import load_all
from minikubelet.cli.yaml_text import yaml_text


@pytest.mark.parametrize(
    "text",
    [
        *("", "~", "null", "true", "y", "on", "=", "<<", ".inf"),
        *("1e3", "0o17", "012", "1_000", "12:30:45", "2026-01-02"),
        *("plain", "two words", "é", " a", "a: b", "- a", "# no", "a\nb\n", "a\n b "),
    ],
)
def test_strings_stay_strings(text: str) -> None:
    written = yaml_text({"key": text})
    assert [document.value for document in load_all(written)] == [{"key": text}]
    assert yaml.safe_load(written) == {"key": text}


def test_order_and_repetitions_are_kept() -> None:
    shared: dict[str, Any] = {"b": 1, "a": [True, None, 1.5]}
    written = yaml_text({"z": shared, "a": shared})
    assert written.index("z:") < written.index("a:")
    assert "&" not in written
    assert yaml.safe_load(written) == {"z": shared, "a": shared}
