"""Lower bounds of the makespan, valid for every policy."""

import numpy as np
from numpy.typing import NDArray


def work_bound(
    work: NDArray[np.float64],
    capacity: NDArray[np.float64],
    submit_s: NDArray[np.float64],
    duration_s: NDArray[np.float64],
) -> float:
    """Return the larger of work / capacity (over resources) and the critical path.

    work (R, T): resource held by all instances of each task; capacity (R,); submit_s and duration_s
    (T,).
    """
    load = ((work @ duration_s) / capacity).max()
    return float(max(load, (submit_s + duration_s).max()))


def lower_bound(
    work: NDArray[np.float64],
    capacity: NDArray[np.float64],
    seen_s: NDArray[np.float64],
    ticks: NDArray[np.float64],
) -> float:
    """Return the bound of `work_bound` over all suffixes of arrivals, with whole ticks.

    The tasks seen from time s on cannot end before s plus their work divided by the capacity.
    `seen_s` ascends.
    """
    suffix = np.cumsum((work * ticks)[:, ::-1], axis=1)[:, ::-1]
    starts = seen_s + np.ceil((suffix / capacity[:, None]).max(axis=0) - 1e-6)
    return float(max(starts.max(), (seen_s + ticks).max()))
