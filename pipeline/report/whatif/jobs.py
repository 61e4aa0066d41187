"""The jobs of one long run under each policy: what a mean over jobs hides.

    OUT/jobs/DIGEST.parquet    job, wait_s and bounded_slowdown of the counted jobs of one policy

A file is written when a policy has played, and is not made again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.evaluation.evaluate import Entrant, Job
from hindcast.pipeline.scenarios.queue.instances import read_log, select_jobs, usable
from hindcast.pipeline.scenarios.queue.schedule import read_schedule
from hindcast.pipeline.simulation.batched import run_batched
from hindcast.pipeline.simulation.rollout import plays_episodes, run_episode
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.storage.files import (
    make_folder,
    read_parquet,
    sha256_text,
    table_writer,
    write_atomically,
)

LARGEST_USERS: Final = 5
_LEAST_IN_GROUP: Final = 10
_WEEK_S: Final = 7 * 86_400
_VALUES: Final = {"wait_s": pl.Float64(), "bounded_slowdown": pl.Float64()}


def _by_job(ints: NDArray[np.int64]) -> Mapping[str, NDArray[np.float64]]:
    """Return outcomes of a finished episode by counted job: the blocks are the jobs."""
    schedule = read_schedule(ints)
    return {
        "wait_s": schedule.waits[schedule.counted].astype(np.float64),
        "bounded_slowdown": schedule.bounded_slowdowns[schedule.counted],
    }


def play(
    job: Job, policies: Sequence[Entrant], tell: Callable[[int, int], None]
) -> dict[str, pl.DataFrame]:
    """Return wait and bounded slowdown of the J counted jobs of a run, by policy.

    `job.out` is the folder of the files. Raises DatasetError for one that is damaged.
    """
    make_folder(job.out)
    log = " ".join(file.sha256 for file in job.workload.provenance.files)
    found = {}
    for done, policy in enumerate(policies):
        tell(done, len(policies))
        key = f"{job.recipe.digest}|{log}|{policy.behaviour.name}|{policy.digest}"
        path = job.out / f"{sha256_text(key)[:16]}.parquet"
        if not path.exists():
            write_atomically(path, table_writer(_played(job, policy)))
        found[policy.behaviour.name] = _read(path)
    tell(len(policies), len(policies))
    return found


def _read(path: Path) -> pl.DataFrame:
    try:
        frame = read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DatasetError(f"{path}: cannot be read as Parquet ({error}); delete it") from error
    if dict(frame.schema) != _VALUES:
        raise DatasetError(f"{path}: does not have the columns {list(_VALUES)}; delete it")
    return frame


def _played(job: Job, policy: Entrant) -> pl.DataFrame:
    scenario = replace(job.scenario, blocks=_by_job)
    instance, behaviour = job.instance(0), policy.behaviour
    rng = generator(job.recipe.seed, f"evaluate {behaviour.name}", 0, 0)
    if plays_episodes(behaviour):
        episode = run_episode(scenario, job.spec, instance, behaviour, rng)
    else:
        episode = run_batched(scenario, job.spec, [instance], behaviour, [rng])[0]
    return pl.DataFrame(dict(episode.blocks), schema=_VALUES)


def counted_jobs(job: Job) -> pl.DataFrame:
    """Return the J counted jobs of a run in order: what the log says about them.

    Columns: job (number among the usable jobs), submit_s, week (of the run), processors, run_s,
    requested_s, user and queue (null if unknown), work (processor-seconds).
    """
    log = read_log(job.workload)
    chosen = select_jobs(job.recipe.config, log, 0)
    numbers = np.concatenate([chosen.carried, np.arange(chosen.counted.start, chosen.counted.stop)])
    tasks = job.workload.tasks.filter(usable(job.workload))[numbers]
    nothing = pl.Series([None] * len(numbers), dtype=pl.Int64)
    named = {
        name: tasks[name].cast(pl.Int64) if name in tasks.columns else nothing
        for name in ("user", "queue")
    }
    return pl.DataFrame({
        "job": numbers,
        "submit_s": log.submit[numbers],
        "week": np.maximum(log.submit[numbers] - chosen.now, 0) // _WEEK_S,
        "processors": log.cpu[numbers],
        "run_s": log.run[numbers],
        "requested_s": log.requested[numbers],
        **named,
        "work": (log.cpu[numbers] * log.run[numbers]).astype(np.float64),
    })  # fmt: skip


def groups(jobs: pl.DataFrame, processors: int) -> dict[str, pl.Series]:
    """Return the group of every job, (J,) strings, by kind of group: queue, user, size, request.

    A kind is left out if the log does not have it. Small queues are one group.
    """
    found = {}
    if jobs["queue"].n_unique() > 1:
        found["queue"] = _largest(jobs, "queue", 8)
    if jobs["user"].n_unique() > 1:
        found["user"] = _largest(jobs, "user", LARGEST_USERS)
    share = pl.col("processors") / processors
    found["size"] = jobs.select(
        pl.when(pl.col("processors") == 1).then(pl.lit("1 processor"))
        .when(share < 0.25).then(pl.lit("2 to a quarter of the machine"))
        .otherwise(pl.lit("wide: a quarter or more")).alias("size")
    )["size"]  # fmt: skip
    hours = pl.col("requested_s") / 3600
    found["request"] = jobs.select(
        pl.when(hours <= 1).then(pl.lit("up to 1 h")).when(hours < 4).then(pl.lit("1 to 4 h"))
        .otherwise(pl.lit("long: 4 h or more")).alias("request")
    )["request"]  # fmt: skip
    return found


def _largest(jobs: pl.DataFrame, column: str, count: int) -> pl.Series:
    """Return the names of the groups with the most work, and `rest` for the others."""
    by_work = (
        jobs.drop_nulls(column)
        .group_by(column)
        .agg(pl.col("work").sum(), pl.len())
        .filter(pl.col("len") >= _LEAST_IN_GROUP)
        .sort("work", column, descending=[True, False])
    )
    names = by_work[column].head(count).to_list()
    kept = pl.col(column).is_in(names)
    text = pl.format(f"{column} {{}}", pl.col(column))
    return jobs.select(pl.when(kept).then(text).otherwise(pl.lit("rest")).alias(column))[column]


def by_group(
    jobs: pl.DataFrame, played: Mapping[str, pl.DataFrame], kinds: Mapping[str, pl.Series]
) -> pl.DataFrame:
    """Return a row per kind, group and policy.

    Columns: kind, group, jobs, work_share, policy, mean_wait_s, p95_wait_s,
    mean_bounded_slowdown. Groups of a kind are in order of their work, `rest` last.
    """
    whole = float(jobs["work"].sum())
    frames = []
    for kind, names in kinds.items():
        sizes = (
            pl.DataFrame({"group": names, "work": jobs["work"]})
            .group_by("group")
            .agg(pl.len().cast(pl.Int64).alias("jobs"), pl.col("work").sum() / whole)
            .rename({"work": "work_share"})
            .sort(pl.col("group") == "rest", "work_share", descending=[False, True])
            .with_row_index("place")
        )
        for policy, values in played.items():
            means = (
                values.with_columns(group=names)
                .group_by("group")
                .agg(
                    pl.col("wait_s").mean().alias("mean_wait_s"),
                    pl.col("wait_s").quantile(0.95, "lower").alias("p95_wait_s"),
                    pl.col("bounded_slowdown").mean().alias("mean_bounded_slowdown"),
                )
            )
            frames.append(
                sizes.join(means, on="group", how="left")
                .sort("place")
                .select(
                    pl.lit(kind).alias("kind"), "group", "jobs", "work_share",
                    pl.lit(policy).alias("policy"), "mean_wait_s", "p95_wait_s",
                    "mean_bounded_slowdown",
                )
            )  # fmt: skip
    return pl.concat(frames)
