"""Filter, merge and split: what is done with whole datasets of either kind."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import hindcast.pipeline.dataset as ds
from hindcast.pipeline.building.results import BuildResult, result_of
from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.lineage import FILTER, MERGE, SPLIT, Lineage, Parent
from hindcast.pipeline.decisions.mapping import Split
from hindcast.pipeline.errors import DatasetError, InputError, VerificationFailed
from hindcast.pipeline.exports._target import new_folder
from hindcast.pipeline.recipes.splits import SPLITS
from hindcast.pipeline.recipes.workload_source import DECISIONS, RECORDED
from hindcast.pipeline.selection.conditions import Conditions
from hindcast.pipeline.selection.operations import PART
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.storage.locks import writing


def filter_episodes(dataset: Path, conditions: Conditions, out: Path) -> BuildResult:
    """Write the dataset of the episodes that meet the conditions, whole episodes of one dataset.

    Raises InputError if no condition is given, one does not fit the dataset, or nothing is kept;
    StorageError if `out` is not empty. Then nothing is written.
    """
    if not (arguments := conditions.arguments):
        raise InputError(
            "filter: expected a condition, such as --split, --behaviour, --window, --episodes, "
            "--drop-episodes or --where"
        )
    [result] = _write([dataset], out, {"": Lineage(FILTER, arguments, ())})
    return result


def merge(datasets: Sequence[Path], out: Path) -> BuildResult:
    """Write the dataset of the episodes of several datasets of one problem, or of one log.

    Raises InputError for fewer than two datasets, or with the first thing in which they differ.
    """
    if len(datasets) < 2:
        raise InputError(f"merge: {len(datasets)} dataset given, expected at least 2")
    [result] = _write(datasets, out, {"": Lineage(MERGE, {}, ())})
    return result


def split(dataset: Path, out: Path, shares: Split | None = None) -> list[BuildResult]:
    """Write a dataset for each split, `out`/train and others.

    With `shares`, windows of the train split are moved to the others first.

    Raises InputError if shares leave no window for a split.
    """
    given = {} if shares is None else {name: getattr(shares, name) for name in _SHARES}
    if shares is not None and not (
        min(shares.validation, shares.test) >= 0 < shares.validation + shares.test < 1
    ):
        raise InputError(
            f"split: the shares are {shares.validation:g} and {shares.test:g}, expected numbers "
            "from 0 on with a sum above 0 and below 1"
        )
    names = [name for name in SPLITS if name in {*ds.open(dataset).episodes()["split"]}]
    names += [n for n in SPLITS[1:] if n not in names and given.get(n)]
    operations = {n: Lineage(SPLIT, {PART: n, **given}, ()) for n in SPLITS if n in names}
    return _write([dataset], out, operations)


_SHARES = ("by", "validation", "test")


def _write(
    places: Sequence[Path], out: Path, operations: Mapping[str, Lineage]
) -> list[BuildResult]:
    """Write the results of operations into the folders `out`/NAME; all appear at once or none."""
    parents = [ds.open(place) for place in places]
    kind = _kind(parents)
    lineages = {
        name: Lineage(of.operation, of.arguments, tuple(map(_parent, parents)))
        for name, of in operations.items()
    }
    with writing(out, beside=True), new_folder(out, mf.NAME) as folder:
        made = {name: kind.write(parents, of, folder / name) for name, of in lineages.items()}
    return [result_of(out / name, manifest) for name, manifest in made.items()]


def _kind(parents: Sequence[Dataset]) -> ModuleType:
    """Return the module for datasets of this kind; raise DatasetError for others."""
    from hindcast.pipeline.selection import datasets, logs

    kinds = [parent.recipe.trace.format for parent in parents]
    if RECORDED in kinds:
        raise DatasetError(
            f"{parents[kinds.index(RECORDED)].folder}: this dataset was recorded elsewhere, in a "
            "history file; select from that file"
        )
    if len({kind == DECISIONS for kind in kinds}) > 1:
        raise DatasetError(
            f"{parents[kinds.index(DECISIONS)].folder}: this is a log of decisions, which cannot be "
            "merged with a dataset of a simulator"
        )
    return logs if kinds[0] == DECISIONS else datasets


def _parent(dataset: Dataset) -> Parent:
    manifest = dataset.manifest
    return Parent(
        manifest.name, manifest.digest, manifest.data_sha256, manifest.counts["episodes"],
        manifest.counts["decisions"],
        (manifest.versions, *(segment.versions for segment in manifest.appended)),
        manifest.lineage,
    )  # fmt: skip


def check_parents(dataset: Dataset, places: Sequence[Path | str]) -> tuple[str, str]:
    """Return the check of a dataset against the datasets that it was made of.

    Raises DatasetError if these are not its parents, VerificationFailed for the first episode or
    row that the operation does not give.
    """
    lineage = dataset.manifest.lineage
    if lineage is None:
        raise DatasetError(
            f"{dataset.folder}: this dataset was not made of others; leave --parent out"
        )
    parents = [ds.open(location(place)) for place in places]
    digests = [parent.manifest.data_sha256 for parent in parents]
    expected = [parent.data_sha256 for parent in lineage.parents]
    if digests != expected:
        raise DatasetError(
            f"{', '.join(map(str, places))}: the parents of {dataset.folder} have the data "
            f"{', '.join(d[:12] for d in expected)}, these have "
            f"{', '.join(d[:12] for d in digests)}"
        )
    try:
        found = _kind(parents).check(dataset, parents, lineage)
    except (TypeError, KeyError, ValueError) as error:  # arguments of a foreign manifest
        raise VerificationFailed(
            f"{dataset.folder / mf.NAME}: lineage: {lineage.words} cannot be repeated ({error})"
        ) from error
    return "parents", f"{lineage.words}: {found}"
