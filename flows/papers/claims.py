"""Claims of papers and their verdicts.

A claim of a difference has a direction and a size. A claim of an order ranks several policies. The
verdicts are `yes`, `no`, `in part`, `not shown` and `-` (does not apply):

    direction   yes if the interval excludes 0 on the claimed side, no if it excludes 0 on the
                other side, else not shown
    order       yes if all neighbours of the published order are in that order with intervals that
                exclude 0, no if one is the other way round with an interval that excludes 0, else
                in part
    size        yes if the published difference lies in the interval, else larger or smaller
"""

from collections.abc import Sequence
from typing import Any, Final

from hindcast.pipeline.statistics.intervals import Interval

NOT_APPLICABLE: Final = "-"


def difference_claim(
    name: str, item: str, text: str, unit: str, published: float, measured: Interval,
    differs: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Return the row of a claim that a difference has the sign and size of `published`."""
    sign = 1.0 if published > 0 else -1.0
    low, high = sorted((sign * measured.low, sign * measured.high))
    direction = "yes" if low > 0 else "no" if high < 0 else "not shown"
    wanted = sign * published
    size = "yes" if low <= wanted <= high else "larger" if low > wanted else "smaller"
    return {
        "claim": name, "item": item, "text": text, "unit": unit, "published": published,
        "measured": measured.value, "low": measured.low, "high": measured.high,
        "direction": direction, "order": NOT_APPLICABLE, "size": size, "differs": differs,
    }  # fmt: skip


def direction_claim(
    name: str, item: str, text: str, unit: str, measured: Interval, differs: str = ""
) -> dict[str, Any]:  # fmt: skip
    """Return the row of a claim that a difference is positive, of which no number is printed."""
    row = difference_claim(name, item, text, unit, 1.0, measured, differs)
    return {**row, "published": None, "size": NOT_APPLICABLE}


def order_claim(
    name: str, item: str, text: str, neighbours: Sequence[Interval], differs: str = ""
) -> dict[str, Any]:
    """Return the row of a claim of an order.

    `neighbours` are differences of adjacent policies in the published order, positive where the
    order holds.
    """
    if all(each.low > 0 for each in neighbours):
        order = "yes"
    else:
        order = "no" if any(each.high < 0 for each in neighbours) else "in part"
    return {
        "claim": name, "item": item, "text": text, "unit": "", "published": None,
        "measured": None, "low": None, "high": None, "direction": NOT_APPLICABLE,
        "order": order, "size": NOT_APPLICABLE, "differs": differs,
    }  # fmt: skip
