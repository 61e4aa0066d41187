"""Filter, merge and split: what is done with whole datasets of either kind."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Final, Literal, TypeAlias

import hindcast.pipeline.dataset as ds
from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.lineage import FILTER, MERGE, SPLIT, Lineage, Parent
from hindcast.pipeline.errors import DatasetError, InputError, VerificationFailed
from hindcast.pipeline.exports._target import new_folder
from hindcast.pipeline.recipes.splits import SPLITS
from hindcast.pipeline.recipes.workload_source import DECISIONS, RECORDED
from hindcast.pipeline.selection.conditions import Conditions
from hindcast.pipeline.selection.operations import PART
from hindcast.pipeline.storage.location import is_remote, location
from hindcast.pipeline.storage.locks import writing

Place: TypeAlias = Path | str
_SHARES: Final = ("by", "validation", "test")


def filter(  # noqa: A001 - it is called through the module
    dataset: Dataset | Place,
    out: Place,
    *,
    split: Sequence[str] = (),
    behaviour: Sequence[str] = (),
    window: str = "",
    episodes: str = "",
    drop_episodes: str = "",
    where: str = "",
) -> Dataset:
    """Write the episodes of a dataset that meet all conditions as a dataset, and open it.

    A selection by number or by `where` may depend on outcomes. The dataset then has a caveat, which
    training and estimation show.

    Args:
        dataset: The dataset, or its folder.
        out: New folder of the result.
        split: Names of splits.
        behaviour: Names of behaviours.
        window: Windows, such as "3,12..20".
        episodes: Numbers of the episodes to keep, in the same form.
        drop_episodes: Numbers of episodes to leave out.
        where: Condition on the columns of `Dataset.episodes()`, in SQL: "return < -50".

    Returns:
        The opened dataset of the selection. Its episodes are numbered from 0.

    Raises:
        InputError: There is no condition, one does not fit, no episode is kept, or `out` is not
            empty. Nothing is written then.
    """
    conditions = Conditions(split, behaviour, window, episodes, drop_episodes, where)
    if not (arguments := conditions.arguments):
        raise InputError(
            "filter: expected a condition, such as --split, --behaviour, --window, --episodes, "
            "--drop-episodes or --where"
        )
    [result] = _write([dataset], out, {"": Lineage(FILTER, arguments, ())})
    return result


def merge(datasets: Sequence[Dataset | Place], out: Place) -> Dataset:
    """Write several datasets of one problem as one dataset, and open it.

    Args:
        datasets: At least two datasets with the same scenario, settings, seed and workload, or
            selections of one log of decisions. An episode of the same behaviour, repetition and
            window in several of them is taken once.
        out: New folder of the result.

    Returns:
        The opened dataset.

    Raises:
        InputError: The datasets differ in more than behaviours, episodes and windows; the first
            difference is named. Nothing is written then.
    """
    if len(datasets) < 2:
        raise InputError(f"merge: {len(datasets)} dataset given, expected at least 2")
    [result] = _write(datasets, out, {"": Lineage(MERGE, {}, ())})
    return result


def split(
    dataset: Dataset | Place,
    out: Place,
    *,
    by: Literal["time", "hash"] | None = None,
    validation: float = 0.2,
    test: float = 0.2,
) -> dict[str, Dataset]:
    """Write a dataset for each split of a dataset, in folders by their names, and open them.

    Args:
        dataset: The dataset, or its folder.
        out: New folder of the results.
        by: How windows of the train split are divided first: the latest ones, or by a hash, become
            validation and test. None leaves the splits as they are.
        validation: Share of the train windows that becomes validation.
        test: Share of the train windows that becomes test.

    Returns:
        The opened datasets by split.

    Raises:
        InputError: Shares are out of range, or leave a split empty. Nothing is written then.
    """
    if not min(validation, test) >= 0 < validation + test < 1:
        raise InputError(
            f"split: the shares are {validation:g} and {test:g}, expected numbers from 0 on with a "
            "sum above 0 and below 1"
        )
    given = dict(zip(_SHARES, (by, validation, test), strict=True)) if by else {}
    there = {*_opened(dataset).episodes()["split"]}
    names = [name for name in SPLITS if name in there or given.get(name)]
    operations = {name: Lineage(SPLIT, {PART: name, **given}, ()) for name in names}
    return dict(zip(names, _write([dataset], out, operations), strict=True))


def _opened(dataset: Dataset | Place) -> Dataset:
    return dataset if isinstance(dataset, Dataset) else ds.open(location(dataset))


def _write(
    places: Sequence[Dataset | Place], out: Place, operations: Mapping[str, Lineage]
) -> list[Dataset]:
    """Write the results of operations into the folders `out`/NAME; all appear at once or none."""
    parents, out = [*map(_opened, places)], location(out)
    kind, above = _kind(parents), tuple(map(_parent, parents))
    for parent in parents:
        of, local = parent.folder, not (is_remote(out) or is_remote(parent.folder))
        if local and out.resolve().is_relative_to(of.resolve()):
            raise InputError(f"{out}: lies in the given dataset {of}; choose another --out")
    with writing(out, beside=True), new_folder(out, mf.NAME) as folder:
        for name, operation in operations.items():
            kind.write(parents, replace(operation, parents=above), folder / name)
    return [ds.open(out / name) for name in operations]


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
            f"{parents[kinds.index(DECISIONS)].folder}: this is a log of decisions, which cannot "
            "be merged with a dataset of a simulator"
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


def check_parents(dataset: Dataset, places: Sequence[Dataset | Place]) -> tuple[str, str]:
    """Return the check of a dataset against the datasets that it was made of.

    Raises DatasetError if these are not its parents, VerificationFailed for the first episode or
    row that the operation does not give.
    """
    lineage = dataset.manifest.lineage
    if lineage is None:
        raise DatasetError(
            f"{dataset.folder}: this dataset was not made of others; leave --parent out"
        )
    parents = [*map(_opened, places)]
    digests = [parent.manifest.data_sha256 for parent in parents]
    expected = [parent.data_sha256 for parent in lineage.parents]
    if digests != expected:
        raise DatasetError(
            f"{dataset.folder}: its parents have the data {_shortened(expected)}, expected these "
            f"and not {_shortened(digests)} of {', '.join(str(p.folder) for p in parents)}"
        )
    if not _usable(lineage):
        raise VerificationFailed(
            f"{dataset.folder / mf.NAME}: lineage: {lineage.words} has arguments of a wrong type"
        )
    try:
        found = _kind(parents).check(dataset, parents, lineage)
    except (TypeError, KeyError, ValueError) as error:  # arguments of a foreign manifest
        raise VerificationFailed(
            f"{dataset.folder / mf.NAME}: lineage: {lineage.words} cannot be repeated ({error})"
        ) from error
    return "parents", f"{lineage.words}: {found}"


def _usable(lineage: Lineage) -> bool:
    """Return whether the arguments of a foreign lineage have the types of the operation's."""
    listed = [name for name, value in asdict(Conditions()).items() if value == ()]
    numbers = _SHARES[1:] if lineage.operation == SPLIT else ()
    return all(
        isinstance(value, list) and all(isinstance(one, str) for one in value) if name in listed
        else isinstance(value, int | float if name in numbers else str)
        for name, value in lineage.arguments.items()
    )  # fmt: skip


def _shortened(digests: Sequence[str]) -> str:
    return ", ".join(digest[:12] for digest in digests)
