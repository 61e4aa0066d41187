"""Text in columns, and sizes of files as text.

Apart from the listing, which loads the scenarios, so that `hindcast list --agents` starts quickly.
"""

from collections.abc import Iterable, Sequence


def aligned(rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return rows of cells as lines with columns; the columns of `right` are aligned right."""
    cells = [list(row) for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))] if cells else []
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def size(count: int | None) -> str:
    """Return a number of bytes as text."""
    if count is None:
        return "-"
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:,.1f} {unit}"
    return f"{count} B"
