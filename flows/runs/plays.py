"""Plays of `hindcast whatif`: the starts of all jobs under every policy, each kept in a file.

    OUT/plays/SCOPE/POLICY.parquet    part, start_s (null: did not start), in the order of the runs
    OUT/jobs/POLICY.parquet           the counted jobs of the run under a policy, see `write_jobs`

A file is written when a policy has played a scope, and is not made again. Priorities are played by
hindcast.pipeline.whatif.playing, recorded starts by hindcast.pipeline.whatif.replay, and all other
policies by scenario `queue`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.flows.runs.ledger import Ledger
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.evaluation.entrant import Entrant
from hindcast.pipeline.evaluation.evaluate import BATCH, Job
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.scenarios.queue.layout import NEVER, PLACED_AT
from hindcast.pipeline.scenarios.queue.schedule import read_schedule
from hindcast.pipeline.scenarios.queue.several.transition import is_several
from hindcast.pipeline.schedules.log_runs import run_schedule
from hindcast.pipeline.schedules.schedule import file_name, write_schedule
from hindcast.pipeline.simulation.batched import run_batched
from hindcast.pipeline.simulation.memory_rules import MemoryRule
from hindcast.pipeline.simulation.rollout import plays_episodes, run_episode
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.storage.files import (
    make_folder,
    read_parquet,
    table_writer,
    write_atomically,
)
from hindcast.pipeline.storage.run_files import JOBS
from hindcast.pipeline.storage.versions import version
from hindcast.pipeline.whatif.orders import Mode, Order, policy_of
from hindcast.pipeline.whatif.outcomes import by_week, counted, outcomes, weeks_of, wide_of
from hindcast.pipeline.whatif.playing import play, play_placed
from hindcast.pipeline.whatif.record import Array, Record
from hindcast.pipeline.whatif.replay import replay, replay_placed
from hindcast.pipeline.whatif.run import Run, joined, run_of
from hindcast.pipeline.workloads.schema import Workload
from hindcast.policies.entrants import entrants
from hindcast.policies.heuristics import find_rule

RECORDED: Final = "recorded"
Tell = Callable[[float], None]


@dataclass(frozen=True)
class Machine:
    """A machine and its part of a log: all of it, or a pool.

    Attributes:
        record: Its jobs.
        position: Number of each of them among the jobs of all machines, in order of arrival, (N,).
    """

    record: Record
    position: Array

    @property
    def too_wide(self) -> int:
        """Number of the jobs that ask for more than the machine has."""
        return 0 if self.record.too_wide is None else len(self.record.too_wide.row)


@dataclass(frozen=True)
class Part:
    """A run or a window, on every machine.

    Attributes:
        runs: One for each machine that has jobs in it.
        window: Its number within its scope.
    """

    runs: tuple[Run, ...]
    window: int = 0


@dataclass(frozen=True)
class Policy:
    """A policy of the page.

    Attributes:
        name: Its name in tables.
        kind: As of an Entrant.
        identity: What its starts depend on, beside the log.
        rule: Its order and mode; None for recorded starts and for policies of the scenario.
        entrant: The policy of the scenario.
        description: A sentence about it.
    """

    name: str
    kind: str
    identity: str
    rule: tuple[Order, Mode] | None
    entrant: Entrant | None = None
    description: str = ""


def policies_of(names: Sequence[str], run: Recipe) -> list[Policy]:
    """Return the policies of names: rules of scenario `queue`, checkpoints and code of the user's.

    Raises InputError for a policy that is unknown, does not fit, or draws.
    """
    found = []
    for name in names:
        rule = policy_of(name)
        if rule is not None:
            of = find_rule("queue", name)
            assert of is not None
            kind = of.kind if isinstance(of, MemoryRule) else "heuristic"
            found.append(Policy(name, kind, name, rule, description=of.description))
            continue
        asked = entrants(run, [name])
        if not asked:
            raise InputError(
                f"--policy {name}: a log of jobs has no recorded policies of datasets, expected a "
                f"rule or a checkpoint; the log's own scheduler is {RECORDED!r}, which is always "
                "played"
            )
        for each in asked:
            behaviour = each.behaviour
            if behaviour.stochastic:
                raise InputError(
                    f"--policy {name}: this policy draws, expected one whose choices are fixed, "
                    "since every policy plays the log once"
                )
            text = getattr(behaviour.policy, "description", "") or f"agent {behaviour.name}"
            identity = f"{behaviour.name}|{each.digest}"
            found.append(Policy(behaviour.name, each.kind, identity, None, each, text))
    return found


def part_of(
    machines: Sequence[Machine], bounds: tuple[int, int], *,
    arrive: Array, counts: NDArray[np.bool_], follow: int = 0, warm: bool = True, window: int = 0,
) -> Part | None:  # fmt: skip
    """Return the part of the jobs between two numbers; None if it counts no job.

    Args:
        machines: The machines.
        bounds: The first job and the first one after the part, among the jobs of all machines.
        arrive: Arrival of these jobs, (N,).
        counts: Whether outcomes count them, (N,).
        follow: Number of jobs after the part that arrive as well.
        warm: Whether the machines begin as they were recorded.
        window: Number of the part.
    """
    runs = []
    last = min(bounds[1] + follow, len(arrive))
    for machine in machines:
        first, stop, end = np.searchsorted(machine.position, (*bounds, last))
        if first == stop:
            continue
        run = run_of(
            machine.record, int(first), int(stop), follow=int(end - stop), warm=warm,
            now=int(arrive[bounds[0]]),
        )  # fmt: skip
        # Jobs that are too wide for the machine, and run at the beginning, are behind the others.
        position = np.append(machine.position, len(arrive) + np.arange(machine.too_wide))
        kept = run.counted.copy()
        kept[run.counted] = counts[position[run.row[run.counted]]]
        if kept.any():
            # Rows count through the jobs of all machines.
            runs.append(replace(run, counted=kept, row=position[run.row]))
    return Part(tuple(runs), window) if runs else None


@dataclass(frozen=True)
class Scope:
    """Parts that are played by every policy.

    Attributes:
        name: "run", "windows" or "before".
        parts: The parts.
        job: The same as windows of a recipe, for policies of the scenario; None where the log was
            split into machines.
    """

    name: str
    parts: tuple[Part, ...]
    job: Job | None


class Plays(NamedTuple):
    """Starts and placements of the jobs by part and machine, (N,) each."""

    starts: list[list[Array]]
    kinds: list[list[Array]]


def played(
    out: Path, ledger: Ledger, scope: Scope, policy: Policy, inputs: Mapping[str, object],
    tell: Tell,
) -> Plays:  # fmt: skip
    """Return the starts under a policy by part and machine, from its file or by playing."""
    path = out / "plays" / scope.name / f"{file_name(policy.name)}.parquet"
    stage, key = f"play {scope.name} {policy.name}", {**inputs, "policy": policy.identity}
    if not ledger.is_finished(stage, key, path):
        found = _play(scope, policy, tell)
        make_folder(path.parent)
        starts, kinds = found
        frame = pl.DataFrame({
            "part": np.repeat(np.arange(len(starts)), [sum(map(len, each)) for each in starts]),
            "start_s": np.concatenate([start for each in starts for start in each]),
        })  # fmt: skip
        if scope.parts[0].runs[0].resources is not None:
            flat = np.concatenate([kind for each in kinds for kind in each])
            frame = frame.with_columns(placement=flat)
        never = pl.col("start_s") == NEVER
        write_atomically(
            path, table_writer(frame.with_columns(start_s=pl.when(~never).then("start_s")))
        )
        ledger.record(stage, key, path, {})
        return found
    frame = read_parquet(path).with_columns(pl.col("start_s").fill_null(NEVER))
    if "placement" not in frame.columns:
        frame = frame.with_columns(placement=pl.lit(0))
    sizes = [len(run.row) for part in scope.parts for run in part.runs]
    columns = (np.split(frame[name].to_numpy(), np.cumsum(sizes)[:-1])
               for name in ("start_s", "placement"))  # fmt: skip
    return Plays(*(
        [[next(pieces) for _ in part.runs] for part in scope.parts] for pieces in map(iter, columns)
    ))  # fmt: skip


def _play(scope: Scope, policy: Policy, tell: Tell) -> Plays:
    if policy.rule is None and policy.name != RECORDED:
        assert policy.entrant is not None
        return _in_scenario(scope, policy.entrant)
    found, done, whole = [], 0, sum(len(run.row) for part in scope.parts for run in part.runs)
    for part in scope.parts:
        of_part = []
        for run in part.runs:

            def share(of: float, size: int = len(run.row), done: int = done) -> None:
                tell((done + of * size) / whole)

            of_part.append(
                replay_placed(run) if policy.rule is None
                else play_placed(run, *policy.rule, share)
            )  # fmt: skip
            done += len(run.row)
            tell(done / whole)
        found.append(of_part)
    return Plays(*([[of[place] for of in part] for part in found] for place in range(2)))


def start(run: Run, policy: Policy, tell: Tell | None = None) -> Array:
    """Return the starts of a run, (N,), under recorded starts or a rule that is an order."""
    return replay(run).starts if policy.rule is None else play(run, *policy.rule, tell)


def _starts(ints: NDArray[np.int64]) -> Mapping[str, NDArray[np.float64]]:
    """Return the starts and placements of a finished episode as outcomes by job."""
    start = read_schedule(ints).start.astype(np.float64)
    kind = np.zeros(len(start))
    if is_several(ints):
        kind += np.maximum(ints[ints[PLACED_AT] : ints[PLACED_AT] + len(start)], 0)
    return {"start": start, "kind": kind}


def _in_scenario(scope: Scope, entrant: Entrant) -> Plays:
    behaviour, job = entrant.behaviour, scope.job
    if job is None:
        raise InputError(
            f"--policy {behaviour.name}: a policy of this kind plays whole logs, so --pools and "
            "--where partition=... cannot have it"
        )
    job = job.seen_by(behaviour)
    scenario = replace(job.scenario, blocks=_starts)
    rngs = [generator(job.recipe.seed, f"evaluate {behaviour.name}", w, 0) for w in job.windows]
    windows = [part.window for part in scope.parts]
    if plays_episodes(behaviour):
        episodes = [
            run_episode(scenario, job.spec, job.instance(w), behaviour, rngs[w]) for w in windows
        ]
    else:
        episodes = []
        for at in range(0, len(windows), BATCH):
            batch = windows[at : at + BATCH]
            instances = [job.instance(window) for window in batch]
            drawn = [rngs[window] for window in batch]
            episodes += run_batched(scenario, job.spec, instances, behaviour, drawn)
    starts = [
        [np.where(found < NEVER / 2, NEVER, found.astype(np.int64) + part.runs[0].now)]
        for part, episode in zip(scope.parts, episodes, strict=True)
        for found in (episode.blocks["start"],)
    ]
    return Plays(starts, [[episode.blocks["kind"].astype(np.int64)] for episode in episodes])


def values_of(scope: Scope, policy: Policy, found: Plays) -> dict[str, NDArray[np.float64]]:
    """Return the outcomes of a policy by name, (B,): by window, or by week of a run.

    Outcomes without weeks, and those of a run of less than four weeks, have one value. Those of
    recorded starts are of the jobs whose start is known.
    """
    rows, weeks, more = [], 0, []
    for part, each, kinds in zip(scope.parts, *found, strict=True):
        run, place = joined(part.runs)
        weeks = weeks_of(run)
        if policy.name == RECORDED:
            run = replace(run, counted=run.counted & (run.start != NEVER))
        rows.append((run, np.concatenate(each)[place]))
        wide = (
            None if run.resources is None else np.concatenate(list(map(wide_of, part.runs)))[place]
        )
        more.append((np.concatenate(kinds)[place], wide))
    table = [outcomes(*row, *of) for row, of in zip(rows, more, strict=True)]
    values = {name: np.array([row[name] for row in table]) for name in table[0]}
    return values | dict(by_week(*rows[0], weeks)) if len(rows) == 1 else values


def inputs_of(content: Sequence[str], what: Mapping[str, object]) -> dict[str, object]:
    """Return what the starts depend on: content of the log, its selection, and the version."""
    return {"log": list(content), **what, "version": version()}


def counted_frame(part: Part, starts: Sequence[Array]) -> pl.DataFrame:
    """Return wait_s, scheduler_wait_s and bounded_slowdown of the J counted jobs of a part."""
    run, place = joined(part.runs)
    merged = np.concatenate(starts)[place]
    jobs = counted(run, merged)
    return pl.DataFrame({
        "wait_s": jobs.wait.astype(np.float64),
        "scheduler_wait_s": counted(run, merged, since="arrive").wait.astype(np.float64),
        "bounded_slowdown": jobs.slowdown,
    })  # fmt: skip


def jobs_file(out: Path, policy: str) -> Path:
    """Return the file of the schedule of the run under a policy."""
    return out / JOBS / f"{file_name(policy)}.parquet"


def write_jobs(
    out: Path, workload: Workload, row: Array, part: Part, policy: Policy, found: Plays
) -> None:
    """Write OUT/jobs/POLICY.parquet: the schedule of the jobs of a run under a policy.

    `row` is the place of every job of the record among the usable tasks, (R,).
    """
    make_folder(out / JOBS)
    schedule = run_schedule(workload, row, part.runs, found.starts[0], found.kinds[0], policy.name)
    write_schedule(schedule, jobs_file(out, policy.name))
