"""The kindlike nodes' process 1 reads units as systemd does, as far as these need it."""

from pathlib import Path

import pytest

from tests.e2e.kindlike.init import Unit, expand, unquoted

UNIT = """\
[Unit]
ConditionPathExists=/there
[Service]
# Environment="FIRST=comment"
Environment="FIRST=--a --b" SECOND=x
ExecStart=/bin/old
RestartSec=1s
Slice=kubelet.slice
"""


def test_drop_ins_come_after_the_unit(tmp_path: Path) -> None:
    (tmp_path / "extra").write_text('SECOND="--y=1 --z"\n# SECOND=no\n')
    (tmp_path / "k.service").write_text(UNIT)
    (tmp_path / "k.service.d").mkdir()
    files = f"EnvironmentFile=-{tmp_path}/missing\nEnvironmentFile=-{tmp_path}/extra\n"
    start = "ExecStart=\nExecStart=/bin/new $FIRST $SECOND $THIRD\n"
    (tmp_path / "k.service.d" / "10.conf").write_text(f"[Service]\n{files}{start}")
    unit = Unit("k", tmp_path)
    assert unit.argv() == ["/bin/new", "--a", "--b", "--y=1", "--z"]
    assert (unit.restart_seconds, unit.slice, unit.condition) == (1.0, "kubelet.slice", "/there")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("run $A", ["run", "one", "two"]),
        ("run ${A}", ["run", "one two"]),
        ("run --a=${A}", ["run", "--a=one two"]),
        ("run $NONE", ["run"]),
        ("run ${NONE}", ["run", ""]),
        ("run 'a b'", ["run", "a b"]),
    ],
)
def test_words_of_a_command(command: str, words: list[str]) -> None:
    assert expand(command, {"A": "one two"}) == words


@pytest.mark.parametrize(
    ("value", "text"),
    [('"a b"', "a b"), ("'a b'", "a b"), ("a b", "a b"), ('"', '"'), ("", ""), ('a "b"', 'a "b"')],
)
def test_quotes_around_a_value(value: str, text: str) -> None:
    assert unquoted(value) == text
