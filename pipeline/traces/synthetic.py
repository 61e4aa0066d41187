"""Synthetic workload with the marginals of jobs.csv, for use without a trace.

Every quantity is drawn from its quantiles in the trace, joined by straight lines of log(value)
over the normal score z: `value = exp(interp(z, z of the share, log of the quantile))`. The
quantities are correlated through their normal scores:

    size of a job      z_n       independent
    instances   z_i = job part + task part; jobs of many tasks have fewer instances a task
    duration    z_d = .56 c(z_i) + residual
    memory      z_m = .62 c(z_i) + .30 residual of the duration + residual

A residual has a job part and a task part. c(z) = min(z, .6), standardised: in the trace tasks of
one instance are short and small, but from about five instances on neither duration nor memory
grows with the number of instances. Without this bend the largest tasks would also be the longest,
and the work of a chunk would double. Gaps between jobs follow an autoregression in z, which makes
bursts.

Fitted to jobs.csv (31,756 tasks, 5,216 jobs); chunk = ten jobs, five machines of 64 cores and 1.0
memory. Synthetic: means over six seeds of 5,216 jobs.

                                              trace              synthetic
    instances a task: mean, sd                80.3, 644          77, 586
    share of tasks with one instance          .48                .50
    duration s: median, mean, sd              12.5, 42.7, 74.3   13.3, 41.4, 65.7
    memory: median, mean                      .0054, .0067       .0054, .0068
    tasks a job: mean, sd                     6.1, 6.8           6.1, 6.1
    gap between jobs s: median, mean, sd      5, 11.5, 21.9      5, 11.7, 20.7
    instances a chunk: median, mean           3,162, 4,877       3,310, 4,670
    work bound of a chunk s: median, mean     415, 871           461, 811
    chunks whose work bound exceeds the span
      of their arrivals (contended)           .94                .94
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload

_Floats = npt.NDArray[np.float64]
_Quantiles = tuple[tuple[float, float], ...]  # (share of the draws below, value)

_TASKS_PER_JOB: Final[_Quantiles] = (
    (0.1236, 1), (0.2, 2), (0.3, 3), (0.5, 5), (0.7, 7), (0.8, 9.4), (0.9, 11), (0.95, 13),
    (0.98, 22), (0.99, 33), (0.999, 54), (0.9998, 156),
)  # fmt: skip
_INSTANCES: Final[_Quantiles] = (
    (0.46, 1), (0.52, 2), (0.6, 5), (0.7, 17), (0.8, 45), (0.9, 158), (0.95, 361), (0.98, 540),
    (0.99, 997), (0.995, 1333), (0.998, 2786), (0.999, 7107), (0.9995, 17510), (0.9999, 23180),
    (0.99998, 36326),
)  # fmt: skip
_DURATION_S: Final[_Quantiles] = (
    (0.001, 1), (0.05, 2), (0.2, 3), (0.3, 4.4), (0.4, 8), (0.5, 12.5), (0.6, 21), (0.7, 37),
    (0.8, 66), (0.9, 121), (0.95, 176), (0.99, 365), (0.999, 534), (0.9999, 810), (0.99999, 3629),
)  # fmt: skip
_MEMORY: Final[_Quantiles] = (
    (0.0002, 0.00275), (0.01, 0.00396), (0.2, 0.0041), (0.28, 0.0054), (0.62, 0.0054),
    (0.7, 0.008), (0.8, 0.0083), (0.9, 0.0107), (0.94, 0.016), (0.99, 0.016), (0.999, 0.0213),
    (0.9999, 0.0576), (0.99998, 0.0743),
)  # fmt: skip
_GAP_S: Final[_Quantiles] = (
    (0.045, 0.4), (0.2, 1), (0.25, 2), (0.4, 4), (0.5, 5), (0.6, 7), (0.7, 11), (0.8, 16),
    (0.9, 27), (0.95, 41), (0.98, 67), (0.99, 96), (0.995, 123), (0.999, 217), (0.9998, 548),
)  # fmt: skip
# All tasks of a job ask for the same cores in the trace (98 % of the variance is between jobs).
_CORES: Final = (0.4, 0.5, 0.55, 0.65, 0.75, 1.0)
_CORES_SHARE: Final = (0.005, 0.695, 0.003, 0.003, 0.004, 0.29)

# Instances, duration, memory: the share of the variance that lies between jobs ...
_BETWEEN_JOBS: Final = np.array([0.36, 0.5, 0.3])
# ... the correlation of that part with the size of the job, whose mean over TASKS is z = .81.
_WITH_SIZE: Final = np.array([-0.5, -0.1, -0.2])
_MEAN_SIZE: Final = 0.81
_BEND: Final = 0.6
_BEND_MEAN: Final = -0.1687  # of min(z, .6) for a standard normal z
_BEND_SD: Final = 0.7723
_DURATION_WITH_INSTANCES: Final = 0.56
_MEMORY_WITH_INSTANCES: Final = 0.62
_MEMORY_WITH_DURATION: Final = 0.30
_GAP_WITH_LAST: Final = 0.3


@dataclass(frozen=True)
class SyntheticConfig:
    """Settings of the synthetic workload.

    Of the chunks on five machines .94 are contended at an `instances_scale` of 1, .84 at .5, .68 at
    .3 and .29 at .1: a demonstration with fewer instances should use fewer machines as well. Raises
    RecipeError if a value is out of range.

    Attributes:
        n_jobs: Number of jobs, at least 1; the trace has 5,216.
        instances_scale: Factor on the instances of every task, which stay at least 1; above 0, at
            most 1000. At 1, as in the trace.
    """

    n_jobs: int = number(5216, "from 1 to 10,000,000")
    instances_scale: float = number(1.0, "above 0, at most 1,000")

    def __post_init__(self) -> None:
        check_ranges(self, "trace.settings")


def generate(config: SyntheticConfig, rng: np.random.Generator) -> Workload:
    """Draw a workload without machines; the same generator state gives the same workload."""
    size = rng.standard_normal(config.n_jobs)
    n_tasks = np.rint(_values(size, _TASKS_PER_JOB)).astype(np.int64)  # (jobs,)
    job = np.repeat(np.arange(config.n_jobs), n_tasks)  # (tasks,)
    scores = _task_scores(size, job, rng)  # (tasks, 3)
    bent = (np.minimum(scores[:, 0], _BEND) - _BEND_MEAN) / _BEND_SD
    duration_z = _mix((_DURATION_WITH_INSTANCES, bent), rest=scores[:, 1])
    memory_z = _mix(
        (_MEMORY_WITH_INSTANCES, bent), (_MEMORY_WITH_DURATION, scores[:, 1]), rest=scores[:, 2]
    )
    instances = np.rint(_values(scores[:, 0], _INSTANCES))
    duration_s = _values(duration_z, _DURATION_S)
    # A duration is a mean over instances in whole seconds: of a single one, a whole number.
    duration_s = np.where(instances == 1, np.rint(duration_s), np.round(duration_s, 2))
    scaled = np.maximum(1, np.rint(instances * config.instances_scale))
    cores = rng.choice(_CORES, p=_CORES_SHARE, size=config.n_jobs)
    first_task = np.repeat(np.cumsum(n_tasks) - n_tasks, n_tasks)
    task = np.arange(len(job)) - first_task
    columns = {
        "job": job,
        "task": task,
        "job_id": [f"synthetic-{index}" for index in job],
        "task_id": [str(index) for index in task],
        "submit_s": _arrivals(config.n_jobs, rng)[job],
        "duration_s": duration_s,
        "cores": cores[job],
        "memory": np.round(_values(memory_z, _MEMORY), 6),
        "instances": scaled.astype(np.int64),
    }
    tasks = pl.DataFrame(columns, schema=dict(TASK_COLUMNS))
    counts = {
        "tasks": tasks.height,
        "jobs": config.n_jobs,
        "instances": int(tasks["instances"].sum()),
    }
    note = f"n_jobs = {config.n_jobs}, instances_scale = {config.instances_scale:g}"
    return Workload(
        tasks=tasks, provenance=Provenance(format="synthetic", counts=counts, notes=(note,))
    )


def _values(scores: _Floats, quantiles: _Quantiles) -> _Floats:
    """Return the values of normal scores; a score beyond the last quantile gets that quantile."""
    normal = NormalDist()
    knots = [normal.inv_cdf(share) for share, _ in quantiles]
    logs = [math.log(value) for _, value in quantiles]
    return np.asarray(np.exp(np.interp(scores, knots, logs)), dtype=np.float64)


def _task_scores(size: _Floats, job: npt.NDArray[np.int64], rng: np.random.Generator) -> _Floats:
    """Return normal scores (tasks, 3), of which one part is common to all tasks of a job."""
    of_job = rng.standard_normal((len(size), 3))
    of_task = rng.standard_normal((len(job), 3))
    of_job = _WITH_SIZE * (size[:, None] - _MEAN_SIZE) + np.sqrt(1 - _WITH_SIZE**2) * of_job
    scores: _Floats = np.sqrt(_BETWEEN_JOBS) * of_job[job] + np.sqrt(1 - _BETWEEN_JOBS) * of_task
    return scores


def _mix(*parts: tuple[float, _Floats], rest: _Floats) -> _Floats:
    """Return a weighted sum of unit variance: `rest` gets the weight that the parts leave."""
    rest_variance = 1 - sum(weight**2 for weight, _ in parts)
    total = math.sqrt(rest_variance) * rest
    for weight, part in parts:
        total = total + weight * part
    return total


def _arrivals(n_jobs: int, rng: np.random.Generator) -> _Floats:
    """Return the submission times (jobs,) in whole seconds, from 0, with bursts."""
    scores = rng.standard_normal(n_jobs)
    fresh = math.sqrt(1 - _GAP_WITH_LAST**2)
    for index in range(1, n_jobs):
        scores[index] = _GAP_WITH_LAST * scores[index - 1] + fresh * scores[index]
    gaps = np.rint(_values(scores, _GAP_S))
    gaps[0] = 0
    return np.cumsum(gaps)
