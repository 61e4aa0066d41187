"""Scores of policies on common windows, as the environment books them.

    OUT/scores.parquet     one value per policy, scenario, window, seed and metric; of a single long
                           window one per block (a week) in place of the window, see `Scenario`
    OUT/evaluation.json    policies, windows, metrics and references of the evaluation; written last
    OUT/.evaluating/       scores of the policies that an unfinished evaluation has completed, or of
                           some of their runs, each in a file

Every given policy is scored on every window of the split. No policy is selected here.
"""

import math
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.dataset.manifest import versions
from hindcast.pipeline.errors import DatasetError, PolicyFault, RecipeError, StorageError
from hindcast.pipeline.evaluation import looks, until
from hindcast.pipeline.evaluation.entrant import Entrant
from hindcast.pipeline.evaluation.plans import caveats_of
from hindcast.pipeline.recipes.caveats import trace_caveats
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.batched import run_batched
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import Episode, Planner, plays_episodes, run_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario, config_for
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.simulation.spec import Outcome, Spec
from hindcast.pipeline.statistics.sequential import Sequential
from hindcast.pipeline.storage.files import (
    is_partial,
    make_folder,
    read_json,
    read_parquet,
    remove_folder,
    remove_partials,
    sha256_text,
    table_writer,
    write_atomically,
    write_json,
)
from hindcast.pipeline.storage.locks import one_writer
from hindcast.pipeline.storage.provenance import (
    Record,
    as_records,
    described,
    joined,
    key_of,
    provenance,
)
from hindcast.pipeline.storage.run_files import EVALUATING, EVALUATION, JOBS, SCORES
from hindcast.pipeline.workloads import caveats as cv
from hindcast.pipeline.workloads.log_caveats import log_caveats
from hindcast.pipeline.workloads.schema import Workload

_PLAN: Final = "plan.json"
_COLUMNS: Final[Mapping[str, pl.DataType]] = {
    "policy": pl.String(), "scenario": pl.String(), "window": pl.Int64(), "seed": pl.Int64(),
    "metric": pl.String(), "value": pl.Float64(),
}  # fmt: skip
BATCH: Final = 512  # episodes that a network steps together
# Runs of a policy that are one item of work for other processes. Those of a network are a batch, on
# whose size the last bits of its scores may depend.
_RULE_RUNS: Final = 64
_PLANNER_RUNS: Final = 4  # of policies that simulate ahead

Item = tuple[int, int]  # number of a policy, and of the first of its runs
# elsewhere(items, tell) has `play_item` called for items by other processes, in any order, and
# calls tell(items) whenever some are done.
Elsewhere = Callable[[Sequence[Item], Callable[[Sequence[Item]], None]], None]

# Metrics of every scenario, in addition to its outcomes.
_SESSIONS: Final = "sessions"  # key of the plan of an unfinished evaluation
COMMON: Final = (
    Outcome("return", "reward", "undiscounted sum of rewards", "higher"),
    Outcome("decisions", "1", "number of decisions", "neither"),
    Outcome("truncated", "1", "1 if the episode was cut off before its end, else 0"),
)


@dataclass(frozen=True)
class EvaluateResult:
    """Summary of a finished evaluation.

    Attributes:
        folder: The folder that was written.
        rows: Number of rows in scores.parquet.
        means: Mean of the headline outcome of each policy, by name.
        caveats: Facts that limit what the scores can say.
        until: The test that stopped the evaluation, of one that plays until it is decided.
    """

    folder: Path
    rows: int
    means: Mapping[str, float]
    caveats: tuple[cv.Caveat, ...] = ()
    until: Sequential | None = None


@one_writer
def evaluate(
    recipe: Recipe,
    policies: Sequence[Entrant],
    *,
    split: str,
    out: Path,
    seeds: int | None = None,
    workers: int | Elsewhere = 1,
    command: str = "",
    plan: Mapping[str, Any] | None = None,
    decide: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> EvaluateResult:
    """Score the policies on a split of the recipe.

    Policies that an interrupted call has already scored in `out` are not run again.

    Args:
        recipe: The recipe whose problem and windows are used.
        policies: The policies, with different names.
        split: Name of a split of the recipe, usually "test".
        out: Folder for scores.parquet and evaluation.json.
        seeds: Runs per window of a policy that draws; by default the number in the recipe.
        workers: Number of threads that run compiled rules, or a function that has runs played by
            other processes. The scores are the same.
        command: Command line to record in evaluation.json.
        plan: The part of the plan that is kept, see `hindcast.pipeline.evaluation.plans.kept`.
        decide: Play a quarter of the windows at a time, until the first two policies are told
            apart, see `hindcast.pipeline.evaluation.until`. Processes of `workers` are not used.
        progress: Called with the finished windows and all windows, summed over policies.

    Raises:
        RecipeError: There are no policies, two of one name, or no such split or window.
        InputError: `out` is a file, or holds something other than this evaluation.
    """
    names = [p.behaviour.name for p in policies]
    if not names:
        raise RecipeError("there are no policies to evaluate; name at least one with --policy")
    if len(set(names)) < len(names):
        raise RecipeError(
            f"two policies have the same name, expected different ones: {sorted(names)}"
        )
    if decide:
        until.check_until(recipe, policies, split)
    job = make_job(recipe, split, out, seeds, workers if isinstance(workers, int) else 1)
    sessions = _begin(job, split)
    # Checkpoints that play a rule may have equal weights, whichever the rule is.
    agents = [str(p.digest) for p in policies if p.is_agent and p.delivered != "rule"]
    seen = looks.others(recipe, split, agents)
    if seen is not None and agents:
        looks.add_look(recipe, split, agents)
    stopped = None
    if decide:

        def play(some: Sequence[int]) -> pl.DataFrame:
            return _all_scores(replace(job, windows=list(some), part=f"-{some[0]}"), policies)

        headline = job.spec.outcomes[0].name
        scores, stopped = until.play_until(job.windows, policies, headline, play)
        job = replace(job, windows=job.windows[: stopped.looks[-1].windows])
    else:
        if not isinstance(workers, int):
            _play_elsewhere(job, policies, workers, progress)
            progress = None
        scores = _all_scores(job, policies, progress)
    write_atomically(out / SCORES, table_writer(scores))
    found = (*caveats_of(plan), *until.caveats_of(stopped), *_caveats(job, policies, scores))
    records = described(sessions, [record for p in policies for record in p.trained])
    write_json(
        out / EVALUATION,
        {
            **_describe(job, policies, split, command, scores),
            **_stretches(job),
            **_loads(job),
            **({} if seen is None else {"looks": seen}),
            **({} if plan is None else {"plan": dict(plan)}),
            **({} if stopped is None else {"until": stopped.as_table()}),
            "caveats": cv.to_json(found),
            "provenance": records,
        },
    )
    remove_folder(out / EVALUATING)
    headline = job.spec.outcomes[0].name
    means = (
        scores.filter(pl.col("metric") == headline)
        .group_by("policy", maintain_order=True)
        .agg(pl.col("value").mean())
    )
    return EvaluateResult(out, scores.height, dict(means.rows()), found, stopped)


@dataclass(frozen=True)
class Job:
    """Problem and windows that policies are scored on, and the folder for their scores."""

    recipe: Recipe
    scenario: Scenario
    workload: Workload
    windows: list[int]
    seeds: int
    out: Path
    workers: int
    part: str = ""  # of a job that plays some of the windows: ends the names of its files

    @cached_property
    def spec(self) -> Spec:
        """Spec of the problem."""
        return self.scenario.spec(self.recipe.config, self.recipe.objective)

    def instance(self, window: int) -> Instance:
        """Return the problem instance of a window."""
        return make_instance(self.recipe, self.scenario, self.workload, window)

    def seen_by(self, behaviour: Behaviour) -> "Job":
        """Return the same problem with the added columns that a policy reads, see Scenario."""
        config = config_for(self.scenario, self.recipe.config, behaviour.policy)
        if config == self.recipe.config:
            return self
        return replace(self, recipe=replace(self.recipe, config=config))


def make_job(
    recipe: Recipe, split: str, out: Path, seeds: int | None = None, workers: int = 1
) -> Job:
    """Return the job of an evaluation; raise RecipeError for windows that do not exist."""
    windows, workload = recipe.windows(split), load_source(recipe)
    scenario = load_scenario(recipe.scenario)
    known = scenario.windows(recipe.config, workload)
    if windows[-1] >= known:
        raise RecipeError(
            f"{recipe.id}: split {split} names window {windows[-1]}, but the workload has {known}"
        )
    return Job(recipe, scenario, workload, windows, seeds or recipe.evaluate.seeds, out, workers)


def _play_elsewhere(
    job: Job,
    policies: Sequence[Entrant],
    elsewhere: Elsewhere,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Have the runs that are not finished played by other processes."""
    there = {path.name for path in (job.out / EVALUATING).iterdir()}
    left, done = list[Item](), 0
    for number, policy in enumerate(policies):
        items = [(number, start) for start in _starts(job, policy)]
        if _path(job, policy).name not in there:
            left += [i for i in items if _path(job, policy, i[1]).name not in there]
        done += len(items)
    total, done = done, done - len(left)

    def tell(items: Sequence[Item]) -> None:
        nonlocal done
        done += len(items)
        if progress is not None:
            progress(done * len(job.windows) * len(policies) // total,
                     len(job.windows) * len(policies))  # fmt: skip

    tell([])
    if left:
        elsewhere(left, tell)


def claim_of(recipe: Recipe, policies: Sequence[Entrant]) -> str:
    """Return a digest of what is played, which has to be the same in all processes."""
    return sha256_text("\n".join([recipe.digest, *map(_identity, policies)]))


def play_item(job: Job, policy: Entrant, start: int) -> None:
    """Write the scores of the runs of a policy from `start` on, unless they are there.

    Raises DatasetError if the folder holds no unfinished evaluation.
    """
    if not (job.out / EVALUATING / _PLAN).exists():
        raise DatasetError(
            f"{job.out / EVALUATING}: no such folder on {socket.gethostname()}; the workers need "
            "the same folder under the same path, or the URL of a store as --out"
        )
    path = _path(job, policy, start)
    if not path.exists():
        runs = _runs(job, policy)[start : start + _size(policy)]
        write_atomically(path, table_writer(_frame(job, policy, runs, lambda _done, _all: None)))


def _size(policy: Entrant) -> int:
    if isinstance(policy.behaviour.policy, Heuristic):
        return _RULE_RUNS
    return _PLANNER_RUNS if isinstance(policy.behaviour.policy, Planner) else BATCH


def _starts(job: Job, policy: Entrant) -> range:
    return range(0, len(_runs(job, policy)), _size(policy))


def _runs(job: Job, policy: Entrant) -> list[tuple[int, int]]:
    """Return (window, seed) of all runs of a policy."""
    seeds = job.seeds if policy.behaviour.stochastic else 1
    return [(window, seed) for seed in range(seeds) for window in job.windows]


def _identity(policy: Entrant) -> str:
    behaviour = policy.behaviour
    return f"{behaviour.name}|{behaviour.epsilon}|{behaviour.temperature}|{policy.digest}"


def _path(job: Job, policy: Entrant, start: int | None = None) -> Path:
    """Return the file of the scores of a policy, or of its runs from `start` on."""
    part = job.part if start is None else f"{job.part}-{start:07d}"
    return job.out / EVALUATING / f"{sha256_text(_identity(policy))[:16]}{part}.parquet"


def _begin(job: Job, split: str) -> list[Record]:
    """Make the folder and return the sessions of the evaluation, of which this is the last.

    Raises InputError where the folder holds something other than this evaluation.
    """
    out = job.out
    if out.exists() and not out.is_dir():
        raise StorageError(f"{out}: is a file, expected a folder")
    ours = {EVALUATION, SCORES, EVALUATING, JOBS}
    there = sorted(p.name for p in out.iterdir()) if out.is_dir() else []
    if foreign := [name for name in there if name not in ours and not is_partial(name)]:
        raise StorageError(
            f"{out}: holds {foreign[0]!r}, which is no file of an evaluation; choose another"
        )
    claim = {
        "digest": job.recipe.digest, "split": split, "seeds": job.seeds, "versions": versions(),
    }  # fmt: skip
    make_folder(out)
    if (out / EVALUATING).is_symlink():
        raise DatasetError(f"{out / EVALUATING}: is a symbolic link, which is not followed")
    plan = make_folder(out / EVALUATING) / _PLAN
    remove_partials(out)
    remove_partials(plan.parent)
    before: list[Record] = []
    if plan.exists():
        begun = read_json(plan)
        before = as_records(begun.pop(_SESSIONS, []), str(plan)) if isinstance(begun, dict) else []
        if begun != claim:
            raise DatasetError(
                f"{out}: holds an unfinished evaluation of another recipe, split or number of "
                "seeds; delete it or choose another --out"
            )
    sessions = joined(before, provenance())
    write_json(plan, {**claim, _SESSIONS: sessions})
    return sessions


def _all_scores(
    job: Job, policies: Sequence[Entrant], progress: Callable[[int, int], None] | None = None
) -> pl.DataFrame:
    """Return the rows of all policies."""
    frames, count = [], len(job.windows)
    for done, policy in enumerate(policies):

        def tell(finished: int, runs: int, done: int = done) -> None:
            """Report finished runs of one policy as windows of all policies."""
            if progress is not None:
                progress(done * count + finished * count // runs, len(policies) * count)

        tell(0, 1)
        frames.append(_scores(job, policy, tell))
    return pl.concat(frames)


def _scores(job: Job, policy: Entrant, progress: Callable[[int, int], None]) -> pl.DataFrame:
    """Return the rows of one policy, read from an earlier call if that call finished it."""
    path = _path(job, policy)
    if path.exists():
        return _finished(path)
    pieces = [_path(job, policy, start) for start in _starts(job, policy)]
    if all(piece.exists() for piece in pieces):
        frame = pl.concat([_finished(piece) for piece in pieces]).rechunk()
    else:
        frame = _frame(job, policy, _runs(job, policy), progress)
    write_atomically(path, table_writer(frame))
    return frame


def _frame(
    job: Job,
    policy: Entrant,
    runs: list[tuple[int, int]],
    progress: Callable[[int, int], None],
) -> pl.DataFrame:
    """Play runs of a policy and return their rows."""
    behaviour = policy.behaviour
    rows = [
        (behaviour.name, job.scenario.name, window, seed, metric, value)
        for (window, seed), episode in zip(runs, _play(job, behaviour, runs, progress), strict=True)
        for window, metric, value in _values(job, window, episode)
    ]
    return pl.DataFrame(rows, schema=dict(_COLUMNS), orient="row")


def _finished(path: Path) -> pl.DataFrame:
    """Read the rows of a policy that an earlier call finished; DatasetError if it cannot."""
    try:
        frame = read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DatasetError(
            f"{path}: cannot be read as Parquet ({error}); delete it and try again"
        ) from error
    if dict(frame.schema) != dict(_COLUMNS):
        raise DatasetError(f"{path}: does not have the columns of scores; delete it and try again")
    return frame


def _play(
    job: Job,
    behaviour: Behaviour,
    runs: list[tuple[int, int]],
    progress: Callable[[int, int], None],
) -> list[Episode]:
    """Run every (window, seed): compiled episodes in threads, others BATCH at a time."""
    job = job.seen_by(behaviour)

    def rng(window: int, seed: int) -> np.random.Generator:
        return generator(job.recipe.seed, f"evaluate {behaviour.name}", window, seed)

    def play(run: tuple[int, int]) -> Episode:
        try:
            return run_episode(job.scenario, job.spec, job.instance(run[0]), behaviour, rng(*run))
        except PolicyFault as fault:
            raise PolicyFault(f"{fault} of window {run[0]}") from fault

    found: list[Episode] = []
    if plays_episodes(behaviour):
        with ThreadPoolExecutor(job.workers) as pool:
            try:
                for episode in pool.map(play, runs):
                    found.append(episode)
                    progress(len(found), len(runs))
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return found
    for start in range(0, len(runs), BATCH):
        chunk = runs[start : start + BATCH]

        def tell(finished: int, _total: int, start: int = start) -> None:
            progress(start + finished, len(runs))

        instances, rngs = [job.instance(window) for window, _ in chunk], [rng(*r) for r in chunk]
        try:
            found += run_batched(job.scenario, job.spec, instances, behaviour, rngs, tell)
        except PolicyFault as fault:
            raise PolicyFault(f"{fault} of window {chunk[fault.place][0]}") from fault
    return found


def _values(job: Job, window: int, episode: Episode) -> Iterator[tuple[int, str, float]]:
    """Yield (window, metric, value) of an episode.

    If the evaluation has a single window, an outcome with blocks has a value for each of them, and
    their numbers stand in place of the window's.
    """
    blocks = episode.blocks if len(job.windows) == 1 else {}
    for metric, value in _metrics(job.spec, episode).items():
        if metric in blocks:
            yield from ((number, metric, float(of)) for number, of in enumerate(blocks[metric]))
        else:
            yield window, metric, value


def _metrics(spec: Spec, episode: Episode) -> dict[str, float]:
    outcomes = zip(spec.outcomes, episode.outcomes, strict=True)
    return {
        **{o.name: float(value) for o, value in outcomes},
        "return": episode.total,
        "decisions": float(episode.steps),
        "truncated": float(episode.truncated),
    }


def _caveats(job: Job, policies: Sequence[Entrant], scores: pl.DataFrame) -> tuple[cv.Caveat, ...]:
    """Return the caveats of the trace, and those that the scores of the policies show."""
    headline = job.spec.outcomes[0]
    rules = [p.behaviour.name for p in policies if p.kind == "heuristic"]
    table = scores.filter(
        (pl.col("metric") == headline.name) & (pl.col("seed") == 0) & pl.col("policy").is_in(rules)
    )
    values = table["value"].to_numpy().reshape(max(len(rules), 1), -1)
    means = scores.group_by("policy", "metric", maintain_order=True).agg(pl.col("value").mean())
    outcomes: dict[str, dict[str, float]] = {}
    for name, metric, mean in means.iter_rows():
        outcomes.setdefault(name, {})[metric] = mean
    of_trace = trace_caveats(job.recipe, job.scenario, job.workload, job.recipe.windows("all"))
    facts: tuple[cv.Caveat, ...] = ()
    if job.recipe.scenario == "queue":
        config = job.recipe.config
        facts = log_caveats(job.workload, pools=bool(config.pools), resources=config.resources[1:])
    codes = {caveat.code for caveat in of_trace}
    return (
        *of_trace,
        *cv.ties(values, higher=headline.better == "higher"),
        *cv.unfinished(list(outcomes.items())),
        *(fact for fact in facts if fact.code not in codes),
    )


def _stretches(job: Job) -> dict[str, Any]:
    """Return the jobs of the log that each window counts, if windows share any."""
    found = job.scenario.shared_stretches(job.recipe.config, job.windows)
    if found is None:
        return {}
    return {"stretches": {str(w): [*s] for w, s in zip(job.windows, found, strict=True)}}


def _loads(job: Job) -> dict[str, Any]:
    """Return the offered load of each window, where the scenario knows it."""
    load = job.scenario.load
    if load is None or len(job.windows) < 2:
        return {}
    found = {w: load(job.recipe.config, job.workload, w) for w in job.windows}
    return {"loads": {str(w): value for w, value in found.items() if math.isfinite(value)}}


def _description(behaviour: Behaviour) -> str:
    """Return what a policy chooses; empty for policies that do not say it, such as networks."""
    return str(getattr(behaviour.policy, "description", ""))


def _exploration_of(behaviour: Behaviour) -> dict[str, float]:
    """Return the epsilon and the temperature of a behaviour by name, if they are not 0."""
    found = {"epsilon": behaviour.epsilon, "temperature": behaviour.temperature}
    return {name: value for name, value in found.items() if value}


def _describe(
    job: Job, policies: Sequence[Entrant], split: str, command: str, scores: pl.DataFrame
) -> dict[str, Any]:
    """Return what evaluation.json says of the scores of policies on a split."""
    spec = job.spec
    names = {p.behaviour.name for p in policies}
    references = dict.fromkeys((*job.recipe.evaluate.references, *job.scenario.references))
    notes = [f"Policies that draw were run {job.seeds} times on every window."]
    headline = scores.filter(pl.col("metric") == spec.outcomes[0].name)
    if blocks := headline["window"].n_unique() > len(job.windows):
        notes.append(
            f"{spec.outcomes[0].name} is of one long episode. Its windows are blocks of that "
            "episode, such as weeks, whose mean is the outcome."
        )
    return {
        "recipe": job.recipe.id,
        "digest": job.recipe.digest,
        "settings": job.recipe.to_dict(),
        "scenario": job.scenario.name,
        "objective": job.recipe.objective,
        "split": split,
        "windows": len(job.windows),
        "headline": spec.outcomes[0].name,
        "metrics": [
            {"name": o.name, "unit": o.unit, "better": o.better, "description": o.description}
            for o in (*spec.outcomes, *COMMON)
        ],
        "bound": None if blocks else job.scenario.bound,
        "bound_kind": None if blocks else job.scenario.bound_kind,
        "policies": [
            {
                "name": p.behaviour.name,
                "kind": p.kind,
                "group": p.group,
                "checkpoint": p.checkpoint,
                "digest": p.digest,
                **_exploration_of(p.behaviour),
                **({"trained": list(map(key_of, p.trained))} if p.kind == "learned" else {}),
                **({"learned_from": p.learned_from} if p.learned_from else {}),
                **({"delivered": p.delivered} if p.delivered else {}),
                **({} if p.episodes is None else {"episodes": p.episodes}),
                **({} if p.code is None else {"code": p.code}),
                **({"word": p.word} if p.word not in {"", p.behaviour.name} else {}),
                **({"description": text} if (text := _description(p.behaviour)) else {}),
            }
            for p in policies
        ],
        "references": [name for name in references if name in names],
        "command": command,
        "versions": versions(),
        "notes": notes,
    }
