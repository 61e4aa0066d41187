"""Building a dataset: every behaviour on every window, recorded, in parts that can be resumed.

    OUT/
      data/part-00000.parquet ...   decisions; a part holds whole windows
      episodes.parquet              one row per episode
      workload/                     the canonical workload, so that `verify` needs nothing else
      README.md                     the card
      manifest.json                 written last: with it the dataset is whole
      .building/                    while it is not: the plan, and per finished part its episodes

What a part holds follows from the recipe alone, so any number of workers, and any interruption,
end in the same bytes.
"""

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import polars as pl

from pipeline import manifest as mf
from pipeline.card import write_card
from pipeline.errors import DatasetError, HindcastError, RecipeError, StorageError
from pipeline.ingest import save_workload
from pipeline.parts import PartWriter
from pipeline.policy import Behaviour
from pipeline.recipe import Recipe
from pipeline.record import Log, Recording, make_log
from pipeline.rollout import decision_values
from pipeline.scenario import Instance, Scenario, load_scenario
from pipeline.schema import Spec
from pipeline.seeds import generator
from pipeline.source import load_source
from pipeline.storage import (
    make_folder,
    read_json,
    remove_partials,
    sha256_file,
    write_atomically,
    write_json,
)
from pipeline.workload import Workload

Progress = Callable[[int, int], None]

DATA: Final = "data"
BUILDING: Final = ".building"
EPISODES_PER_PART: Final = 24  # at least; a part holds whole windows
LOG_ROWS: Final = 40_000
LOG_CANDIDATES: Final = 1_500_000
GROUP_ROWS: Final = 20_000  # a row group is closed at the first episode end after so many rows


@dataclass(frozen=True)
class BuildResult:
    """What a build made, or found made before."""

    folder: Path
    episodes: int
    decisions: int
    bytes: int
    digest: str


@dataclass(frozen=True)
class _Plan:
    recipe: Recipe
    scenario: Scenario
    spec: Spec
    workload: Workload
    behaviours: Mapping[str, Behaviour]
    parts: tuple[tuple[tuple[str, int], ...], ...]  # (split, window) of every part
    out: Path


def build(
    recipe: Recipe,
    behaviours: Mapping[str, Behaviour],
    out: Path,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> BuildResult:
    """Build the recipe's dataset in `out`, or finish what an earlier call began there.

    `behaviours` maps the names of recipe.behaviours to policies. Raises InputError where the
    folder holds something else, the trace cannot be read or the disk is full; what is finished
    stays and the next call goes on from there.
    """
    if not recipe.behaviours:
        raise RecipeError(f"{recipe.id}: no [[behaviours]], so there is nothing to record")
    if workers < 1:
        raise RecipeError(f"workers is {workers}, expected at least 1")
    if (out / mf.NAME).exists():
        return _already_built(recipe, out)
    _refuse_foreign(out)
    workload = load_source(recipe)
    plan = _make_plan(recipe, behaviours, workload, out)
    _begin(plan)
    _record_parts(plan, workers, progress)
    return _finish(plan)


def _already_built(recipe: Recipe, out: Path) -> BuildResult:
    manifest = mf.read_manifest(out)
    if manifest.digest != recipe.digest:
        raise DatasetError(
            f"{out}: holds the dataset {manifest.recipe.id} with digest {manifest.digest[:12]}, "
            f"but this recipe has {recipe.digest[:12]}; choose another --out"
        )
    shutil.rmtree(out / BUILDING, ignore_errors=True)
    return _result(out, manifest)


def _result(out: Path, manifest: mf.Manifest) -> BuildResult:
    size = manifest.episodes.bytes + sum(p.bytes for p in manifest.parts)
    counts = manifest.counts
    return BuildResult(out, counts["episodes"], counts["decisions"], size, manifest.digest)


def _refuse_foreign(out: Path) -> None:
    """StorageError where `out` holds anything but an interrupted build."""
    if out.exists() and not out.is_dir():
        raise StorageError(f"{out}: is a file, expected a folder")
    if out.is_dir() and any(out.iterdir()) and not (out / BUILDING).is_dir():
        raise StorageError(
            f"{out}: is not empty and holds no interrupted build; choose another --out"
        )


def _make_plan(
    recipe: Recipe, behaviours: Mapping[str, Behaviour], workload: Workload, out: Path
) -> _Plan:
    scenario = load_scenario(recipe.scenario)
    windows = [(s, w) for s in recipe.dataset_splits for w in recipe.windows(s)]
    last, known = max(w for _, w in windows), scenario.windows(recipe.config, workload)
    if last >= known:
        raise RecipeError(f"{recipe.id}: split names window {last}, the workload has {known}")
    each = sum(b.episodes for b in recipe.behaviours)
    size = -(-EPISODES_PER_PART // each)
    parts = tuple(tuple(windows[i : i + size]) for i in range(0, len(windows), size))
    spec = scenario.spec(recipe.config, recipe.objective)
    return _Plan(recipe, scenario, spec, workload, behaviours, parts, out)


def _begin(plan: _Plan) -> None:
    """Make the folders, or check that the interrupted build is of this very recipe."""
    make_folder(plan.out)
    building = make_folder(plan.out / BUILDING)
    make_folder(plan.out / DATA)
    record = building / "plan.json"
    claim = {"digest": plan.recipe.digest, "versions": mf.versions()}
    if record.exists():
        if read_json(record) != claim:
            raise DatasetError(
                f"{plan.out}: holds an interrupted build of another recipe or by other package "
                "versions; delete it or choose another --out"
            )
    else:
        write_json(record, claim)
    for folder in (plan.out, building, plan.out / DATA):
        remove_partials(folder)
    if not (plan.out / mf.WORKLOAD / mf.NAME).exists():
        save_workload(plan.workload, plan.out / mf.WORKLOAD)


def _record_parts(plan: _Plan, workers: int, progress: Progress | None) -> None:
    missing = [i for i in range(len(plan.parts)) if not _entry_path(plan, i).exists()]
    done = len(plan.parts) - len(missing)
    tell = progress or (lambda _done, _total: None)
    tell(done, len(plan.parts))
    with ThreadPoolExecutor(workers) as pool:
        waiting = {pool.submit(_record_part, plan, i) for i in missing}
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=1.0, return_when=FIRST_EXCEPTION)
                for future in finished:
                    future.result()
                    done += 1
                tell(done, len(plan.parts))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _entry_path(plan: _Plan, part: int) -> Path:
    return plan.out / BUILDING / f"part-{part:05d}.json"


def _episodes_path(plan: _Plan, part: int) -> Path:
    return plan.out / BUILDING / f"part-{part:05d}.parquet"


def _record_part(plan: _Plan, part: int) -> None:
    """Record one part; its entry is written last and says that the part is whole."""
    path = plan.out / DATA / f"part-{part:05d}.parquet"
    rows: list[dict[str, Any]] = []
    write_atomically(path, partial(_write_part, plan, part, rows))
    episodes = pl.DataFrame(rows, schema=episodes_schema(plan.spec))
    write_atomically(
        _episodes_path(plan, part),
        partial(episodes.write_parquet, compression="zstd", compression_level=3),
    )
    entry = mf.FileEntry(
        path=f"{DATA}/{path.name}",
        rows=int(episodes["steps"].sum()) + episodes.height,
        bytes=path.stat().st_size,
        sha256=sha256_file(path),
    )
    write_json(_entry_path(plan, part), asdict(entry))


def _write_part(plan: _Plan, part: int, rows: list[dict[str, Any]], path: Path) -> None:
    each = sum(b.episodes for b in plan.recipe.behaviours)
    episode = sum(len(windows) for windows in plan.parts[:part]) * each
    writer = PartWriter(path, plan.spec)
    log: Log | None = None
    try:
        for split, window in plan.parts[part]:
            instance = make_instance(plan.recipe, plan.scenario, plan.workload, window)
            room = max(LOG_CANDIDATES, 4 * instance.capacity)
            if log is None or room > len(log.feasible):
                if log is not None and log.rows:
                    writer.write(log)
                log = make_log(plan.spec, LOG_ROWS, room)
            for behaviour in plan.recipe.behaviours:
                for repetition in range(behaviour.episodes):
                    row = _record_episode(
                        plan, instance, behaviour.name, window, repetition, episode, writer, log
                    )
                    rows.append({"split": split, "first_part": part, "last_part": part, **row})
                    episode += 1
        if log is not None and log.rows:
            writer.write(log)
    finally:
        writer.close()


def _record_episode(
    plan: _Plan,
    instance: Instance,
    name: str,
    window: int,
    repetition: int,
    episode: int,
    writer: PartWriter,
    log: Log,
) -> dict[str, Any]:
    behaviour, seed = plan.behaviours[name], plan.recipe.seed
    values = decision_values(
        plan.scenario, plan.spec, instance, behaviour, generator(seed, name, window, repetition)
    )
    rng = generator(seed, name, window, repetition)
    recording = Recording(plan.scenario, plan.spec, instance, behaviour, rng, episode, values)
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


def make_instance(recipe: Recipe, scenario: Scenario, workload: Workload, window: int) -> Instance:
    """The problem instance of a window: the same for every policy that meets it."""
    rng = generator(recipe.seed, "instance", window)
    return scenario.instance(recipe.config, recipe.objective, workload, window, rng)


def episodes_schema(spec: Spec) -> dict[str, pl.DataType]:
    """Columns of episodes.parquet: what it was, what it came to, where it is."""
    return {
        "episode": pl.Int64(),
        "split": pl.String(),
        "behaviour": pl.String(),
        "seed": pl.Int64(),
        "window": pl.Int64(),
        "steps": pl.Int64(),
        "return": pl.Float64(),
        "elapsed_s": pl.Float64(),
        "truncated": pl.Boolean(),
        **{o.name: pl.Float64() for o in spec.outcomes},
        "behaviour_parameters": pl.List(pl.Float64()),
        "first_part": pl.Int64(),
        "last_part": pl.Int64(),
    }


def _finish(plan: _Plan) -> BuildResult:
    """Put the episodes together, write card and manifest, and forget the plan."""
    n = len(plan.parts)
    episodes = pl.concat([pl.read_parquet(_episodes_path(plan, i)) for i in range(n)])
    path = plan.out / mf.EPISODES
    write_atomically(path, partial(episodes.write_parquet, compression="zstd", compression_level=3))
    parts = tuple(mf.FileEntry(**read_json(_entry_path(plan, i))) for i in range(n))
    manifest = mf.Manifest(
        recipe=plan.recipe,
        digest=plan.recipe.digest,
        spec=plan.spec,
        parts=parts,
        episodes=mf.FileEntry(mf.EPISODES, episodes.height, path.stat().st_size, sha256_file(path)),
        workload_sha256=sha256_file(plan.out / mf.WORKLOAD / mf.NAME),
        provenance=asdict(plan.workload.provenance),
        counts={
            "episodes": episodes.height,
            "decisions": int(episodes["steps"].sum()),
            "rows": sum(p.rows for p in parts),
            "windows": episodes["window"].n_unique(),
            "truncated_episodes": int(episodes["truncated"].sum()),
        },
        versions=mf.versions(),
    )
    if manifest.counts["rows"] != manifest.counts["decisions"] + episodes.height:
        raise HindcastError(f"{plan.out}: rows do not add up; this is a defect of the builder")
    write_card(plan.out, manifest, episodes)
    write_json(plan.out / mf.NAME, mf.to_json(manifest))
    shutil.rmtree(plan.out / BUILDING, ignore_errors=True)
    return _result(plan.out, manifest)
