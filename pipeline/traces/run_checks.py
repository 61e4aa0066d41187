"""Comparison of the run times of a log with its starts and ends."""

from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.workloads.caveats import CAUTION, RUNS_DIFFER, share_text

_FEWEST: Final = 20  # jobs, below which a share says nothing about a unit
_LONG_S: Final = 60.0
_FAR: Final = 10.0  # times end - start, or a part of it
_FAR_RUNS: Final = 0.05  # of the jobs
# Factor between end - start and the run time -> what it may mean.
_RUN_UNITS: Final = (
    (60.0, "is the run time in minutes?"), (3600.0, "is the run time in hours?"),
    (0.001, "is the run time in milliseconds?"), (1000.0, "are starts and ends in milliseconds?"),
)  # fmt: skip


def run_notes(rows: pl.DataFrame) -> list[str]:
    """Return a note if run times are far from end - start.

    Suspended jobs run for less, but hardly for a tenth.
    """
    run, by_ends = pl.col("duration_s"), pl.col("run_by_ends")
    both = rows.filter(by_ends.is_not_null(), pl.max_horizontal(run, by_ends) >= _LONG_S)
    ratio = (both["run_by_ends"] / both["duration_s"]).to_numpy()
    far = (ratio > _FAR) | (ratio < 1 / _FAR)
    if len(far) < _FEWEST or far.mean() <= _FAR_RUNS:
        return []
    middle = float(np.median(ratio[far]))
    fits = (text for size, text in _RUN_UNITS if abs(middle / size - 1) < _FAR_RUNS)
    n = int(far.sum())
    note = (
        f"{CAUTION}{RUNS_DIFFER} for {n:,} jobs ({share_text(n / rows.height)} of them), whose "
        f"end - start is {middle:.4g} times the run time in the middle: "
        f"{next(fits, 'is a column taken for another?')}"
    )
    return [note]
