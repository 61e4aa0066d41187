"""Operations on tables of episodes: which episodes of which parents a dataset is made of.

    parent, origin    number of the parent, and of the episode there
    others            the columns of the table of episodes, with the numbers of the new dataset

A split never moves a window towards training: only windows of the train split get another one. What
an agent is compared on, or what a recipe keeps for the test, is in no train split of a result.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.append_history import check_fits, difference
from hindcast.pipeline.dataset.lineage import FILTER, MERGE, Lineage
from hindcast.pipeline.dataset.manifest import spec_to_json
from hindcast.pipeline.decisions.assembly import split_of
from hindcast.pipeline.decisions.mapping import Split
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.recipes.splits import SPLITS
from hindcast.pipeline.selection.conditions import Conditions

PART: Final = "part"  # argument of a split: the name of the one that is written
_IDENTITY: Final = ("behaviour", "seed", "window")
_NUMBERS: Final = ("parent", "origin", "episode", "first_part", "last_part")


def selected(
    operation: str, arguments: Mapping[str, Any], parents: Sequence[Dataset]
) -> pl.DataFrame:
    """Return the table of episodes of a dataset that is made of others by an operation.

    Raises InputError if the arguments do not fit the parents, or nothing is left.
    """
    if operation == MERGE:
        return _numbered(merged(parents))
    [dataset] = parents
    table = _of(dataset, 0)
    if operation == FILTER:
        found = table.filter(Conditions(**arguments).kept(table.drop("parent", "origin")))
    else:
        units = table["window"].cast(pl.String)
        table = table.with_columns(moved(table["split"], units, table["window"], arguments))
        found = table.filter(pl.col("split") == arguments[PART])
    if found.is_empty():
        words = Lineage(operation, arguments, ()).words
        raise InputError(
            f"{dataset.folder}: none of its {table.height:,} episodes is kept by {words}"
        )
    return _numbered(found)


def moved(
    split: pl.Series, units: pl.Series, times: pl.Series, arguments: Mapping[str, Any]
) -> pl.Series:
    """Return the splits of rows, with the train split divided by the shares of the arguments.

    `units` are kept whole, and `times` give their order.
    """
    shares = {k: v for k, v in arguments.items() if k != PART}
    train = (split == SPLITS[0]).arg_true().to_numpy()
    if not shares or not len(train):
        return split
    when = times.cast(pl.Float64)
    rows = train[np.argsort(when.fill_null(np.inf).to_numpy()[train], kind="stable")]
    found = split.to_numpy().copy()
    found[rows] = split_of(units[rows], when[rows], Split(**shares)).to_numpy()
    return pl.Series("split", found, dtype=pl.String)


def merged(parents: Sequence[Dataset]) -> pl.DataFrame:
    """Return the episodes of all parents; one that several have is taken once.

    Raises DatasetError if the parents are not of one problem, or an episode of one behaviour,
    repetition and window has different results in two of them.
    """
    first, *others = parents
    for other in others:
        for recipe in other.manifest.recipes:
            check_fits(first.manifest.recipes, recipe, str(first.folder))
        check_same(first, other, workload=other.manifest.workload_sha256)
    table = pl.concat([_of(dataset, at) for at, dataset in enumerate(parents)])
    splits = table.group_by("window", maintain_order=True).agg(pl.col("split").unique().sort())
    if (torn := splits.filter(pl.col("split").list.len() > 1)).height:
        window, names = torn.row(0)
        raise DatasetError(f"window {window} is in the splits {', '.join(names)} of the datasets")
    once = table.unique(_IDENTITY, keep="first", maintain_order=True)
    same = [name for name in table.columns if name not in {*_NUMBERS, "behaviour_parameters"}]
    distinct = table.unique(same, keep="first", maintain_order=True)
    if distinct.height > once.height:
        row = distinct.filter(pl.struct(_IDENTITY).is_duplicated()).row(0, named=True)
        raise DatasetError(
            "the datasets have different results for the episode of "
            + ", ".join(f"{name} {row[name]}" for name in _IDENTITY)
            + "; see `hindcast verify`"
        )
    return once


def check_same(first: Dataset, other: Dataset, workload: str = "") -> None:
    """Raise DatasetError, with the first difference, unless both have one spec.

    Of a simulator's dataset, the first has to have the `workload` of the other, too.
    """
    one, two = _spec(first), _spec(other)
    if workload:
        one["workload"], two["workload"] = first.manifest.workload_sha256, workload
    if one != two:
        key, there, here = difference("", one, two)
        raise DatasetError(
            f"{other.folder}: {key.removeprefix('.')} is {here!r}, but {there!r} in "
            f"{first.folder}; expected datasets of one workload and one spec"
        )


def _spec(dataset: Dataset) -> dict[str, Any]:
    """Return a spec with its features by name."""
    value = spec_to_json(dataset.spec)
    named = ("context", "candidates", "outcomes")
    return value | {key: {one["name"]: one for one in value[key]} for key in named}


def _of(dataset: Dataset, number: int) -> pl.DataFrame:
    """Return the episodes of a dataset as those of parent `number`."""
    table = dataset.episodes()
    if (table["first_part"] != table["last_part"]).any():
        raise DatasetError(f"{dataset.folder}: an episode is in two parts; see `hindcast verify`")
    return table.with_columns(pl.lit(number).alias("parent"), pl.col("episode").alias("origin"))


def _numbered(table: pl.DataFrame) -> pl.DataFrame:
    """Return the table with new numbers of episodes and parts; a part has rows of one part."""
    part = pl.struct("parent", "first_part").rle_id().cast(pl.Int64)
    return table.with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("episode"),
        pl.col("first_part").alias("part_of_parent"),
        part.alias("first_part"), part.alias("last_part"),
    )  # fmt: skip
