"""Tables of HTML pages as data, which the macro `table` of parts.html.jinja draws.

A cell is a `Cell`, whose text is written already, or a number, which is written with the decimals
of its column when the table is drawn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from hindcast.pipeline.pages.numbers import (
    decimals_for,
    decimals_telling,
    write_interval,
    write_number,
)

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


class Measured(NamedTuple):
    """Number with its interval below it. Without an interval, a whole number has no decimals."""

    value: float
    low: float | None = None
    high: float | None = None


class Difference(NamedTuple):
    """Difference of two values, which is written with its sign.

    Attributes:
        value: The difference; None is written as a dash.
        low: Lower end of its interval, which stands below it.
        high: Upper end of the interval.
        side: As of a cell.
        more: As of a cell.
        of: The two values, which stand below it in the place of an interval.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    side: str = ""
    more: str = ""
    of: tuple[float, float] | None = None


Content: TypeAlias = Cell | Measured | Difference | float | None


class Column(NamedTuple):
    """Column of numbers.

    Attributes:
        name: Its name.
        like: Numbers that its decimals suit, see `decimals_for`.
        decimals: Decimals that do not depend on numbers.
    """

    name: str
    like: Sequence[float | None] = ()
    decimals: int | None = None


@dataclass(frozen=True)
class Row:
    """Row of a table; its first cell is the heading. A pinned row stays at the end when sorting."""

    cells: Sequence[Content]
    class_: str = ""
    pinned: bool = False


@dataclass(frozen=True)
class Table:
    """Table in a box that scrolls sideways on narrow screens; column heads sort it.

    Attributes:
        title: Beginning of its caption, in bold.
        text: Rest of its caption.
        head: The columns. A column whose cells are written already is its name alone.
        rows: Its rows.
        words: Number of first columns that are text and aligned left; the others are numbers.
    """

    title: str
    text: str
    head: Sequence[str | Column]
    rows: Sequence[Row]
    words: int = 1

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [of if isinstance(of, str) else of.name for of in self.head]

    @property
    def written(self) -> list[Row]:
        """Rows with all numbers written."""
        columns = [Column(of) if isinstance(of, str) else of for of in self.head]
        decimals = [decimals_for(of.like) if of.decimals is None else of.decimals for of in columns]
        cells = ((row, zip(row.cells, decimals, strict=True)) for row in self.rows)
        return [replace(row, cells=[_written(*one) for one in of]) for row, of in cells]


def _written(content: Content, decimals: int) -> Cell:
    """Return the cell that is drawn; `decimals` are those of its column."""
    match content:
        case Cell():
            return content
        case None | Difference(None):
            return Cell(NOTHING)
        case Difference():
            return _difference(content, decimals)
        case Measured(value, low, high) if low is not None and not low == high == value:
            return Cell(write_number(value, decimals), value, write_interval(low, high, decimals))
        case Measured(value):
            return _written(value, 0 if value == int(value) else decimals)
        case _:
            return Cell(write_number(content, decimals), float(content))


def _difference(of: Difference, decimals: int) -> Cell:
    """Return the cell of a difference, with up to two more decimals if it is small."""
    value, low, high, side, more, values = of
    assert value is not None
    small = ""
    if values is not None:
        small = " against ".join(write_number(one, decimals) for one in values)
    elif abs(value) * 10**decimals < 10:
        decimals = min(decimals + 2, decimals_telling([value, low, high], decimals))
    if low is not None:
        small = write_interval(low, high, decimals, signed=True)
    return Cell(write_number(value, decimals, signed=True), value, small, side, more=more)
