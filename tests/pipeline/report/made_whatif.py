"""Made material of the page of `hindcast whatif`: jobs, waits and grades without a simulation."""

from dataclasses import replace

import numpy as np
import polars as pl

from hindcast.pipeline.report.whatif.material import Material
from hindcast.pipeline.report.whatif.numbers import Scope
from hindcast.pipeline.report.whatif.plan import Plan
from hindcast.pipeline.whatif.closed import Closed
from hindcast.pipeline.whatif.grade import LIMITS, Grade
from hindcast.pipeline.whatif.replay import Replay
from hindcast.pipeline.whatif.shakes import Shaken
from hindcast.pipeline.workloads.schema import Provenance, SourceFile

DAY_S = 86_400
# Mean wait of a policy over that of the record.
POLICIES = {
    "recorded": 1.0,
    "fcfs_easy": 1.02,
    "sjf_easy": 0.7,
    "saf_easy": 0.4,
    "lxf_easy": 0.8,
    "conservative": 1.4,
    "steady_area_easy": 0.75,
    "saf_clairvoyant": 0.3,
}
NUMBERS = {
    "over": 0.0,
    "open": 0.0,
    "passed": 0.0,
    "twins": 746,
    "odd": 0.0,
    "starts": 1722,
    "reaction": 0.0,
    "delta": 60.0,
    "explained": 0.79,
    "idle": 0.1,
}


def grade(letter="A", known=None, **numbers):
    """Return a grade with given numbers, and letters by the limits."""
    found = {**NUMBERS, **numbers}
    used = [name for name in LIMITS if name != "idle" or known]
    letters = {name: "ABCD"[sum(found[name] > limit for limit in LIMITS[name])] for name in used}
    return Grade(
        letter=letter,
        letters=letters,
        numbers=found,
        known=known,
        nearest=known or "saf easy",
        members=(),
        closed=(),
        rest=None,
        rest_letters={},
        jobs=3000,
        unknown=0,
        unknown_work=0.0,
        at_once=0.4,
        mean_wait_s=7786.6,
        fitting=0.1,
    )


def closed_day():
    """Return a grade of a record with a closed day, without which it is B."""
    whole = grade("B", "saf easy", open=0.2908, odd=0.048, explained=0.9993)
    return replace(
        whole,
        closed=(Closed(2_066_694, 2_160_000, 119, 1.0),),
        rest={**whole.numbers, "open": 0.0003, "odd": 0.0, "explained": 0.9997},
        rest_letters=dict.fromkeys(whole.letters, "A"),
    )


def jobs_of(count, days, *, partitions=1, unknown=0, held=0.0, begin_s=0, rng):
    """Return jobs of a run, the first 14 of which waited when it began."""
    submit = np.sort(rng.integers(0, int(days * DAY_S) + 1, count))
    submit[:14] = 0
    run = rng.integers(60, 40_000, count)
    cpu = rng.choice([1, 2, 8, 32], count)
    held_s = np.where(rng.random(count) < held, 7200, 0)
    wait = rng.exponential(4000.0, count).round() * (rng.random(count) < 0.7) + held_s
    known = np.arange(count) >= count - (count - unknown)
    return pl.DataFrame(
        {
            "job": np.arange(count),
            "submit_s": submit + begin_s,
            "arrive_s": submit + held_s + begin_s,
            "carried": np.arange(count) < 14,
            "week": submit // (7 * DAY_S),
            "processors": cpu,
            "run_s": run,
            "requested_s": run * 2,
            "partition": np.arange(count) % partitions,
            "qos": np.arange(count) % 2,
            "account": [None] * count,
            "queue": np.arange(count) % 3,
            "user": np.arange(count) % 17,
            "work": (cpu * run).astype(float),
            "held_s": held_s,
            "recorded_wait_s": wait,
        },
        schema_overrides={"account": pl.Int64},
    ).with_columns(pl.when(pl.Series(known)).then("recorded_wait_s").alias("recorded_wait_s"))


def frame_of(wait, run):
    slowdown = np.maximum((wait + run) / np.maximum(run, 10), 1.0)
    return pl.DataFrame({"wait_s": wait.astype(float), "bounded_slowdown": slowdown})


def scope_of(frames, jobs, block, weekly):
    """Return means by block of jobs; those that have no blocks are of all jobs."""
    wide, long = jobs["processors"].to_numpy() >= 25, jobs["requested_s"].to_numpy() >= 14_400
    found = {}
    for name, frame in frames.items():
        wait, slowdown = (frame[column].to_numpy() for column in frame.columns)
        counts = np.bincount(block)
        size = len(counts) / len(wait) if weekly else 1 / counts
        found[name] = {
            "mean_bounded_slowdown": np.bincount(block, slowdown) * size,
            "mean_wait_s": np.bincount(block, wait) * size,
            **{
                m: np.array([v])
                for m, v in {
                    "p95_wait_s": np.quantile(wait, 0.95),
                    "p99_wait_s": np.quantile(wait, 0.99),
                    "max_wait_s": wait.max(),
                    "starved_share": (wait > 2 * DAY_S).mean(),
                    "user_fairness": 0.71,
                    "mean_slowdown_wide": slowdown[wide].mean(),
                    "mean_slowdown_long": slowdown[long].mean(),
                }.items()
            },
        }
        if len(counts) == 1:
            found[name] = {m: np.array([np.mean(v)]) for m, v in found[name].items()}
    return Scope(found)


def material(
    *,
    days=42,
    count=900,
    factors=None,
    kinds=None,
    seed=3,
    partitions=1,
    unknown=0,
    held=0.0,
    begin_s=0,
    starts=True,
    **others,
):
    """Return material; by default of a log of grade A, and a rule with less than half its waits."""
    rng = np.random.default_rng(seed)
    jobs = jobs_of(
        count, days, partitions=partitions, unknown=unknown, held=held, begin_s=begin_s, rng=rng
    )
    factors = {**POLICIES, **(factors or {})}
    if not starts:
        factors.pop("recorded")
        jobs = jobs.with_columns(recorded_wait_s=pl.lit(None, dtype=pl.Float64))
    wait = jobs["recorded_wait_s"].fill_null(1000.0).to_numpy()
    run = jobs["run_s"].to_numpy()
    frames = {name: frame_of(np.round(wait * factor), run) for name, factor in factors.items()}
    week = jobs["week"].to_numpy()
    block = week if week.max() >= 3 else np.zeros_like(week)
    base = {
        name: "recorded"
        if name == "recorded"
        else "knows run times"
        if "clair" in name
        else "heuristic"
        for name in factors
    }
    plan = Plan(
        log_jobs=3 * count,
        jobs=40,
        follow=160,
        train_jobs=100,
        train=(0, 10),
        validation=(20,),
        test=tuple(range(2 * count, 2 * count + 20)),
        before=count,
        validation_first=count,
        test_first=2 * count,
        test_last=3 * count,
        warm=starts,
        held=held > 0,
    )
    shaken = {
        name: Shaken(
            frame["bounded_slowdown"].mean() + rng.normal(0, 0.02, 20),
            frame["wait_s"].mean() + rng.normal(0, 40.0, 20),
        )
        for name, frame in frames.items()
        if name != "recorded"
    }
    made = Material(
        name="made.swf",
        format="swf",
        settings={},
        provenance=Provenance(
            "swf",
            (SourceFile("made.swf", 10, "0" * 64),),
            {"jobs": 3000},
            {"no run time": 3},
            ("a note of the reader",),
        ),
        processors=100,
        plan=plan,
        kinds={**base, **(kinds or {})},
        descriptions={name: f"what {name} does" for name in factors},
        run=scope_of(frames, jobs, block, weekly=True),
        windows=scope_of(frames, jobs, np.arange(count) * 20 // count, weekly=False),
        before=scope_of(frames, jobs, np.zeros(count, int), weekly=True),
        jobs=jobs,
        played=frames,
        shaken=shaken,
        grade=grade() if starts else None,
        replay=Replay(np.zeros(0, int), count - unknown, 0, 0.0, 0.0) if starts else None,
        commands={"table One run": "hindcast whatif made.swf"},
        command="hindcast whatif made.swf",
    )
    return replace(made, **others)


def changes():
    """Return two changed worlds of two rules."""
    rows = [
        ("processors=+10%", "saf_easy", 900, 0, 0, 13.7, 1476.0, 24.5, 2484.0, -10.8, -20.1, -2.0),
        ("processors=+10%", "fcfs_easy", 900, 1, 0, 36.6, 2772.0, 62.5, 4896.0, -25.9, None, None),
        ("limit=12h", "saf_easy", 900, 0, 67, 18.9, 2268.0, 24.5, 2484.0, -5.6, -9.0, 1.0),
    ]
    names = [
        "change",
        "policy",
        "jobs",
        "removed",
        "chains",
        "mean_bounded_slowdown",
        "mean_wait_s",
        "same_jobs_slowdown",
        "same_jobs_wait_s",
        "difference",
        "low",
        "high",
    ]
    return pl.DataFrame(rows, schema=names, orient="row").with_columns(shake_sd=pl.lit(0.6))


def advice():
    """Return today's scheduler and two settings for Slurm and PBS."""
    lines = "PriorityType=priority/multifactor\nSchedulerParameters=bf_job_part_count_reserve=1"
    rows = [
        ("fcfs", "today", "", "", "1", "", 62.5, 4896.0),
        ("saf", "Slurm", lines, "order exact up to minutes", "all", "k = 2", 23.9, 2316.0),
        ("saf", "PBS", "job_sort_formula = -(walltime*ncpus)", "exact", "1", "", 24.5, 2466.0),
    ]
    names = ["rule", "scheduler", "lines", "exact", "reservations", "choice"]
    names += ["mean_bounded_slowdown", "mean_wait_s"]
    others = ("p99_wait_s", "max_wait_s", "mean_slowdown_wide", "mean_slowdown_long")
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return frame.with_columns(pl.lit(7.0).alias(name) for name in others)
