"""Ranges of the numbers in settings, in the metadata of the dataclass fields that hold them.

    epsilon: float = number(0.0, "from 0 to 1")
    step_s: float = number(1.0, "above 0", "s")
    lengths: tuple[int, ...] = number((1, 3), "at least 1")    # of every item
    horizon: int | None = number(None, "from 1 to 1,000")      # of the number, if there is one
    seed: int = field(metadata=ranged(SEED))                   # a field without a default

A range is what the user reads, and what is checked: "from A to B", "from A to below B", "above A",
"at least A", each with ", at most B" or ", below B" where needed, or "any". Infinite numbers are
refused unless the text ends in " or inf", and NaN always. A whole number has at most 64 bits.
"""

import dataclasses
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from hindcast.pipeline.errors import RecipeError

SEED: Final = "from 0 to 9,223,372,036,854,775,807"
LARGEST: Final = 2**63 - 1
_RANGE: Final = "range"
_UNIT: Final = "unit"
_NOTE: Final = "note"
_ANY: Final = "any"
_OR_INFINITE: Final = " or inf"
_SHOWN: Final = 120  # characters of a value in a message
_NUMBER: Final = r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?"
_CLAUSE: Final = re.compile(rf"(from|to below|to|above|at least|at most|below) ({_NUMBER})")
_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "from": operator.ge, "at least": operator.ge, "above": operator.gt,
    "to": operator.le, "at most": operator.le, "to below": operator.lt, "below": operator.lt,
}  # fmt: skip


def ranged(expected: str, unit: str = "") -> Mapping[str, Any]:
    """Return the metadata of a field whose numbers have this range and unit."""
    _limits(expected)
    return {_RANGE: expected, _UNIT: unit}


def number(
    default: Any, expected: str, unit: str = "", metadata: Mapping[str, Any] | None = None
) -> Any:
    """Return a dataclass field with a default, a range, a unit, and more metadata."""
    return dataclasses.field(
        default=default, metadata={**(metadata or {}), **ranged(expected, unit)}
    )


def noted(note: str) -> Mapping[str, str]:
    """Return the metadata of a field whose errors end in a note."""
    return {_NOTE: note}


def note_of(field: dataclasses.Field[Any]) -> str:
    """Return the note of a field as the end of a message; "" if it has none."""
    note = field.metadata.get(_NOTE)
    return f"; {note}" if note else ""


def range_of(field: dataclasses.Field[Any]) -> str:
    """Return the range of a field with its unit, such as "above 0 (s)"; "" if it has none."""
    expected, unit = field.metadata.get(_RANGE, ""), field.metadata.get(_UNIT, "")
    return f"{expected} ({unit})" if unit else expected


def check_field(field: dataclasses.Field[Any], value: Any, where: str) -> None:
    """Raise RecipeError, which names `where`, if a number of the field is out of its range."""
    expected = field.metadata.get(_RANGE)
    if expected is None:
        return
    for name, item in _numbers(value, where):
        if not _within(item, expected):
            over_64_bits = isinstance(item, int) and abs(item) > LARGEST
            raise RecipeError(
                f"{name} is {shown(item)}, expected {range_of(field)}"
                + (", a whole number of at most 64 bits" if over_64_bits else "")
            )


def check_ranges(settings: Any, table: str = "") -> None:
    """Raise RecipeError if a number of a settings dataclass is out of its range.

    `table` is the name of the settings in a recipe, for the message.
    """
    for field in dataclasses.fields(settings):
        where = f"{table}.{field.name}" if table else field.name
        check_field(field, getattr(settings, field.name), where)


def shown(value: Any) -> str:
    """Return a value for a message, which is one line that a person can read."""
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"a whole number of {value.bit_length():,} bits"
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number or a nesting that Python cannot show
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _numbers(value: Any, where: str) -> Iterator[tuple[str, int | float]]:
    if isinstance(value, tuple | list):
        for place, item in enumerate(value):
            yield from _numbers(item, f"{where}[{place}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers(item, f"{where}.{key}")
    elif isinstance(value, int | float):
        yield where, value


def _within(value: float, expected: str) -> bool:
    if isinstance(value, int) and abs(value) > LARGEST:
        return False
    if isinstance(value, float) and (
        math.isnan(value) or (math.isinf(value) and not expected.endswith(_OR_INFINITE))
    ):
        return False
    return all(compare(value, limit) for compare, limit in _limits(expected))


@cache
def _limits(expected: str) -> tuple[tuple[Callable[[Any, Any], bool], int | float], ...]:
    """Return the comparisons of a range; raise ValueError for a text that is not one."""
    text = expected.removesuffix(_OR_INFINITE)
    clauses = [(m[1], m[2].replace(",", "")) for m in _CLAUSE.finditer(text)]
    if text != _ANY and (not clauses or re.sub(r"[ ,]", "", _CLAUSE.sub("", text))):
        raise ValueError(f"{expected!r} is not a range")
    return tuple(
        (_COMPARE[word], int(bound) if bound.lstrip("-").isdigit() else float(bound))
        for word, bound in clauses
    )
