"""Tables on screens of different widths."""

from rich.console import Console

from minikubelet.cli.render import renderable
from minikubelet.cli.table import Table

TABLE = Table(
    ("NAME", "STATUS", "MESSAGE"),
    (
        ("web", "Running", ""),
        ("db", "Invalid", "spec.containers[0].ports[0]: " + "word " * 12),
    ),
)


def screen(table: Table, width: int, *notes: str, colour: bool = False) -> list[str]:
    console = Console(width=width, force_terminal=colour, legacy_windows=False, no_color=False)
    with console.capture() as capture:
        console.print(renderable(table, notes, width))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_wide_screen_wraps_messages_beside_their_rows() -> None:
    assert screen(TABLE, 60) == [
        "NAME   STATUS    MESSAGE",
        "web    Running",
        "db     Invalid   spec.containers[0].ports[0]: word word word",
        "                 word word word word word word word word",
        "                 word",
    ]


def test_a_narrow_screen_has_messages_below_their_rows() -> None:
    assert screen(TABLE, 45) == [
        "NAME  STATUS",
        "web   Running",
        "db    Invalid",
        "    spec.containers[0].ports[0]: word word",
        "    word word word word word word word word",
        "    word word",
    ]


def test_names_are_not_torn_at_their_hyphens() -> None:
    table = Table(("NAME", "MESSAGE"), (("a", "x" * 30 + " container=web-server-of-node"),))
    assert screen(table, 50)[-1].strip() == "container=web-server-of-node"


def test_notes_stand_above() -> None:
    assert screen(TABLE, 100, "runtime: [red]down[/red]")[0] == "runtime: [red]down[/red]"


def test_a_table_without_rows_is_nothing() -> None:
    assert screen(Table(("A", "B"), ()), 80, "note") == ["note"]


def test_states_have_colours() -> None:
    lines = screen(TABLE, 60, colour=True)
    assert "\x1b[32mRunning\x1b[0m" in lines[1]
    assert "\x1b[31mInvalid\x1b[0m" in lines[2]
