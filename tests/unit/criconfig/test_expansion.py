import pytest

from minikubelet.criconfig.expansion import expand, expand_and_list_unknown

VARS = {"A": "1", "B": "$(A)", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(A)z", "x1y1z"),
        ("$(B)", "$(A)"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$(A", "$(A"),
        ("$A", "$A"),
        ("cost$", "cost$"),
        ("$$", "$"),
        ("$()", "$()"),
        ("$($(A))", "$($(A))"),
        ("[$(EMPTY)]", "[]"),
        ("", ""),
    ],
)
def test_B42_expands_one_pass(text: str, expanded: str) -> None:
    assert expand(text, VARS) == expanded


def test_earlier_scope_wins() -> None:
    assert expand("$(A)$(C)", VARS, {"A": "no", "C": "3"}) == "13"


def test_lists_what_no_scope_knows() -> None:
    assert expand_and_list_unknown("$(A)/$(X)/$$(Y)/$(Z)", VARS)[1] == ("X", "Z")
