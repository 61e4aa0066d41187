"""Datasets made of logs of decisions: some of the decisions, converted as the whole log was.

Episodes, windows and codes of categories are numbered again. Vocabulary, scales and features are
those of the whole log, so that what was trained on one fits the others. A decision in no episode,
without reward or overridden, is kept by conditions that are known before the decision. The rows in
quarantine stay with the log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.lineage import FILTER, MERGE, Lineage
from hindcast.pipeline.decisions.assembly import counted, torn_unit
from hindcast.pipeline.decisions.batch import Batch, Ints, concat
from hindcast.pipeline.decisions.cautions import QUARANTINED, cautions_of
from hindcast.pipeline.decisions.conversion import convert, episodes_of
from hindcast.pipeline.decisions.log import Caution, DecisionLog
from hindcast.pipeline.decisions.record import read_record, same_log
from hindcast.pipeline.errors import DatasetError, InputError, VerificationFailed
from hindcast.pipeline.selection.conditions import Conditions
from hindcast.pipeline.selection.operations import PART, check_same, moved


def write(parents: Sequence[Dataset], lineage: Lineage, out: Path) -> None:
    """Write the dataset that an operation makes of logs of decisions into an empty folder."""
    log, recipe = _made(parents, lineage), parents[0].recipe
    kept = (c for p in parents for c in p.manifest.caveats if c.code == QUARANTINED)
    found = {c.text: Caution(c.code, c.text, c.numbers) for c in kept}
    log = replace(log, cautions=(*cautions_of(log), *found.values()))
    convert(log, out, recipe.id.removeprefix("decisions-"), lineage, recipe.config)


def check(dataset: Dataset, parents: Sequence[Dataset], lineage: Lineage) -> str:
    """Select the decisions again and compare them; raise VerificationFailed for a difference."""
    found = read_record(dataset.folder, dataset.manifest.provenance)
    if difference := same_log(found, _made(parents, lineage)):
        raise VerificationFailed(
            f"{dataset.folder}: {lineage.words} of the parents gives other decisions: {difference}"
        )
    return f"{len(found):,} decisions are those of the parents"


def _made(parents: Sequence[Dataset], lineage: Lineage) -> DecisionLog:
    """Return the decisions that an operation selects from logs."""
    logs = [read_record(parent.folder, parent.manifest.provenance) for parent in parents]
    if lineage.operation == MERGE:
        log = _merged(parents, logs)
    else:
        [log], [dataset] = logs, parents
        if lineage.operation == FILTER:
            found = _kept(log, dataset.episodes(), Conditions(**lineage.arguments))
        else:
            log = _split(log, lineage.arguments)
            found = (log.decisions["split"] == lineage.arguments[PART]).to_numpy()
        if not found.any():
            raise InputError(
                f"{dataset.folder}: none of its {len(log):,} decisions is kept by {lineage.words}"
            )
        log = log.take(np.flatnonzero(found))
    counts = counted(log.decisions, log.candidates, log.offsets, 0)
    return replace(log, counts=counts, quarantine=log.quarantine.clear())


def _kept(log: DecisionLog, table: pl.DataFrame, conditions: Conditions) -> NDArray[np.bool_]:
    """Return which decisions (D,) are kept: whole episodes, and some that are in none."""
    of_episode = conditions.kept(table)
    transitions = episodes_of(log)
    episode = np.full(len(log), -1)
    episode[transitions.decisions] = transitions.episode
    d = log.decisions.select(
        "split", "unit_id", "session",
        pl.col("logger").fill_null("recorded").alias("behaviour"),
        pl.Series("episode", episode).replace(-1, None),
    ).with_columns(
        # the end of a session that is in no episode follows the beginning
        pl.when(pl.col("session").is_null()).then("episode")
        .otherwise(pl.col("episode").max().over("unit_id", "session"))
    )  # fmt: skip
    window = pl.DataFrame({"episode": table["episode"], "window": table["window"]})
    d = d.join(window, on="episode", how="left", maintain_order="left").with_columns(
        pl.col("window").max().over("unit_id")
    )
    found = np.zeros(len(log), bool)
    inside = d["episode"].is_not_null().to_numpy()
    found[inside] = of_episode[d["episode"].drop_nulls().to_numpy()]
    if not inside.all() and (before := conditions.before) is not None:
        names = ["split", "behaviour", "window"]
        both = pl.concat([table.select(names), d.select(names)])  # the table has the known names
        found |= ~inside & before.kept(both)[table.height :]
    return found


def _split(log: DecisionLog, arguments: Mapping[str, Any]) -> DecisionLog:
    d = log.decisions
    split = moved(d["split"], d["unit_id"], d["time"], arguments)
    return replace(log, decisions=d.with_columns(split))


def _merged(parents: Sequence[Dataset], logs: Sequence[DecisionLog]) -> DecisionLog:
    """Return the decisions of several selections of one log; those in several are taken once."""
    first, others = logs[0], logs[1:]
    for dataset, other in zip(parents[1:], others, strict=True):
        files = ([f.sha256[:12] for f in one.files] for one in (first, other))
        for what, one, two in (
            ("its files", *files),
            ("the mapping", first.mapping.digest[:12], other.mapping.digest[:12]),
        ):  # fmt: skip
            if one != two:
                raise DatasetError(
                    f"{dataset.folder}: {what} {two} are not {one} of {parents[0].folder}; only "
                    "selections of one log can be merged: `hindcast ingest decisions` reads "
                    "several files as one log"
                )
        check_same(parents[0], dataset)
    found = concat(
        (Batch(o.decisions, o.context, o.candidates, o.features, o.lengths) for o in logs),
        float("nan"),
    )
    assert found is not None
    whole = replace(
        first, decisions=found.decisions, context=found.context, candidates=found.candidates,
        features=found.features, offsets=found.offsets,
    )  # fmt: skip
    ids = whole.decisions["id"]
    once = ids.is_first_distinct().to_numpy()
    repeated = np.flatnonzero(~once)
    earlier = pl.DataFrame({"id": ids, "at": np.arange(len(ids))}).unique("id", keep="first")
    firsts = whole.decisions["id"][repeated].to_frame().join(
        earlier, on="id", how="left", maintain_order="left"
    )["at"].to_numpy()  # fmt: skip
    if difference := same_log(whole.take(firsts), whole.take(repeated)):
        raise DatasetError(f"the datasets have other decisions of one id: {difference} differs")
    log = whole.take(np.flatnonzero(once))
    if torn := torn_unit(log.decisions):
        raise DatasetError(f"{torn} of the datasets")
    return log.take(_order(log))


def _order(log: DecisionLog) -> Ints:
    """Return the order of the log: by time, then by file and line."""
    keys = log.decisions.select(pl.col("time").fill_null(np.inf), "file", "line")
    return np.lexsort([keys[name].to_numpy() for name in reversed(keys.columns)]).astype(np.int64)
