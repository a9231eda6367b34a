"""The guard of skips, on a session of its own."""

from pathlib import Path

import pytest

from tests.allowed_skips import LIST, forbidden, read_list


def test_comments_and_blank_lines_are_no_entries() -> None:
    assert read_list("# why\n\n needs root \n") == {"needs root"}


def test_the_list_has_an_entry_for_root() -> None:
    assert "needs root" in read_list(LIST.read_text())


def test_only_listed_reasons_pass() -> None:
    assert forbidden(["needs root", "not today"], frozenset({"needs root"})) == ["not today"]


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        pytest.param("needs root", pytest.ExitCode.OK, id="listed"),
        pytest.param("not today", pytest.ExitCode.TESTS_FAILED, id="not listed"),
    ],
)
def test_a_session_with_a_skip_that_is_not_listed_fails(
    tmp_path: Path, reason: str, code: pytest.ExitCode, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / f"test_{tmp_path.name}.py").write_text(
        f"import pytest\ndef test_it() -> None:\n    pytest.skip({reason!r})\n"
    )
    arguments = [
        "--import-mode=importlib",
        "-p",
        "tests.allowed_skips",
        "-c",
        "/dev/null",
        "--rootdir",
        str(tmp_path),
    ]
    assert pytest.main([*arguments, str(tmp_path)]) == code
    assert f"skipped 1: {reason}" in capfd.readouterr().out
