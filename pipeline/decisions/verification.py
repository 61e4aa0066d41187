"""Verification of a dataset of decisions that were made elsewhere, against their record.

The record is converted again, and every row, episode and count compared. Choices, probabilities,
propensities, splits, vocabulary and cautions are recomputed from it. If the sources are at hand,
they are read again. Nothing is simulated again: no simulator made these decisions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.building.results import counts_of
from hindcast.pipeline.dataset.lineage import selection_caveats
from hindcast.pipeline.decisions.assembly import split_of, torn_unit, unit_ids, vocabulary
from hindcast.pipeline.decisions.batch import sums
from hindcast.pipeline.decisions.cautions import QUARANTINED, cautions_of
from hindcast.pipeline.decisions.checks import SUM, complete_probabilities
from hindcast.pipeline.decisions.conversion import (
    Group,
    caveats_of,
    episodes_of,
    groups_of,
    in_parts,
    recipe_of,
    rows_of,
)
from hindcast.pipeline.decisions.encoding import encode
from hindcast.pipeline.decisions.log import DecisionLog
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.record import RECORDS, read_record, same_log
from hindcast.pipeline.decisions.values import floats
from hindcast.pipeline.errors import DatasetError, InputError, VerificationFailed
from hindcast.pipeline.estimators.decisions.logged import ABOVE_ONE
from hindcast.pipeline.storage.files import sha256_file


def check(dataset: Dataset, trace: Path | None = None) -> tuple[str, str]:
    """Return the check of a dataset's decisions against their record, and its result.

    `trace` is the log that they came from, if a person named it. Raises VerificationFailed for the
    first claim that does not hold.
    """
    folder, lineage = dataset.folder, dataset.manifest.provenance
    _check_tables(folder, lineage)
    try:
        log = read_record(folder, lineage)
    except (InputError, KeyError, TypeError) as error:
        raise VerificationFailed(f"{folder}: the record cannot be read ({error})") from error
    _check_log(log, folder, dataset.manifest.lineage is None)
    _check_claims(log, dataset)
    _check_rows(log, dataset)
    text = f"{len(log):,} converted again from their record; not re-simulated"
    if trace is not None:
        text += f"; {_read_again(log, trace, dataset.manifest.lineage is None)}"
    return "decisions", text


def _check_tables(folder: Path, lineage: Mapping[str, Any]) -> None:
    tables = lineage.get("tables", {})
    for name in RECORDS:
        path = folder / name
        if name not in tables or path.is_symlink() or not path.is_file():
            raise VerificationFailed(f"{path}: this file of the record is missing, or is a link")
        if sha256_file(path) != tables[name].get("sha256"):
            raise VerificationFailed(
                f"{path}: this file has another SHA-256 than the manifest says"
            )


def _check_log(log: DecisionLog, folder: Path, whole: bool) -> None:
    """Recompute what the checks of a reader ask of every decision.

    The split of a decision depends on the others, so it is recomputed of a `whole` log alone. Of a
    selection, each unit is in one split.
    """
    for piece in log.pieces():
        _check_piece(piece, folder)
    d = log.decisions
    units = unit_ids(d)
    require = partial(_require, d, folder)
    require((units == d["unit_id"]).to_numpy(), "its unit is another one")
    if whole:
        side = split_of(units, d["time"], log.mapping.split)
        require((side == d["split"]).to_numpy(), "its split is another one")
    elif torn := torn_unit(d):
        raise VerificationFailed(f"{folder}: {torn}")


def _check_piece(log: DecisionLog, folder: Path) -> None:
    """Raise VerificationFailed for a decision whose choice or probabilities cannot be."""
    d = log.decisions
    require = partial(_require, d, folder)
    chosen = d["chosen"].to_numpy()
    require((chosen >= 0) & (chosen < log.lengths), "the choice is not among the candidates")
    feasible = log.candidates["feasible"].to_numpy()
    require(feasible[log.offsets[:-1] + chosen], "the choice is not feasible")
    p = floats(d["propensity"])
    require(np.isnan(p) | ((p > 0) & (p <= 1 + ABOVE_ONE)), "its propensity is no probability")
    logged = floats(log.candidates["probability"])
    complete = complete_probabilities(logged, feasible, log.offsets)
    total = sums(np.where(feasible, np.nan_to_num(logged), 0.0), log.offsets)
    require(~complete | (np.abs(total - 1) < SUM), "its probabilities do not sum to 1")
    require(d["weight"].to_numpy() >= 1.0 - 1e-12, "its weight is below 1")


def _require(decisions: pl.DataFrame, folder: Path, holds: np.ndarray, what: str) -> None:
    if not holds.all():
        at = int(np.argmin(holds))
        raise VerificationFailed(f"{folder}: decision {decisions['id'][at]!r}: {what}")


def _check_claims(log: DecisionLog, dataset: Dataset) -> None:
    """Raise VerificationFailed if the manifest claims other facts than the record has."""
    manifest, where = dataset.manifest, dataset.folder / mf.NAME
    claims = manifest.provenance
    levels = vocabulary(log.decisions, log.context, log.features, log.offsets)
    ordered = [(k, [*v.items()]) for k, v in sorted(levels.items())]
    if manifest.lineage is None and ordered != [
        (k, [*v.items()]) for k, v in sorted(log.vocabulary.items())
    ]:
        raise VerificationFailed(f"{where}: the vocabulary is not that of the train split")
    if claims["mapping_digest"] != log.mapping.digest:
        raise VerificationFailed(f"{where}: the mapping has another digest than it claims")
    kept = manifest.caveats if manifest.lineage else ()
    found = (
        *caveats_of(cautions_of(log)), *(c for c in kept if c.code == QUARANTINED),
        *selection_caveats(manifest.lineage),
    )  # fmt: skip
    if found != manifest.caveats:
        raise VerificationFailed(f"{where}: the caveats are not those of the decisions")
    counted = {
        "decisions": len(log), "candidates": int(log.offsets[-1]),
        "in_weights": int(log.weighted.sum()), "overridden": int(log.decisions["overridden"].sum()),
        "censored": log.decisions["reward"].null_count(),
    }  # fmt: skip
    for name, count in counted.items():
        if claims["counts"].get(name) != count:
            raise VerificationFailed(
                f"{where}: counts.{name} is {claims['counts'].get(name)}, the record has {count}"
            )


def _check_rows(log: DecisionLog, dataset: Dataset) -> None:
    """Raise VerificationFailed if recipe, episodes or rows are not those of the record."""
    manifest, folder = dataset.manifest, dataset.folder
    like = None if manifest.lineage is None else manifest.recipe.config
    encoded, episodes = encode(log, like), episodes_of(log)
    name, spec = manifest.recipe.id.removeprefix("decisions-"), dataset.spec
    recipe = recipe_of(log, encoded, episodes, name, spec.closing_rows)
    if recipe.digest != manifest.recipe.digest:
        raise VerificationFailed(f"{folder / mf.NAME}: the recipe is not that of the decisions")
    parts = _parts(dataset, [*groups_of(log, episodes)])
    table = in_parts(episodes, parts, spec)
    if not table.equals(dataset.episodes(), null_equal=True):
        raise VerificationFailed(
            f"{folder / manifest.episodes.path}: the episodes are not those of the decisions"
        )
    if dict(manifest.counts) != counts_of(manifest.parts, table, spec):
        raise VerificationFailed(f"{folder / mf.NAME}: the counts are not those of the episodes")
    for number, groups in enumerate(parts):
        path = dataset.part(number)
        file = pq.ParquetFile(path)
        for group, (begin, end) in enumerate(groups):
            expected = rows_of(log, encoded, episodes, spec, begin, end)
            found = pl.DataFrame(file.read_row_group(group))
            if not found.equals(pl.DataFrame(expected), null_equal=True):
                raise VerificationFailed(f"{path}: row group {group} differs from the record")


def _parts(dataset: Dataset, splits: Sequence[Sequence[Group]]) -> list[Sequence[Group]]:
    """Return the row groups of each part, which has as many as its file says, of one split."""
    parts: list[Sequence[Group]] = []
    for groups in splits:
        begin = 0
        while begin < len(groups) and len(parts) < len(dataset.manifest.parts):
            count = pq.ParquetFile(dataset.part(len(parts))).num_row_groups
            parts.append(groups[begin : begin + count])
            begin += count
            if not count or begin > len(groups):
                break
        if begin != len(groups):
            path = dataset.part(max(0, len(parts) - 1))
            raise VerificationFailed(f"{path}: its row groups are not those of the decisions")
    if len(parts) != len(dataset.manifest.parts):
        raise VerificationFailed(
            f"{dataset.folder / mf.NAME}: {len(dataset.manifest.parts)} parts, the decisions make "
            f"{len(parts)}"
        )
    return parts


def _read_again(log: DecisionLog, trace: Path, whole: bool) -> str:
    """Compare a record with the log that it was made from; return what was done.

    `whole` is false for a selection of the decisions. Raises VerificationFailed if they differ.
    """
    try:
        again = read_log(trace)
    except InputError as error:
        raise DatasetError(f"{trace}: this log cannot be read again: {error}") from error
    if sorted(f.sha256 for f in again.files) != sorted(f.sha256 for f in log.files):
        raise DatasetError(
            f"{trace}: this is not the log of the dataset: its files have other SHA-256 than the "
            "provenance says"
        )
    if again.mapping.digest != log.mapping.digest:
        return "the log was not compared, since its mapping is another one"
    if not whole:  # its splits may be others
        kept = again.decisions["id"].is_in(log.decisions["id"].implode()).arg_true()
        again = again.take(kept.to_numpy().astype(np.int64))
        if len(again) == len(log):
            again = replace(again, decisions=again.decisions.with_columns(log.decisions["split"]))
    if difference := same_log(log, again):
        raise VerificationFailed(f"{trace}: the log gives other decisions: {difference}")
    return f"read again from {trace}"
