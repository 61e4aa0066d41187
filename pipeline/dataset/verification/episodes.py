"""Verification of the table of episodes: those that the recipes make, or a selection of them."""

import itertools

import numpy as np
import polars as pl

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.append_history import episodes_of, planned_episodes
from hindcast.pipeline.dataset.building.results import counts_of
from hindcast.pipeline.dataset.columns import episodes_schema, row_count
from hindcast.pipeline.dataset.lineage import Lineage
from hindcast.pipeline.errors import RecipeError, VerificationFailed
from hindcast.pipeline.recipes.splits import SPLITS


def check_episodes(dataset: Dataset) -> tuple[str, str]:
    """Return the name of the check and its result; raise VerificationFailed for a wrong episode."""
    manifest, episodes = dataset.manifest, dataset.episodes()
    where = dataset.folder / manifest.episodes.path
    if dict(episodes.schema) != episodes_schema(dataset.spec):
        raise VerificationFailed(f"{where}: the columns differ from those of the spec")
    try:
        (_check_whole if manifest.lineage is None else _check_selected)(dataset)
    except RecipeError as error:
        raise VerificationFailed(f"{dataset.folder / mf.NAME}: {error}") from error
    if row_count(episodes, dataset.spec) != sum(p.rows for p in manifest.parts):
        raise VerificationFailed(f"{where}: the number of rows differs from that of all parts")
    counts = counts_of(manifest.parts, episodes, dataset.spec)
    if dict(manifest.counts) != counts:
        raise VerificationFailed(
            f"{where}: the counts are {counts}, the manifest says {dict(manifest.counts)}"
        )
    text = f"{counts['episodes']:,} episodes, {counts['decisions']:,} decisions"
    return "episodes", text + ("" if manifest.lineage is None else ", a selection")


def _check_whole(dataset: Dataset) -> None:
    """Check that the episodes are all that the recipes make, in order."""
    manifest, episodes = dataset.manifest, dataset.episodes()
    where = dataset.folder / manifest.episodes.path
    made = sum(map(episodes_of, manifest.recipes))
    if made != episodes.height:  # checked first: it bounds the loop below
        raise VerificationFailed(
            f"{where}: the table has {episodes.height} episodes, the recipe makes {made}"
        )
    expected = planned_episodes(manifest.recipes)
    found = episodes.select("split", "behaviour", "seed", "window").rows()
    same = all(one == two for one, two in itertools.zip_longest(found, expected))
    if not same or episodes["episode"].to_list() != list(range(len(found))):
        raise VerificationFailed(f"{where}: the episodes are not those of the recipe, in order")
    for segment in manifest.appended:
        own = episodes["episode"] >= segment.first_episode
        if not ((episodes["first_part"] >= segment.first_part) == own).all():
            raise VerificationFailed(f"{where}: appended episodes and earlier ones share a part")


def _check_selected(dataset: Dataset) -> None:
    """Check that each episode is one that the recipes make, once, in the split of its window.

    If the train split was divided, a window may be in a later split than the recipes say.
    """
    manifest, episodes = dataset.manifest, dataset.episodes()
    where = dataset.folder / manifest.episodes.path
    window, behaviour = episodes["window"].to_numpy(), episodes["behaviour"]
    planned = np.zeros(episodes.height, np.int64)  # repetitions of the behaviour on the window
    split = np.full(episodes.height, "", object)
    # an append adds repetitions of a behaviour; builds that were merged have the same ones
    together = np.add if _appended(manifest.lineage) else np.maximum
    for recipe in manifest.recipes:
        own_planned = np.zeros_like(planned)
        for name in recipe.dataset_splits:
            inside = np.isin(window, recipe.windows(name))
            split[inside] = name
            for one in recipe.behaviours:
                own_planned[inside & (behaviour == one.name).to_numpy()] += one.episodes
        planned = together(planned, own_planned)
    own = episodes["split"].to_numpy()
    fits = own == split
    if manifest.lineage is not None and manifest.lineage.divided:
        fits |= (split == SPLITS[0]) & np.isin(own, SPLITS)
    identities = episodes.select("behaviour", "seed", "window")
    of_window = episodes.group_by("window").agg(pl.col("split").n_unique())["split"]
    for holds, fault in (
        ((episodes["seed"].to_numpy() < planned) & (episodes["seed"] >= 0).to_numpy(),
         "is none of the recipes'"),
        (fits, "is in another split than its window"),
        (~identities.is_duplicated().to_numpy(), "is there twice"),
        (np.full(episodes.height, bool((of_window == 1).all())),
         "or another one has a window that is in several splits"),
    ):  # fmt: skip
        if not holds.all():
            raise VerificationFailed(f"{where}: episode {int(np.argmin(holds))} {fault}")


def _appended(lineage: Lineage | None) -> bool:
    """Return whether episodes were appended to one of the builds above."""
    parents = () if lineage is None else lineage.parents
    return any(len(p.versions) > 1 or _appended(p.lineage) for p in parents)
