"""The log beside its replay, order of arrival and EASY: waits, queue, use and slowdown.

The replay starts every job as the log did, at the next event of the simulation, so it shows what
the simulation itself changes. Order of arrival and EASY show what the two usual schedulers would
do with these jobs; the scheduler of the log may be neither. All numbers are of the jobs of the run
over the test part. Waits of jobs that waited when the run began count from then on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.estimators.selection import rank_correlation
from hindcast.pipeline.report.whatif.nearness import distance
from hindcast.pipeline.report.whatif.words import WaitUnit
from hindcast.pipeline.scenarios.queue.instances import Log

Array = NDArray[np.float64]

THE_LOG: Final = "the log"
_WAITS: Final[Mapping[str, Callable[[Array], np.float64]]] = {
    "mean": np.mean, "median": np.median, "p95": lambda wait: np.quantile(wait, 0.95),
}  # fmt: skip
_SHORTEST_S: Final = 10.0  # of the bounded slowdown


@dataclass(frozen=True)
class Fidelity:
    """Measurements of the log and of schedules of the same jobs.

    Attributes:
        columns: "the log" and the names of the schedules.
        measures: A row per measure with its value by column; NaN where it has no meaning.
        groups: A row per kind and group of jobs: number of jobs, mean wait in s by column, and the
            distance of the waits of the last schedule from those of the log.
    """

    columns: tuple[str, ...]
    measures: Mapping[str, tuple[float, ...]]
    groups: pl.DataFrame


def fidelity(
    log: Log,
    jobs: pl.DataFrame,
    begin: int,
    schedules: Mapping[str, Array],
    kinds: Mapping[str, pl.Series],
    unit: WaitUnit,
) -> Fidelity:
    """Compare schedules of a run's jobs with the log.

    Args:
        log: The log, with starts.
        jobs: The J jobs of the run, see hindcast.pipeline.report.whatif.jobs.counted_jobs.
        begin: Second at which the run begins, on the clock of the log.
        schedules: Waits in s of the jobs under each schedule, (J,).
        kinds: Group of every job by kind of group, (J,).
        unit: Unit of the waits in the measures.
    """
    numbers = jobs["job"].to_numpy()
    since = np.maximum(log.submit[numbers], begin)
    recorded = np.maximum(log.start[numbers] - since, 0).astype(np.float64)
    waits = {THE_LOG: recorded, **schedules}
    run, cpu = log.run[numbers].astype(np.float64), log.cpu[numbers]
    span = max(float(since.max() - begin), 1.0)
    weeks = jobs["week"].to_numpy()
    slowdowns = {
        name: np.maximum((wait + run) / np.maximum(run, _SHORTEST_S), 1.0)
        for name, wait in waits.items()
    }
    weekly = {name: _means(weeks, wait) for name, wait in waits.items()}

    def in_use(wait: Array) -> float:
        start = since - begin + wait
        seconds = np.clip(np.minimum(start + run, span) - start, 0.0, None)
        return float((seconds * cpu).sum()) / (span * log.processors)

    def by_column(measure: Mapping[str, float]) -> tuple[float, ...]:
        return tuple(measure[name] for name in waits)

    measures = {
        **{
            f"{name} wait [{unit.name}]": by_column(
                {n: float(of(w)) / unit.size_s for n, w in waits.items()}
            )
            for name, of in _WAITS.items()
        },
        "mean bounded slowdown": by_column({n: float(s.mean()) for n, s in slowdowns.items()}),
        "jobs that wait, on average": by_column(
            {n: float(np.minimum(w, span).sum()) / span for n, w in waits.items()}
        ),
        "processors in use, by these jobs [%]": by_column(
            {n: 100 * in_use(w) for n, w in waits.items()}
        ),
        "distance of the waits from the log (KS)": by_column(
            {n: distance(recorded, w) for n, w in waits.items()}
        ),
        "distance of the slowdowns from the log (KS)": by_column(
            {n: distance(slowdowns[THE_LOG], s) for n, s in slowdowns.items()}
        ),
        "rank correlation of weekly mean waits with the log": by_column(
            {n: rank_correlation(weekly[THE_LOG], w) for n, w in weekly.items()}
        ),
    }
    return Fidelity(tuple(waits), measures, _groups(waits, kinds))


def _means(weeks: NDArray[np.int64], wait: Array) -> Array:
    """Return the mean wait of each week that has jobs."""
    counts = np.bincount(weeks)
    sums = np.bincount(weeks, wait)
    return sums[counts > 0] / counts[counts > 0]


def _groups(waits: Mapping[str, Array], kinds: Mapping[str, pl.Series]) -> pl.DataFrame:
    last = list(waits)[-1]
    rows = []
    for kind, names in kinds.items():
        of = names.to_numpy()
        for group in _ordered(names):
            inside = of == group
            means = {name: float(wait[inside].mean()) for name, wait in waits.items()}
            apart = distance(waits[THE_LOG][inside], waits[last][inside])
            rows.append(
                {"kind": kind, "group": group, "jobs": int(inside.sum()), **means, "ks": apart}
            )
    return pl.DataFrame(rows)


def _ordered(names: pl.Series) -> Sequence[str]:
    """Return the groups, the largest first and `rest` last."""
    counts = names.value_counts(sort=True)
    found: list[str] = counts[names.name].to_list()
    return sorted(found, key=lambda name: name == "rest")
