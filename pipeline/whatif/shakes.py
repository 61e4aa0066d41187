"""Shakes: the spread of one value of one run, by submissions that are moved by up to a minute.

A schedule is chaotic: a second earlier or later changes which jobs start, and with them the mean of
a run. Draw k moves the submission of every job that arrives in the run by 0 to 60 s.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.whatif.orders import Mode, Order
from hindcast.pipeline.whatif.outcomes import counted
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.run import PER_JOB, Run, joined

_MOST_S: Final = 60


@dataclass(frozen=True)
class Shaken:
    """Values of one policy over K draws, (K,) each; of a pair, their differences by draw.

    Attributes:
        slowdown: Mean bounded slowdown of the counted jobs.
        wait: Mean wait in s.
    """

    slowdown: NDArray[np.float64]
    wait: NDArray[np.float64]

    def __sub__(self, other: "Shaken") -> "Shaken":
        """Return the differences by draw."""
        return Shaken(self.slowdown - other.slowdown, self.wait - other.wait)


def spread(values: NDArray[np.float64]) -> float:
    """Return the standard deviation of draws, with K - 1; NaN for less than two."""
    return float(values.std(ddof=1)) if len(values) > 1 else np.nan


def shaken(run: Run, draw: int) -> Run:
    """Return a run of which the submissions of the A jobs that arrive are moved.

    The shifts are numpy.random.default_rng(draw).integers(0, 61, size=A), in order of arrival.
    Running and carried jobs and the beginning stay. A moved job keeps its place among those of the
    same second. A job that was eligible later than submitted is eligible as much later.
    """
    still = run.running + run.carried
    arriving = len(run.row) - still
    shift = np.random.default_rng(draw).integers(0, _MOST_S + 1, size=arriving)
    arrive, submit = run.arrive.copy(), run.submit.copy()
    arrive[still:] += shift
    submit[still:] += shift
    order = np.concatenate([np.arange(still), still + np.argsort(arrive[still:], kind="stable")])
    moved = replace(run, arrive=arrive, submit=submit)
    return replace(moved, **{name: getattr(moved, name)[order] for name in PER_JOB})


def shake(
    runs: Sequence[Run], order: Order, mode: Mode, draws: int,
    tell: Callable[[float], None] | None = None,
) -> Shaken:  # fmt: skip
    """Return the values of a policy over draws 0 .. K-1.

    Args:
        runs: The run on each of the machines, without chains.
        order: Order of the policy.
        mode: Its mode.
        draws: Number of draws, K.
        tell: Is given the share of the work that is done.
    """
    values = np.zeros((2, draws))
    for draw in range(draws):
        moved = [shaken(run, draw) for run in runs]
        together, place = joined(moved)
        share = None if tell is None else _part(tell, draw, draws)
        starts = np.concatenate([play(run, order, mode, share) for run in moved])[place]
        jobs = counted(together, starts)
        values[:, draw] = jobs.slowdown.mean(), jobs.wait.mean()
    return Shaken(values[0], values[1])


def _part(tell: Callable[[float], None], done: int, whole: int) -> Callable[[float], None]:
    return lambda share: tell((done + share) / whole)
