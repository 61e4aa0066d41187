"""Prediction of run times: the share of later ones that completed runs of a log explain.

One pass over the log. When a job arrives, two quantities are predicted from the runs that have
ended by then, as hindcast.pipeline.scenarios.queue.run_times does: its weight in the mean bounded
slowdown, 10 / max(run, 10), and ln run, as ln r plus the mean of ln(run / r). The share of the
variation that a prediction explains in a part of the log is

    1 - sum (y - predicted)^2 / sum (y - mean of the part)^2

It is below 0 where the mean, which is known only afterwards, would have been nearer. The share of
ln run flatters: most of it tells long requests from short ones, which every rule knows. Jobs that
waited in the record have a share of their own, since their order is what a rule decides.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.scenarios.queue.run_times import (
    CONTEXTS,
    DECAYS,
    SHARE,
    SHRINKAGE,
    WEIGHT,
    contexts_of,
)
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled
from hindcast.pipeline.whatif.record import Record

PARTS: Final = ("whole log", "waited 1 h", "1st quarter", "2nd", "3rd", "4th")
NAMES: Final = (
    "requests as long", "and of the user", "and of the same request", "and of the same size",
)  # fmt: skip
_LN_SHARE: Final = math.log(SHARE)
_WAITED_S: Final = 3600


@dataclass(frozen=True)
class Explained:
    """The shares of the variation that are explained with more and more contexts.

    Attributes:
        jobs: Number of jobs.
        started: Whether the log knows starts; if not, jobs count as started when they arrived.
        exact: Whether all requested times are run times.
        weight: Shares for 10 / max(run, 10), (4, P): by context, each used with those before it, in
            the P parts of PARTS; nan in a part without variation.
        ln_run: Shares for ln run, (4, P).
    """

    jobs: int
    started: bool
    exact: bool
    weight: NDArray[np.float64]
    ln_run: NDArray[np.float64]


@compiled(_nrt=False)
def _predict(
    arrive: Ints, run: Ints, requested: Ints, places: Ints, by_end: Ints, ends: Ints,
    sums: Floats, weights: Floats, lns: Floats,
) -> None:  # fmt: skip
    """Fill the predictions (4 N,) of weights and of ln(run / r): by job, with 1 to 4 contexts."""
    ended = 0
    for job in range(len(arrive)):
        while ended < len(ends) and ends[ended] <= arrive[job]:
            other = by_end[ended]
            weight = 10.0 / max(run[other], 10)
            ln = math.log(run[other] / requested[other])
            for i in range(CONTEXTS):
                place = places[CONTEXTS * other + i]
                if place >= 0:
                    sums[place] = DECAYS[i] * sums[place] + 1.0
                    sums[place + 1] = DECAYS[i] * sums[place + 1] + weight
                    sums[place + 2] = DECAYS[i] * sums[place + 2] + ln
            ended += 1
        weight, ln = WEIGHT, _LN_SHARE
        for i in range(CONTEXTS):
            place, m = places[CONTEXTS * job + i], SHRINKAGE[i]
            if place >= 0:
                total = sums[place] + m
                weight = (sums[place + 1] + m * weight) / total
                ln = (sums[place + 2] + m * ln) / total
            weights[CONTEXTS * job + i], lns[CONTEXTS * job + i] = weight, ln


def explained(record: Record) -> Explained:
    """Return what completed runs explain of the run times of a record."""
    start = np.where(record.start == NEVER, record.arrive, record.start)
    by_end = np.argsort(start + record.run, kind="stable")
    contexts = contexts_of(record.user, record.cpu, record.requested)
    weights, lns = np.zeros((2, CONTEXTS * len(start)))
    _predict(
        record.arrive, record.run, record.requested,
        contexts.places(record.user, record.cpu, record.requested), by_end,
        (start + record.run)[by_end], contexts.empty(), weights, lns,
    )  # fmt: skip
    lns += np.repeat(np.log(record.requested), CONTEXTS)
    size = len(start)
    quarter = np.arange(size) * 4 // size
    parts = [
        np.ones(size, np.bool_), start - record.arrive >= _WAITED_S,
        *(quarter == number for number in range(4)),
    ]  # fmt: skip
    return Explained(
        size, bool(record.known.any()), bool((record.requested == record.run).all()),
        _shares(10.0 / np.maximum(record.run, 10), weights, parts),
        _shares(np.log(record.run), lns, parts),
    )  # fmt: skip


def _shares(
    values: NDArray[np.float64], predicted: NDArray[np.float64], parts: list[NDArray[np.bool_]]
) -> NDArray[np.float64]:
    """Return the shares (4, P) of the variation of values (N,) in parts of the jobs."""
    errors = (values[:, None] - predicted.reshape(-1, CONTEXTS)) ** 2
    found = np.full((CONTEXTS, len(parts)), np.nan)
    for column, part in enumerate(parts):
        variation = ((values[part] - values[part].mean()) ** 2).sum() if part.any() else 0.0
        if variation > 0.0:
            found[:, column] = 1.0 - errors[part].sum(axis=0) / variation
    return found


def meaning(found: Explained) -> str:
    """Return in words what completed runs explain, of the jobs that waited where they are known."""
    if found.exact:
        return "Every requested time is the run time, so nothing is left to predict."
    column, of = PARTS.index("waited 1 h"), "Of the jobs that waited an hour"
    if not found.started or np.isnan(found.ln_run[-1, column]):
        column, of = 0, "Of all jobs"
    shares = [values[:, column] for values in (found.weight, found.ln_run)]
    if np.isnan(shares).any():
        return "Run times do not vary, so there is nothing to predict."
    weight, ln_run = (f"{share[-1]:.0%}" if share[-1] > 0.0 else "nothing" for share in shares)
    alone = f"{max(shares[1][0], 0.0):.0%}"
    return (
        f"{of}, completed runs explain {weight} of the variation of the weights, and of ln run "
        f"{ln_run}, where requests alone explain {alone}. What aged_expected and wsept make of it, "
        "hindcast whatif simulates."
    )
