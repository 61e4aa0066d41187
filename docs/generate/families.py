"""Cells of differences that belong to one family of comparisons."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.evaluation.summary.results import DEGREES, interval_kind
from hindcast.pipeline.pages.numbers import write_interval, write_number
from hindcast.pipeline.statistics.families import ERROR, detectable, holm, read_interval
from hindcast.pipeline.statistics.intervals import Estimate, Interval
from hindcast.pipeline.statistics.percentile import widened

ENDS: Final = ("paired_difference", "paired_low", "paired_high")
EARLIER: Final = "percentile bootstrap intervals of earlier evaluations, widened"


def marked(rows: Sequence[Mapping[str, str]], decimals: Sequence[int]) -> list[str]:
    """Return differences with their intervals; all rows are one family.

    A difference is bold where the policy is better by `verdicts`. A star marks one whose interval
    excludes zero although Holm's adjusted p-value is not below .05.
    """
    cells = []
    for row, side, digits in zip(rows, verdicts(rows), decimals, strict=True):
        one = interval_of(row)
        if one.low == one.high == 0.0:
            cells.append("0")
            continue
        number = write_number(one.value, digits, signed=True)
        if side > 0:
            number = f"**{number}**"
        elif side == 0 and _estimate(row).p_value < ERROR:
            number += r"\*"
        cells.append(f"{number} ({write_interval(one.low, one.high, digits, signed=True)})")
    return cells


def verdicts(rows: Sequence[Mapping[str, str]]) -> NDArray[np.int64]:
    """Return 1 where the policy is better, -1 where it is worse, 0 where neither is shown.

    All rows are one family, whose error is 5 % (Holm).
    """
    values = [interval_of(row).value for row in rows]
    sign = [1 if row["higher_is_better"] == "true" else -1 for row in rows]
    return np.where(adjusted(rows) < ERROR, np.sign(values) * sign, 0).astype(np.int64)


def adjusted(rows: Sequence[Mapping[str, str]]) -> NDArray[np.float64]:
    """Return the p-values of rows, which are one family, after Holm's adjustment."""
    return holm([_estimate(row).p_value for row in rows])


def mde(row: Mapping[str, str], decimals: int) -> str:
    """Return the minimum detectable effect at a power of 80 %; "" where none can be told."""
    found = detectable(_estimate(row, towards_zero=False))
    return write_number(found, decimals) if found > 0.0 else ""


def kind(rows: Sequence[Mapping[str, str]]) -> str:
    """Return which intervals rows have, as a sentence."""
    return interval_kind([row.get(DEGREES) for row in rows], EARLIER)


def interval_of(row: Mapping[str, str], names: Sequence[str] = ENDS) -> Interval:
    """Return the interval of the columns `names`; widened if the row has no degrees of freedom."""
    found = Interval(*(float(row[name]) for name in names))
    if row.get(DEGREES):
        return found
    drawn = row["policy"].startswith("random")  # seeds of an evaluation, averaged in each window
    return widened(*found, int(row["windows"]), 1 if drawn else int(row["seeds"]))


def _estimate(row: Mapping[str, str], *, towards_zero: bool = True) -> Estimate:
    degrees = row.get(DEGREES)
    return read_interval(
        interval_of(row), int(row["windows"]), float(degrees) if degrees else None,
        towards_zero=towards_zero,
    )  # fmt: skip
