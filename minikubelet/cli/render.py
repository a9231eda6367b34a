"""Tables and notes on a terminal: colours, wrapped messages. Only imported where there is one.

The last column holds texts of any length. Where the screen leaves room it is wrapped beside its
row, on a narrow one it stands below it.
"""

import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console, Group
from rich.text import Text

from minikubelet.cli.table import Table

_FINE = frozenset({"Running", "Completed", "Succeeded", "Valid"})
_ON_THE_WAY = frozenset(
    {"Pending", "ContainerCreating", "PodInitializing", "Terminating", "Warning", "Skipped"}
)
_COLOURED = ("STATUS", "STATE")
_GAP, _NARROW_GAP = 3, 2
_LEAST_ROOM = 40
_INDENT = 4


def show(table: Table, notes: Sequence[str]) -> None:
    """Print once."""
    console = Console()
    console.print(renderable(table, notes, console.width))


def renderable(table: Table, notes: Sequence[str], width: int) -> Group:
    """Return the notes above the table, for a screen of `width` columns."""
    # Texts, not markup: a path such as spec.containers[0] is no style.
    return Group(*(Text(line, style="bold red") for line in notes), *_lines(table, width))


def _lines(table: Table, width: int) -> Iterator[Text]:
    if not table.rows:
        return
    rows = [tuple(", ".join(cell.splitlines()) for cell in row[:-1]) for row in table.rows]
    heads = table.columns[:-1]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    used = sum(widths) + _GAP * len(widths)
    room = width - used
    is_beside = room >= _LEAST_ROOM
    padded = [each + (_GAP if is_beside else _NARROW_GAP) for each in widths]
    head = _row(heads, padded, heads)
    head.append(table.columns[-1] if is_beside else "")
    head.rstrip()
    head.stylize("bold")
    yield head
    for cells, row in zip(rows, table.rows, strict=True):
        line = _row(cells, padded, heads)
        texts = _wrapped(row[-1], room if is_beside else max(width - _INDENT, _LEAST_ROOM))
        if is_beside and texts:
            line.append(texts.pop(0))
        line.rstrip()
        yield line
        yield from (Text(" " * (used if is_beside else _INDENT) + text) for text in texts)


def _row(cells: Sequence[str], widths: Sequence[int], heads: Sequence[str]) -> Text:
    line = Text(overflow="fold")
    for cell, width, head in zip(cells, widths, heads, strict=True):
        line.append(cell, style=_colour(cell) if head in _COLOURED and cell != head else "")
        line.append(" " * (width - len(cell)))
    return line


def _wrapped(text: str, width: int) -> list[str]:
    return [
        part
        for line in text.splitlines()
        for part in textwrap.wrap(line, width, break_on_hyphens=False)
    ]


def _colour(status: str) -> str:
    if status in _FINE:
        return "green"
    if status in _ON_THE_WAY or (status.startswith("Init:") and "/" in status):
        return "yellow"
    return "red"
