"""Appending: episodes are added to a finished dataset as new parts; the old parts stay.

    OUT/data/part-00007.parquet ...   the new parts, numbered after the old ones
    OUT/.building/plan.json           which parts are being added, so that `verify` accepts them
    OUT/episodes-00001.parquet        the episodes of all parts, old and new
    OUT/manifest.json                 replaced in one step, which turns the old dataset into the new
    OUT/README.md, croissant.json     written again; the older table of episodes is removed

Until the manifest is replaced, readers of the dataset see the old one, complete. The same command
given again finishes an append that was interrupted, at any point, and gives the same bytes. After
it has finished, the same command adds nothing: whoever was interrupted cannot know how far it came.

An append is identified by the digests of its recipe and of the dataset that it was given. `to`
names the latter; without it, a recipe that was appended before counts as done. So a recipe is
appended twice on purpose by naming the digest that the dataset has now; repetitions of a behaviour
on a window continue to count.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.append_history import check_fits, repetitions
from hindcast.pipeline.dataset.building import build, results
from hindcast.pipeline.dataset.building import parts as recording
from hindcast.pipeline.dataset.building.caveats import with_caveats
from hindcast.pipeline.dataset.building.parts import DATA, Plan
from hindcast.pipeline.dataset.documents.card.coverage import Coverage, measure
from hindcast.pipeline.errors import DatasetError, RecipeError
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.scenario import Scenario
from hindcast.pipeline.storage import files
from hindcast.pipeline.storage.location import is_remote
from hindcast.pipeline.storage.locks import writing
from hindcast.pipeline.storage.run_files import BUILDING
from hindcast.pipeline.workloads.folder import load_workload

_RANGE: Final = ("first_part", "parts")
_DIGEST: Final = re.compile(r"[0-9a-f]{8,64}")


def append(
    recipe: Recipe,
    behaviours: Mapping[str, Behaviour],
    out: Path,
    *,
    to: str = "",
    workers: int = 1,
    progress: recording.Progress | None = None,
    elsewhere: recording.Elsewhere | None = None,
) -> results.BuildResult:
    """Add the recipe's episodes to the dataset in `out`, or finish what an earlier call began.

    `to` is the digest of the dataset that is appended to, or its first digits, at least 8. Without
    it, nothing is added if the recipe was appended before, whatever the dataset was then.

    Raises DatasetError if `out` is not a finished dataset, has another digest than `to`, describes
    another problem than the recipe (hindcast.pipeline.dataset.append_history), or holds an
    interrupted append of another recipe.
    """
    if not recipe.behaviours:
        raise RecipeError(
            f"{recipe.id}: this recipe has no [[behaviours]], so there is nothing to append"
        )
    if workers < 1:
        raise RecipeError(f"workers is {workers}, expected at least 1")
    if to and not _DIGEST.fullmatch(to):
        raise DatasetError(
            f"{to!r} is not the digest of a dataset, expected 8 to 64 hexadecimal digits as "
            f"`hindcast show {out}` prints them"
        )
    # a folder that holds no dataset is not made, and not locked
    if mf.read_manifest(out).lineage is not None:
        raise DatasetError(
            f"{out}: this dataset was made of others; append to the one that was built, or build "
            "another one and merge them"
        )
    with writing(out):
        return _append(recipe, behaviours, out, to, workers, progress, elsewhere)


def _append(
    recipe: Recipe,
    behaviours: Mapping[str, Behaviour],
    out: Path,
    to: str,
    workers: int,
    progress: recording.Progress | None,
    elsewhere: recording.Elsewhere | None,
) -> results.BuildResult:
    """Append the episodes of a recipe, or finish an append that was interrupted."""
    manifest = mf.read_manifest(out)
    pending = build.append_in_progress(out)
    begun = False
    if pending is not None and pending.get("first_part") != len(manifest.parts):
        # interrupted after the manifest was replaced
        scenario = load_scenario(manifest.recipe.scenario)
        episodes = files.read_parquet(out / manifest.episodes.path)
        _complete(out, manifest, scenario, episodes, measure(out, manifest, episodes))
    elif pending is None:
        files.remove_folder(out / BUILDING)  # of a first build that was interrupted at its very end
    else:
        begun = _begun_digest(out) == recipe.digest and manifest.digest.startswith(to)
    if not begun and _is_appended(recipe, manifest, to):
        return replace(results.result_of(out, manifest), appended_before=True)
    if not manifest.digest.startswith(to):
        raise DatasetError(
            f"{out}: this dataset has the digest {manifest.digest[:12]}, expected {to[:12]} to "
            f"append {recipe.id} to it"
        )
    check_fits(manifest.recipes, recipe, str(out))
    if is_remote(out):
        files.make_folder(out)
    plan = _make_plan(recipe, behaviours, out, manifest)
    append = _place_of(plan, manifest)
    record = out / BUILDING / recording.PLAN
    if record.exists() and files.read_json(record) != recording.claim_of(plan, append):
        raise DatasetError(
            f"{out}: this folder holds an interrupted append of another recipe or by other package "
            f"versions; finish that one, or give it up by deleting {BUILDING} and the parts of "
            f"data/ from {plan.part_path(0).name} on"
        )
    recording.begin(plan, append)
    parts, episodes = recording.record_parts(plan, workers, progress, elsewhere)
    return _finish(plan, manifest, parts, episodes)


def _begun_digest(out: Path) -> Any:
    """Return the digest of the recipe whose append is in progress."""
    return files.read_json(out / BUILDING / recording.PLAN).get("digest")


def _is_appended(recipe: Recipe, manifest: mf.Manifest, to: str) -> bool:
    """Return whether the recipe was appended to a dataset whose digest begins with `to`."""
    return any(
        segment.digest == recipe.digest
        and mf.digest_of(manifest.recipes[: number + 1]).startswith(to)
        for number, segment in enumerate(manifest.appended)
    )


def being_added(out: Path, manifest: mf.Manifest) -> Callable[[str], bool]:
    """Return a function that accepts the names of files of an append that follows this manifest.

    Names are as the manifest would list them. Such files exist before the manifest lists them; all
    other files that it does not list are foreign.
    """
    pending = build.append_in_progress(out) or {}
    first, parts = (n if type(n := pending.get(key)) is int else 0 for key in _RANGE)
    replaced = first < len(manifest.parts)  # the append is done but for removing files
    follows = pending.get("to") == manifest.digest and first == len(manifest.parts)

    def is_added(name: str) -> bool:
        """Return whether the append writes, or wrote, a file of this name."""
        folder, _, file = name.rpartition("/")
        if folder == DATA and follows:
            number = file.removeprefix("part-").removesuffix(".parquet")
            return files.is_partial(file) or (
                number.isdecimal() and 0 <= int(number) - first < parts
            )
        return not folder and mf.is_episodes(name) and bool(pending) and (follows or replaced)

    return is_added


def _make_plan(
    recipe: Recipe, behaviours: Mapping[str, Behaviour], out: Path, manifest: mf.Manifest
) -> Plan:
    """Return the plan of the parts after the existing ones, on the dataset's own workload."""
    workload = load_workload(out / mf.WORKLOAD, manifest.workload_sha256)
    plan = replace(
        recording.make_plan(recipe, behaviours, workload, out),
        first_part=len(manifest.parts),
        first_episode=manifest.counts["episodes"],
        taken=repetitions(manifest.recipes),
    )
    if plan.spec != manifest.spec:
        raise DatasetError(
            f"{out}: the scenario has other outcomes or features than when this dataset was built; "
            "build the dataset again to append to it"
        )
    new = {f"{DATA}/{plan.part_path(part).name}" for part in range(len(plan.parts))}
    if taken := new.intersection(entry.path for entry in manifest.parts):
        raise DatasetError(
            f"{out / mf.NAME}: {min(taken)} is listed already, but at another position than its "
            "number; see `hindcast verify`"
        )
    return plan


def _place_of(plan: Plan, manifest: mf.Manifest) -> dict[str, Any]:
    """Return where an append goes on in a dataset."""
    return {
        "to": manifest.digest,
        "first_part": plan.first_part,
        "parts": len(plan.parts),
        "first_episode": plan.first_episode,
    }


def _finish(
    plan: Plan, old: mf.Manifest, added_parts: tuple[mf.FileEntry, ...], added: pl.DataFrame
) -> results.BuildResult:
    """Join the episodes, replace the manifest, and write the documents."""
    parts = (*old.parts, *added_parts)
    episodes = pl.concat([files.read_parquet(plan.out / old.episodes.path), added])
    name = f"episodes-{len(old.appended) + 1:05d}.parquet"
    segment = mf.Segment(
        plan.recipe, plan.recipe.digest, mf.versions(), plan.first_part, plan.first_episode
    )
    manifest = replace(
        old,
        digest=mf.digest_of((*old.recipes, plan.recipe)),
        parts=parts,
        episodes=results.write_episodes(plan.out, name, episodes),
        counts=results.counts_of(parts, episodes, old.spec),
        appended=(*old.appended, segment),
    )
    manifest, coverage = with_caveats(plan, manifest, episodes)
    files.write_json(plan.out / mf.NAME, mf.to_json(manifest))
    _complete(plan.out, manifest, plan.scenario, episodes, coverage)
    return results.result_of(plan.out, manifest)


def _complete(
    out: Path, manifest: mf.Manifest, scenario: Scenario, episodes: pl.DataFrame, coverage: Coverage
) -> None:
    """Write the documents of the new manifest and remove the replaced files; safe to repeat."""
    files.remove_partials(out)
    results.describe(out, manifest, scenario, episodes, coverage)
    for path in list(out.glob("episodes*.parquet")):
        if path.name != manifest.episodes.path and mf.is_episodes(path.name):
            path.unlink(missing_ok=True)
    files.remove_folder(out / BUILDING)
