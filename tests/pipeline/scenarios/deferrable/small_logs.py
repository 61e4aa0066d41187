"""Logs of jobs for tests of `deferrable` on a grid."""

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from hindcast.pipeline.workloads.schema import Provenance, Workload


def log_of(
    submit_s: ArrayLike, run_s: ArrayLike, cores: ArrayLike, requested_s: ArrayLike | None = None,
    begin_s: float | None = None,
) -> Workload:  # fmt: skip
    """Return a log of jobs in order of submission, which may say when its second 0 was."""
    submit = np.asarray(submit_s, np.float64)
    names = list(map(str, range(len(submit))))
    table = {
        "job": range(len(submit)), "task": [0] * len(submit), "job_id": names,
        "task_id": ["0"] * len(submit), "submit_s": submit,
        "duration_s": np.asarray(run_s, np.float64), "cores": np.asarray(cores, np.float64),
        "memory": [0.0] * len(submit), "instances": [1] * len(submit),
    }  # fmt: skip
    if requested_s is not None:
        table["requested_s"] = np.asarray(requested_s, np.float64)
    notes = () if begin_s is None else (f"UnixStartTime: {begin_s:.0f}",)
    return Workload(pl.DataFrame(table), Provenance("table", notes=notes))
