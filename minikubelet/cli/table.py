"""A table as a value, and as plain aligned text for pipes: nothing is cut off there. Pure."""

from dataclasses import dataclass

_GAP = "   "


@dataclass(frozen=True, slots=True)
class Table:
    """Cells are texts; one may have several lines."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def plain(table: Table) -> str:
    """Return one line a row; lines inside a cell are joined by `; `."""
    rows = [table.columns, *(tuple(map(_one_line, row)) for row in table.rows)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(table.columns))]
    return "".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        + "\n"
        for row in rows
    )


def _one_line(cell: str) -> str:
    return "; ".join(line.strip() for line in cell.splitlines() if line.strip())
