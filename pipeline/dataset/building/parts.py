"""Recording the episodes of a plan, part by part, in any order.

OUT/data/part-NNNNN.parquet         the decisions of a part
OUT/.building/plan.json             digest of the recipe and package versions
OUT/.building/part-NNNNN.parquet    the episodes of a finished part
OUT/.building/part-NNNNN.json       its file entry, written last: it marks the part as finished
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Final

import polars as pl

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.append_history import Taken
from hindcast.pipeline.dataset.building.part_writer import PartWriter
from hindcast.pipeline.dataset.building.recorder import Log, Recording, make_log
from hindcast.pipeline.dataset.columns import episodes_schema
from hindcast.pipeline.errors import DatasetError, PolicyFault, RecipeError
from hindcast.pipeline.recipes.checkpoints import FOLDER as POLICIES
from hindcast.pipeline.recipes.checkpoints import copy_policies
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.players import episode_runner
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import decision_values
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage import files
from hindcast.pipeline.storage.run_files import BUILDING
from hindcast.pipeline.workloads.schema import Workload

Progress = Callable[[int, int], None]
# elsewhere(plan, parts, tell) has these parts of a plan recorded by other processes, in any order,
# and calls tell(n) whenever n more of them are finished.
Elsewhere = Callable[["Plan", Sequence[int], Callable[[int], None]], None]

DATA: Final = "data"
PLAN: Final = "plan.json"
EPISODES_PER_PART: Final = 24  # at least this many; a part holds whole windows
LOG_ROWS: Final = 40_000
LOG_CANDIDATES: Final = 1_500_000
_READERS: Final = 16  # small files read at a time; a store answers after a while
GROUP_ROWS: Final = 20_000  # a row group is closed at the first episode end after so many rows


@dataclass(frozen=True)
class Plan:
    """The plan of a build: which windows of which split go into each part.

    `first_part`, `first_episode` and `taken` are zero or empty except when appending to an existing
    dataset.
    """

    recipe: Recipe
    scenario: Scenario
    spec: Spec
    workload: Workload
    behaviours: Mapping[str, Behaviour]
    parts: tuple[tuple[tuple[str, int], ...], ...]  # (split, window) of every part
    out: Path
    first_part: int = 0
    first_episode: int = 0
    taken: Taken = field(default_factory=dict)

    def part_path(self, part: int) -> Path:
        """Return the file of a part, counted from the first of the plan."""
        return self.out / DATA / f"part-{self.first_part + part:05d}.parquet"


def make_plan(
    recipe: Recipe, behaviours: Mapping[str, Behaviour], workload: Workload, out: Path
) -> Plan:
    """Return the parts of a recipe's dataset.

    Raises RecipeError if there are no windows, or if the workload does not have them.
    """
    scenario = load_scenario(recipe.scenario)
    windows = [(s, w) for s in recipe.dataset_splits for w in recipe.windows(s)]
    if not windows:
        raise RecipeError(
            f"{recipe.id}: dataset_splits is empty, so there is nothing to record; expected train "
            "or validation, and their windows in [split]"
        )
    last, known = max(w for _, w in windows), scenario.windows(recipe.config, workload)
    if last >= known:
        raise RecipeError(
            f"{recipe.id}: [split] names window {last}, but the workload has {known} windows, "
            "numbered from 0"
        )
    each = sum(b.episodes for b in recipe.behaviours)
    size = -(-EPISODES_PER_PART // each)
    # a part holds one split, so that loaders need no other file to find the split of its rows
    of_splits = [[w for w in windows if w[0] == split] for split in recipe.dataset_splits]
    parts = tuple(tuple(own[i : i + size]) for own in of_splits for i in range(0, len(own), size))
    spec = scenario.spec(recipe.config, recipe.objective)
    return Plan(recipe, scenario, spec, workload, behaviours, parts, out)


def claim_of(plan: Plan, append: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what must be equal for a build, or an append, to continue an interrupted one."""
    claim = {"digest": plan.recipe.digest, "versions": mf.versions()}
    return claim if append is None else {**claim, "append": append}


def begin(plan: Plan, append: Mapping[str, Any] | None = None) -> None:
    """Make the folders, or check that the interrupted build there has the same claim.

    `append` says where an append goes on. Raises DatasetError if a symbolic link leads out of the
    dataset.
    """
    for name in (BUILDING, DATA, mf.WORKLOAD, POLICIES):
        if (plan.out / name).is_symlink():
            raise DatasetError(
                f"{plan.out / name}: this is a symbolic link, but a dataset is written into its "
                "own folder; remove the link"
            )
    claim = claim_of(plan, append)
    files.make_folder(plan.out)
    building = files.make_folder(plan.out / BUILDING)
    files.make_folder(plan.out / DATA)
    record = building / PLAN
    if record.exists():
        if files.read_json(record) != claim:
            raise DatasetError(
                f"{plan.out}: this folder holds an interrupted build of another recipe or by other "
                "package versions; delete it or choose another --out"
            )
    else:
        files.write_json(record, claim)
    for folder in (plan.out, building, plan.out / DATA):
        files.remove_partials(folder)
    copy_policies(plan.recipe, plan.out)


def record_parts(
    plan: Plan, workers: int, progress: Progress | None, elsewhere: Elsewhere | None = None
) -> tuple[tuple[mf.FileEntry, ...], pl.DataFrame]:
    """Record the parts that are not finished yet, in threads of this process or `elsewhere`.

    Returns the files and the episodes of all parts of the plan.
    """
    there = {path.name for path in (plan.out / BUILDING).iterdir()}
    missing = [i for i in range(len(plan.parts)) if _entry_path(plan, i).name not in there]
    done = len(plan.parts) - len(missing)
    tell = progress or (lambda _done, _total: None)
    tell(done, len(plan.parts))
    if elsewhere is not None:

        def count(finished: int) -> None:
            nonlocal done
            done += finished
            tell(done, len(plan.parts))

        if missing:
            elsewhere(plan, missing, count)
        for folder in (plan.out / BUILDING, plan.out / DATA):
            files.remove_partials(folder)  # of processes that were killed meanwhile
    else:
        _record_here(plan, missing, workers, lambda more: tell(done + more, len(plan.parts)))
    return _recorded(plan)


def _record_here(
    plan: Plan, missing: Sequence[int], workers: int, tell: Callable[[int], None]
) -> None:
    """Record parts in threads of this process; `tell` is called with the number of finished ones.

    Of several parts that failed, the error of the first one is raised.
    """
    done = 0
    stop = Event()
    with ThreadPoolExecutor(workers) as pool:
        part_of = {pool.submit(_record_part, plan, i, stop): i for i in missing}
        waiting = set(part_of)
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=1.0, return_when=FIRST_EXCEPTION)
                for future in sorted(finished, key=part_of.__getitem__):
                    future.result()
                    done += 1
                tell(done)
        except BaseException:
            stop.set()  # a part may have millions of episodes
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _entry_path(plan: Plan, part: int) -> Path:
    return plan.out / BUILDING / f"{plan.part_path(part).stem}.json"


def _episodes_path(plan: Plan, part: int) -> Path:
    return plan.out / BUILDING / plan.part_path(part).name


def record_part(plan: Plan, part: int) -> mf.FileEntry:
    """Return the entry of a part, which is recorded unless it is there with the right digest."""
    with suppress(DatasetError, FileNotFoundError):
        entry = _recorded_entry(plan, part)
        if (
            files.sha256_file(plan.part_path(part)) == entry.sha256
            and _episodes_path(plan, part).exists()
        ):
            return entry
    return _record_part(plan, part, Event())


def _record_part(plan: Plan, part: int, stop: Event) -> mf.FileEntry:
    """Record one part; its entry is written last and marks the part as finished.

    Raises CancelledError between two episodes once `stop` is set.
    """
    path = plan.part_path(part)
    rows: list[dict[str, Any]] = []
    stored = files.write_atomically(path, partial(_write_part, plan, part, rows, stop))
    episodes = pl.DataFrame(rows, schema=episodes_schema(plan.spec))
    files.write_parquet(_episodes_path(plan, part), episodes)
    entry = mf.FileEntry(
        path=f"{DATA}/{path.name}",
        rows=int(episodes["steps"].sum()) + episodes.height,
        bytes=stored.bytes,
        sha256=stored.sha256,
    )
    files.write_json(_entry_path(plan, part), asdict(entry))
    return entry


def _write_part(plan: Plan, part: int, rows: list[dict[str, Any]], stop: Event, path: Path) -> None:
    """Write the decisions of a part to `path`, and add the rows of its episodes to `rows`.

    Raises CancelledError between two episodes once `stop` is set.
    """
    each = sum(b.episodes for b in plan.recipe.behaviours)
    episode = plan.first_episode + sum(len(windows) for windows in plan.parts[:part]) * each
    number = plan.first_part + part
    log: Log | None = None
    with closing(PartWriter(path, plan.spec)) as writer:
        for split, window in plan.parts[part]:
            instance = make_instance(plan.recipe, plan.scenario, plan.workload, window)
            room = max(LOG_CANDIDATES, 4 * instance.capacity)
            if log is None or room > len(log.feasible):
                if log is not None and log.rows:
                    writer.write(log)
                log = make_log(plan.spec, LOG_ROWS, room)
            for behaviour in plan.recipe.behaviours:
                first = plan.taken.get((behaviour.name, window), 0)
                for repetition in range(first, first + behaviour.episodes):
                    if stop.is_set():
                        raise CancelledError
                    try:
                        row = _record_episode(
                            plan, instance, behaviour.name, window, repetition, episode, writer, log
                        )
                    except PolicyFault as fault:
                        raise PolicyFault(f"{fault} of window {window}") from fault
                    place = {"split": split, "first_part": number, "last_part": number}
                    rows.append({**place, **row})
                    episode += 1
        if log is not None and log.rows:
            writer.write(log)


def _record_episode(
    plan: Plan,
    instance: Instance,
    name: str,
    window: int,
    repetition: int,
    episode: int,
    writer: PartWriter,
    log: Log,
) -> dict[str, Any]:
    """Record an episode of a behaviour; return its row of the table of episodes."""
    behaviour, seed = plan.behaviours[name], plan.recipe.seed
    problem = (plan.scenario, plan.spec, instance)
    rng = generator(seed, name, window, repetition)
    if isinstance(behaviour.policy, Heuristic):
        again = generator(seed, name, window, repetition)
        played, values = None, decision_values(*problem, behaviour, again)
    else:
        played = episode_runner(*problem, behaviour).play(rng)
        values = played.values
    recording = Recording(*problem, behaviour, rng, episode, values, played)
    while not recording.go_on(log):
        writer.write(log)
        log.clear()
    if log.rows >= GROUP_ROWS:
        writer.write(log)
        log.clear()
    result = recording.episode()
    outcomes = zip(plan.spec.outcomes, result.outcomes, strict=True)
    return {
        "episode": episode,
        "behaviour": name,
        "seed": repetition,
        "window": window,
        "steps": result.steps,
        "return": result.total,
        "elapsed_s": result.elapsed_s,
        "truncated": result.truncated,
        **{o.name: float(value) for o, value in outcomes},
        "behaviour_parameters": recording.parameters.tolist(),
    }


def _recorded(plan: Plan) -> tuple[tuple[mf.FileEntry, ...], pl.DataFrame]:
    """Return the files and the episodes of all parts of a plan, once they are recorded."""

    def episodes(part: int) -> pl.DataFrame:
        return files.read_parquet(_episodes_path(plan, part))

    parts = range(len(plan.parts))
    with ThreadPoolExecutor(_READERS) as pool:
        entries = tuple(pool.map(partial(_recorded_entry, plan), parts))
        return entries, pl.concat(pool.map(episodes, parts))


def _recorded_entry(plan: Plan, part: int) -> mf.FileEntry:
    """Return the entry of a finished part; raise DatasetError if it does not match the file."""
    path = _entry_path(plan, part)
    try:
        entry = mf.file_entry(files.read_json(path))
    except (TypeError, ValueError, RecipeError) as error:
        raise DatasetError(
            f"{path}: this file is damaged ({error}); delete {path.parent.parent} and build again"
        ) from error
    file = plan.part_path(part)
    if entry.path != f"{DATA}/{file.name}" or entry.bytes != file.stat().st_size:
        raise DatasetError(
            f"{path}: this file does not match {file}; delete {path.parent.parent} and build again"
        )
    return entry
