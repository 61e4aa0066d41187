"""Load of a machine by jobs, measured before anything is simulated."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.integer[Any]] | NDArray[np.floating[Any]]


@dataclass(frozen=True)
class DemandCurve:
    """Processors or memory that jobs would hold at once if none had to wait.

    Attributes:
        times: Moments at which the demand changes, ascending, (M,).
        levels: Demand from each moment to the next one, (M,).
    """

    times: NDArray[np.float64]
    levels: NDArray[np.float64]

    @property
    def peak(self) -> float:
        """The largest demand of any moment, 0 without jobs."""
        return float(self.levels.max(initial=0.0))

    def share_above(self, capacity: float, until: float | None = None) -> float:
        """Return the share of the time with more demand than a capacity, up to a moment."""
        if not len(self.times):
            return 0.0
        end = self.times[-1] if until is None else until
        spans = np.diff(np.minimum(self.times, end), append=end)
        total = float(spans.sum())
        return float(spans[self.levels > capacity * (1 + 1e-9)].sum()) / total if total else 0.0


def demand(begin: Numbers, run: Numbers, amount: Numbers) -> DemandCurve:
    """Return the demand of jobs that begin at given times; at one moment, ends come first."""
    moments = np.concatenate([begin, begin + run]).astype(np.float64)
    change = np.concatenate([amount, -amount]).astype(np.float64)
    order = np.lexsort((change, moments))
    times, levels = moments[order], np.cumsum(change[order])
    is_last = np.append(times[1:] > times[:-1], True) if len(times) else np.zeros(0, bool)
    return DemandCurve(times[is_last], levels[is_last])


def ratio(work: float, capacity: float, seconds: float) -> float:
    """Return work over the work of a fully used capacity in a time; 0 for no time."""
    return work / (capacity * seconds) if capacity > 0 and seconds > 0 else 0.0
