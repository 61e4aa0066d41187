"""Building a dataset: every behaviour is recorded on every window, in parts.

    OUT/
      data/part-00000.parquet ...   decisions; a part holds whole windows of one split
      episodes.parquet              one row per episode
      workload/                     the canonical workload, so that `verify` needs nothing else
      README.md                     the card
      manifest.json                 written last: a folder with a manifest is a finished dataset
      .building/                    until then: the plan, and the episodes of every finished part

The content of a part follows from the recipe alone, so any number of workers and any interruption
give the same bytes.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.building import parts as recording
from hindcast.pipeline.dataset.building.caveats import with_caveats
from hindcast.pipeline.dataset.building.results import (
    BuildResult,
    counts_of,
    describe,
    result_of,
    write_episodes,
)
from hindcast.pipeline.errors import DatasetError, RecipeError, StorageError
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.storage import files
from hindcast.pipeline.storage.location import is_remote
from hindcast.pipeline.storage.locks import one_writer
from hindcast.pipeline.storage.run_files import BUILDING
from hindcast.pipeline.workloads.folder import is_saved, save_workload


@one_writer
def build(
    recipe: Recipe,
    behaviours: Mapping[str, Behaviour],
    out: Path,
    *,
    workers: int = 1,
    progress: recording.Progress | None = None,
    elsewhere: recording.Elsewhere | None = None,
) -> BuildResult:
    """Build the recipe's dataset in `out`, or finish what an earlier call began there.

    `behaviours` maps the names of recipe.behaviours to policies. Raises InputError if the folder
    holds something else, the trace cannot be read or the disk is full. With `elsewhere`, other
    processes record the parts, and `workers` is not used. Finished parts are kept, and
    the next call continues after them. A call at the same time waits for the first to end.
    """
    _check(recipe, workers)
    if (out / mf.NAME).exists():
        return _already_built(recipe, out)
    _refuse_foreign(out)
    if is_remote(out):
        files.make_folder(out)  # before the workload takes its time
    plan = recording.make_plan(recipe, behaviours, load_source(recipe), out)
    recording.begin(plan)
    if not (out / mf.WORKLOAD / mf.NAME).exists():
        save_workload(plan.workload, out / mf.WORKLOAD)
    elif not is_saved(plan.workload, out / mf.WORKLOAD):
        raise DatasetError(
            f"{out}: this folder holds an interrupted build, but the trace was changed since: it "
            "gives another workload; restore the trace, or delete the folder and build again"
        )
    parts, episodes = recording.record_parts(plan, workers, progress, elsewhere)
    manifest = mf.Manifest(
        recipe=recipe,
        digest=recipe.digest,
        spec=plan.spec,
        parts=parts,
        episodes=write_episodes(out, mf.EPISODES, episodes),
        workload_sha256=files.sha256_file(out / mf.WORKLOAD / mf.NAME),
        provenance=asdict(plan.workload.provenance),
        counts=counts_of(parts, episodes, plan.spec),
        versions=mf.versions(),
    )
    manifest, coverage = with_caveats(plan, manifest, episodes)
    result = result_of(out, manifest)
    describe(out, manifest, plan.scenario, episodes, coverage)
    files.write_json(out / mf.NAME, mf.to_json(manifest))
    files.remove_folder(out / BUILDING)
    return result


def _check(recipe: Recipe, workers: int) -> None:
    """Raise RecipeError if a dataset cannot be built of this recipe by so many workers."""
    if not recipe.behaviours:
        raise RecipeError(
            f"{recipe.id}: this recipe has no [[behaviours]], so there is nothing to record"
        )
    if recipe.origin is not None and recipe.origin.made_of_others:
        raise RecipeError(
            f"{recipe.origin.folder}: this dataset was made of others, so its recipe does not "
            "build it; `hindcast show` prints what does"
        )
    if workers < 1:
        raise RecipeError(f"workers is {workers}, expected at least 1")


def _already_built(recipe: Recipe, out: Path) -> BuildResult:
    """Return the result of an earlier build; raise DatasetError if it was of another recipe."""
    manifest = mf.read_manifest(out)
    if manifest.recipe.digest != recipe.digest:
        raise DatasetError(
            f"{out}: this folder holds the dataset {manifest.recipe.id} with digest "
            f"{manifest.recipe.digest[:12]}, but the recipe {recipe.id} has {recipe.digest[:12]}; "
            "choose another --out, or append to the dataset with --append"
        )
    if append_in_progress(out) is None:
        files.remove_folder(out / BUILDING)
    return result_of(out, manifest)


def append_in_progress(out: Path) -> dict[str, Any] | None:
    """Return the plan of an unfinished append to this dataset, or None."""
    record = out / BUILDING / recording.PLAN
    if not record.is_file():
        return None
    value = files.read_json(record)
    plan = value.get("append") if isinstance(value, dict) else None
    return plan if isinstance(plan, dict) else None


def _refuse_foreign(out: Path) -> None:
    """Raise StorageError if `out` holds anything but an interrupted build."""
    if out.exists() and not out.is_dir():
        raise StorageError(f"{out}: this is a file, expected a folder; choose another --out")
    there = [e.name for e in out.iterdir() if not files.is_partial(e.name)] if out.is_dir() else []
    if there and BUILDING not in there:
        raise StorageError(
            f"{out}: this folder is not empty and holds no interrupted build; choose another --out"
        )
