"""Tables of HTML pages as data, which the macro `table` of parts.html.jinja draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hindcast.pipeline.pages.numbers import write_number

NOTHING = "\N{EN DASH}"  # in a cell without a value


class Badge(NamedTuple):
    """Label behind the text of a cell, and its colour: a class of page.css, or ""."""

    text: str
    class_: str = ""


@dataclass(frozen=True)
class Cell:
    """Cell of a table.

    Attributes:
        text: Its text.
        sort: Number that it is sorted by; its text if None.
        small: Text in small letters below.
        side: Class that colours the text: "better", "worse" or "same"; "" for none.
        badges: Labels behind the text.
        code: Whether the text is code.
        record: Percentages of a bar behind the text: "w" (won) and "l" (lost); empty for no bar.
        more: Second line in small letters.
        link: Address that the text leads to.
    """

    text: str
    sort: float | None = None
    small: str = ""
    side: str = ""
    badges: Sequence[Badge] = ()
    code: bool = False
    record: Mapping[str, float] = field(default_factory=dict)
    more: str = ""
    link: str = ""


@dataclass(frozen=True)
class Row:
    """Row of a table; its first cell is the heading. A pinned row stays at the end when sorting."""

    cells: Sequence[Cell]
    class_: str = ""
    pinned: bool = False


@dataclass(frozen=True)
class Table:
    """Table in a box that scrolls sideways on narrow screens; column heads sort it.

    Attributes:
        title: Beginning of its caption, in bold.
        text: Rest of its caption.
        head: Names of the columns.
        rows: Its rows.
        words: Number of first columns that are text and aligned left; the others are numbers.
    """

    title: str
    text: str
    head: Sequence[str]
    rows: Sequence[Row]
    words: int = 1


def number_cell(number: float | None, decimals: int) -> Cell:
    """Return a cell with a number, or with a dash."""
    if number is None:
        return Cell(NOTHING)
    return Cell(write_number(number, decimals), float(number))
