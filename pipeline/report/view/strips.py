"""Strips of a schedule in numbers: queue length, utilisation and waiting area over time.

The page of `hindcast view` computes the same in strips.js, for the part that it shows.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.schedules.schedule import Schedule

QUEUE: Final = "queue length [jobs]"
UTILISATION: Final = "utilisation [%]"
AREA: Final = "waiting area"
WEEK_S: Final = 7 * 86_400.0

Array = NDArray[np.float64]


def refused(schedule: Schedule) -> NDArray[np.bool_]:
    """Return which jobs were refused, or never came, (J,): they do not wait."""
    never = schedule.jobs["start_s"].is_null().to_numpy()
    if schedule.facts["scenario"] == "slots":
        return np.asarray(never & ~schedule.jobs["counted"].to_numpy())
    return never if schedule.facts["clock"] != "s" else np.zeros(len(never), dtype=np.bool_)


def area_unit(schedule: Schedule) -> str:
    """Return the unit of the waiting area: hours, or the steps of the clock."""
    clock = schedule.facts["clock"]
    return "h" if clock == "s" else f"{clock}s"


def strips_of(schedule: Schedule, edges: Array) -> dict[str, Array]:
    """Return the means of each strip between neighbouring moments.

    Args:
        schedule: The schedule.
        edges: Moments of its clock, ascending, (B + 1,).

    Returns:
        By name of the strip, (B,). NaN where no resource is offered, and in parts that are not
        within the schedule's beginning and end. Where the clock counts arrivals, nobody waits, and
        there is utilisation alone.
    """
    jobs, facts, rows = schedule.jobs, schedule.facts, schedule.capacity
    start, end = jobs["start_s"].to_numpy(), jobs["end_s"].to_numpy()
    amount = jobs["processors"].to_numpy().astype(np.float64)
    eligible = np.where(refused(schedule), np.nan, jobs["eligible_s"].to_numpy())
    length = np.diff(edges)
    known = (edges[:-1] >= facts["from_s"]) & (edges[1:] <= facts["to_s"]) & (length > 0)

    def flow(up: Array, down: Array, weights: Array) -> Array:
        """Return the integral in each bin of the weights that are held from `up` to `down`."""
        return np.diff(_integral(up, weights, edges) - _integral(down, weights, edges))

    offered = np.diff(_offered(schedule, edges))
    with np.errstate(divide="ignore", invalid="ignore"):
        held = 100.0 * flow(start, end, amount) / offered
        found = {UTILISATION: np.where(known & (offered > 0), held, np.nan)}
        if facts["clock"] == "arrival":
            return found
        run = np.nan_to_num(end - start)
        asked = jobs["requested_s"].fill_null(np.nan).to_numpy()
        asked = np.where(np.isnan(asked), run, asked) / (3600.0 if facts["clock"] == "s" else 1.0)
        waits = {QUEUE: np.ones(len(amount)), AREA: amount / max(rows, 1) * asked}
        for name, weights in waits.items():
            found[name] = np.where(known, flow(eligible, start, weights) / length, np.nan)
    return {name: found[name] for name in (QUEUE, UTILISATION, AREA)}


def _integral(times: Array, weights: Array, moments: Array) -> Array:
    """Return the integral up to each moment of a sum that grows by a weight at each time.

    Times that are NaN are left out.
    """
    known = ~np.isnan(times)
    origin = moments[0]  # near the moments, so that differences keep their digits
    order = np.argsort(times[known], kind="stable")
    at, weights = times[known][order] - origin, weights[known][order]
    total = np.concatenate([[0.0], np.cumsum(weights)])
    area = np.concatenate([[0.0], np.cumsum(weights * at)])
    place = np.searchsorted(at, moments - origin, side="right")
    return np.asarray(total[place] * (moments - origin) - area[place])


def _offered(schedule: Schedule, moments: Array) -> Array:
    """Return the integral of the capacity up to each moment."""
    name, facts = schedule.resources[0], schedule.facts
    levels = [(float(since), float(amount)) for since, amount in facts["levels"].get(name, ())]
    before = [amount for since, amount in levels if since <= facts["from_s"]]
    later = [(since, amount) for since, amount in levels if since > facts["from_s"]]
    first = before[-1] if before else float(facts["capacity"][name])
    times = np.array([moments[0] - 1.0, *(since for since, _ in later)])
    amounts = np.array([first, *(amount for _, amount in later)])
    return _integral(times, np.diff(amounts, prepend=0.0), moments)


class Stretch(NamedTuple):
    """The part of a schedule that is drawn as rectangles.

    Attributes:
        from_s: Its beginning.
        to_s: Its end.
        number: Its place among the parts of that length, from 1; 0 if it is the whole schedule.
        parts: Number of whole parts of that length, 0 for the whole schedule.
        area: Mean waiting area in it; None where nobody can wait.
        mean: The same over the whole schedule.
    """

    from_s: float
    to_s: float
    number: int
    parts: int
    area: float | None
    mean: float | None


def whole(schedule: Schedule) -> Stretch:
    """Return all of a schedule."""
    begin, end = schedule.facts["from_s"], schedule.facts["to_s"]
    areas = strips_of(schedule, np.array([begin, end])).get(AREA)
    mean = None if areas is None else float(areas[0])
    return Stretch(begin, end, 0, 0, mean, mean)


def worst_part(schedule: Schedule, length: float) -> Stretch | None:
    """Return the whole part of that length with the largest mean waiting area.

    Parts count from the beginning of the schedule. Of equals, and where nobody can wait, it is the
    first. None if there are less than two.
    """
    of_all = whole(schedule)
    # A part that ends with the schedule is whole, in spite of roundings.
    count = int((of_all.to_s - of_all.from_s) / length + 1e-9)
    if count < 2:
        return None
    edges = np.minimum(of_all.from_s + length * np.arange(count + 1), of_all.to_s)
    areas: Mapping[str, Array] = strips_of(schedule, edges)
    worst = int(np.argmax(areas[AREA])) if AREA in areas else 0
    area = float(areas[AREA][worst]) if AREA in areas else None
    begin, end = edges[worst : worst + 2].tolist()
    return Stretch(begin, end, worst + 1, count, area, of_all.mean)
