"""Text of the numbers in reports: decimals by magnitude, intervals, units."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

MISSING = "n/a"


def decimals_for(numbers: Iterable[float | None], digits: int = 4) -> int:
    """Return the decimals that show about `digits` digits of the largest number.

    Numbers below 1e5 get at least one decimal.
    """
    largest = max((abs(n) for n in numbers if n is not None and math.isfinite(n)), default=0.0)
    if largest == 0.0:
        return 1
    exponent = math.floor(math.log10(largest))
    if exponent in {-2, -3}:  # shares: four decimals are enough
        exponent = -1
    return min(8, max(0 if largest >= 1e5 else 1, digits - 1 - exponent))


def decimals_telling(numbers: Iterable[float | None], decimals: int) -> int:
    """Return at least `decimals`, enough that no number other than 0 is written as 0."""
    smallest = min((abs(n) for n in numbers if n), default=1.0)
    return min(8, max(decimals, -math.floor(math.log10(smallest))))


def write_number(number: float | None, decimals: int, *, signed: bool = False) -> str:
    """Return a number with commas between thousands; "n/a" for None and NaN."""
    if number is None or not math.isfinite(number):
        return MISSING
    rounded = round(number, decimals) + 0.0  # no minus in front of zero
    return f"{rounded:+,.{decimals}f}" if signed and rounded else f"{rounded:,.{decimals}f}"


def write_interval(
    low: float | None, high: float | None, decimals: int, *, signed: bool = False
) -> str:
    """Return both ends of an interval, `4.2 .. 13.9`; "n/a" if one is missing."""
    if low is None or high is None:
        return MISSING
    ends = (write_number(end, decimals, signed=signed) for end in (low, high))
    return " .. ".join(ends)


def write_p_value(p: float) -> str:
    """Return a p-value with three decimals."""
    return "<0.001" if p < 0.001 else write_number(p, 3)


def with_unit(text: str, unit: str) -> str:
    """Return a written number with its unit; plain numbers have none."""
    return f"{text} {unit}" if unit and unit not in {"1", "-"} else text


def write_estimate(
    value: float | None, low: float | None, high: float | None, decimals: int
) -> str:
    """Return an estimate with its interval, `4.2 (3.9 .. 4.6)`, if it has one."""
    estimate = write_number(value, decimals)
    if low is None or high is None or not math.isfinite(low):
        return estimate
    return f"{estimate} ({write_interval(low, high, decimals)})"


def name_with_unit(name: str, unit: str) -> str:
    """Return a name with its unit, `makespan_s [s]`; plain numbers have none."""
    return f"{name} [{unit}]" if with_unit("", unit) else name


def count_of(number: int, singular: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 window`, `320 windows`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


@dataclass(frozen=True)
class TimeUnit:
    """Unit of all times of one kind on a page.

    Attributes:
        name: "h", "min" or "s".
        size_s: Its size in seconds.
    """

    name: str
    size_s: float

    def number(self, seconds: float) -> str:
        """Return a time without the unit, for a column of times."""
        return three_digits(seconds / self.size_s)

    def text(self, seconds: float) -> str:
        """Return a time with the unit."""
        return f"{self.number(seconds)} {self.name}"


def time_unit(typical_s: float) -> TimeUnit:
    """Return the largest unit of which a typical time is at least a half."""
    for size_s, name in ((3600.0, "h"), (60.0, "min")):
        if typical_s >= size_s / 2:
            return TimeUnit(name, size_s)
    return TimeUnit("s", 1.0)


def three_digits(number: float, *, signed: bool = False) -> str:
    """Return a number without unit, with about three digits."""
    decimals = 0 if abs(number) >= 100 else 1 if abs(number) >= 10 else 2
    return write_number(number, decimals, signed=signed)


def percent(share: float, *, signed: bool = True) -> str:
    """Return a share as a percentage without decimals, with one below two."""
    return f"{write_number(100 * share, 1 if abs(share) < 0.02 else 0, signed=signed)} %"
