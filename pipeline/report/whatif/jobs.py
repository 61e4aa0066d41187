"""The jobs of one long run, and their groups: what a mean over jobs hides."""

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.scenarios.queue.asks import GPUS
from hindcast.pipeline.scenarios.queue.layout import NEVER, TAU
from hindcast.pipeline.whatif.run import Run

LARGEST_USERS: Final = 5
_LARGEST: Final = 8  # of other kinds of groups
_LEAST_IN_GROUP: Final = 10
_WEEK_S: Final = 7 * 86_400
NAMED: Final[Mapping[str, str]] = {  # column -> its name in a group
    "partition": "partition",
    "qos": "QOS",
    "account": "account",
    "queue": "queue",
    "user": "user",
}


def counted_jobs(run: Run) -> pl.DataFrame:
    """Return the J counted jobs of a run in order: what the log says about them.

    Columns: job (row of the record), submit_s and arrive_s on the clock of the log, carried (it
    waited when the run began), week (of the run), processors, run_s, requested_s, partition, qos,
    account, queue and user (null if unknown), work (processor-seconds), held_s (time before it was
    eligible), recorded_wait_s (of the user, held_s included; null if unknown).
    """
    of = np.flatnonzero(run.counted)
    since = np.maximum(run.submit[of], run.now)
    known = run.start[of] != NEVER
    resources, gpus = run.resources, {}
    types = [] if resources is None else [
        k for k, name in enumerate(resources.names) if name.partition(":")[0] == GPUS
    ]  # fmt: skip
    if resources is not None and types:
        asked = run.asks[of][:, [*types, -1]].sum(axis=1)
        gpus["gpus"] = asked / resources.units[types[0]]
    waits = np.where(known, run.start[of] - since, 0)
    return pl.DataFrame(
        {
            "job": run.row[of],
            "submit_s": run.submit[of],
            "arrive_s": run.arrive[of],
            "carried": run.arrive[of] < run.now,
            "week": np.maximum(run.submit[of] - run.now, 0) // _WEEK_S,
            "processors": run.cpu[of],
            **gpus,
            "run_s": run.run[of],
            "requested_s": run.requested[of],
            **{name: getattr(run, name)[of] for name in NAMED},
            "work": (run.cpu[of] * run.run[of]).astype(np.float64),
            "held_s": np.maximum(run.arrive[of], run.now) - since,
            "recorded_wait_s": waits.astype(np.float64),
        }
    ).with_columns(
        *(pl.when(pl.col(name) >= 0).then(name).alias(name) for name in NAMED),
        pl.when(pl.Series(known)).then("recorded_wait_s").alias("recorded_wait_s"),
    )


def recorded(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return wait_s and bounded_slowdown of the J jobs by the record, null where unknown."""
    wait, run = pl.col("recorded_wait_s"), pl.col("run_s")
    slowdown = pl.max_horizontal((wait + run) / pl.max_horizontal(run, TAU), 1.0)
    return jobs.select(
        wait.alias("wait_s"),
        pl.when(wait.is_not_null()).then(slowdown).alias("bounded_slowdown"),
    )


def groups(
    jobs: pl.DataFrame, processors: int, names: Mapping[str, Mapping[int, str]]
) -> dict[str, pl.Series]:
    """Return the group of every job, (J,) strings, by kind of group.

    Kinds are partition, qos, account, queue, user, size, gpus and request. One is left out if the
    log does not have two of it, gpus if the machine has none. Small groups are one.
    """
    found = {
        name: _largest(jobs, name, names.get(name, {}))
        for name in NAMED
        if jobs[name].drop_nulls().n_unique() > 1
    }
    share = pl.col("processors") / processors
    found["size"] = jobs.select(
        pl.when(pl.col("processors") == 1)
        .then(pl.lit("1 processor"))
        .when(share < 0.25)
        .then(pl.lit("2 to a quarter of the machine"))
        .otherwise(pl.lit("wide: a quarter or more"))
        .alias("size")
    )["size"]
    if "gpus" in jobs.columns:
        found["gpus"] = jobs.select(
            pl.when(pl.col("gpus") == 0)
            .then(pl.lit("no GPU"))
            .when(pl.col("gpus") <= 1)
            .then(pl.lit("up to 1 GPU"))
            .when(pl.col("gpus") < 4)
            .then(pl.lit("more than 1 and less than 4 GPUs"))
            .otherwise(pl.lit("4 GPUs or more"))
            .alias("gpus")
        )["gpus"]
    hours = pl.col("requested_s") / 3600
    found["request"] = jobs.select(
        pl.when(hours <= 1)
        .then(pl.lit("up to 1 h"))
        .when(hours < 4)
        .then(pl.lit("1 to 4 h"))
        .otherwise(pl.lit("long: 4 h or more"))
        .alias("request")
    )["request"]
    return found


def _largest(jobs: pl.DataFrame, column: str, names: Mapping[int, str]) -> pl.Series:
    """Return the names of the groups with the most work, and `rest` for the others."""
    count = LARGEST_USERS if column == "user" else _LARGEST
    by_work = (
        jobs.drop_nulls(column)
        .group_by(column)
        .agg(pl.col("work").sum(), pl.len())
        .filter(pl.col("len") >= _LEAST_IN_GROUP)
        .sort("work", column, descending=[True, False])
    )
    shown = {n: names.get(n, str(n)) for n in by_work[column].head(count).to_list()}
    text = pl.format(
        f"{NAMED[column]} {{}}",
        pl.col(column).replace_strict(shown, default=None, return_dtype=pl.String),
    )
    named = (
        pl.when(pl.col(column).is_null())
        .then(pl.lit("unknown"))
        .when(pl.col(column).is_in(list(shown)))
        .then(text)
    )
    return jobs.select(named.otherwise(pl.lit("rest")).alias(column))[column]


def by_group(
    jobs: pl.DataFrame, frames: Mapping[str, pl.DataFrame], kinds: Mapping[str, pl.Series]
) -> pl.DataFrame:
    """Return a row per kind, group and policy.

    Columns: kind, group, jobs, work_share, policy, mean_wait_s, p95_wait_s,
    mean_bounded_slowdown. Groups of a kind are in order of their work, `rest` last. Unknown waits
    are in no mean.
    """
    whole = float(jobs["work"].sum())
    found = []
    for kind, names in kinds.items():
        sizes = (
            pl.DataFrame({"group": names, "work": jobs["work"]})
            .group_by("group")
            .agg(pl.len().cast(pl.Int64).alias("jobs"), pl.col("work").sum() / whole)
            .rename({"work": "work_share"})
            .sort(pl.col("group") == "rest", "work_share", "group", descending=[False, True, False])
            .with_row_index("place")
        )
        for policy, values in frames.items():
            means = (
                values.with_columns(group=names)
                .group_by("group")
                .agg(
                    pl.col("wait_s").mean().alias("mean_wait_s"),
                    pl.col("wait_s").quantile(0.95, "lower").alias("p95_wait_s"),
                    pl.col("bounded_slowdown").mean().alias("mean_bounded_slowdown"),
                )
            )
            found.append(
                sizes.join(means, on="group", how="left")
                .sort("place")
                .select(
                    pl.lit(kind).alias("kind"),
                    "group",
                    "jobs",
                    "work_share",
                    pl.lit(policy).alias("policy"),
                    "mean_wait_s",
                    "p95_wait_s",
                    "mean_bounded_slowdown",
                )
            )
    return pl.concat(found)
