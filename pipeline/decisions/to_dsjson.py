"""`dsjson`: a log of decisions as VowpalWabbit reads it, one JSON object per line.

    _labelIndex          place of the taken candidate among the feasible ones, from 0
    a, p                 feasible candidates from 1, the taken one first; p is in the order of `a`
    _label_cost          minus the reward
    pdrop                1 - 1 / weight, where the log was thinned
    _hindcast            session, unit and logger, which `hindcast ingest` reads back; others ignore
                         it, as they do everything that begins with `_`

`a` and `p` are left out where the probabilities of the other candidates were not logged. Decisions
without reward and overridden ones are left out: one unknown cost makes VowpalWabbit's mean unknown.

What is lost: infeasible candidates; which numbers were missing (dsjson reads an absent number as
0); the draws of Monte-Carlo propensities; the single terms of a reward.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import polars.selectors as cs

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.decisions.log import DecisionLog
from hindcast.pipeline.decisions.record import read_record
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.exports import ExportResult, Progress
from hindcast.pipeline.exports._target import new_file, result
from hindcast.pipeline.scenarios.decisions import NAME

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OWN: Final = ("session", "unit", "logger")


def export(dataset: Dataset, out: Path, candidates: int | None, tell: Progress) -> ExportResult:
    """Write the file `out`; raise as `hindcast.pipeline.exports.export`."""
    del candidates
    if dataset.spec.scenario != NAME:
        raise InputError(
            f"dsjson holds logs of decisions that `hindcast ingest decisions` read, "
            f"{dataset.folder} is a dataset of {dataset.spec.scenario}; expected csv or huggingface"
        )
    log = read_record(dataset.folder, dataset.manifest.provenance)
    _require(log, str(dataset.folder))
    with new_file(out) as temporary, temporary.open("w", encoding="utf-8") as file:
        done = 0
        for piece in log.pieces():
            file.writelines(json.dumps(record) + "\n" for record in records_of(piece))
            done += len(piece)
            tell(done, len(log))
    return result(out, tuple(_notes(log)))


def _require(log: DecisionLog, where: str) -> None:
    unknown = log.decisions["propensity"].is_null().to_numpy() & log.weighted
    if unknown.any():
        raise InputError(
            f"{where}: {int(unknown.sum()):,} decisions have no propensity, which every record of "
            "dsjson has; expected a log with propensities, or --to csv"
        )
    for side, frame in (("context", log.context), ("candidates", log.features)):
        for name in frame.columns:
            if name.startswith("_") or "._" in name or (side == "context" and name == "c"):
                raise InputError(
                    f"{where}: the feature {name!r} of the {side} begins with `_`, which is no "
                    "feature in dsjson; expected another name in the mapping"
                )


def _notes(log: DecisionLog) -> Iterator[str]:
    if left := int((~log.weighted).sum()):
        yield f"{left:,} decisions without reward, or overridden, are not in it"
    if lost := int((~log.candidates["feasible"]).sum()):
        yield f"{lost:,} infeasible candidates are not in it"
    missing = sum(
        int(frame[name].is_nan().sum())
        for frame in (log.context, log.features)
        for name in frame.columns
        if frame[name].dtype == pl.Float64
    )
    if missing:
        yield f"{missing:,} missing numbers are absent, which readers of dsjson take as 0"
    draws = log.decisions["draws"].drop_nulls().drop_nans().unique().sort().to_list()
    if draws:
        said = f"{draws[0]:,.0f}" + (f" to {draws[-1]:,.0f}" if len(draws) > 1 else "")
        yield (
            f"propensities were counted from {said} draws, which dsjson cannot say: give "
            "[propensity] draws in a mapping"
        )


def records_of(log: DecisionLog) -> Iterator[dict[str, Any]]:
    """Yield the records of the decisions that have a reward and their own choice."""
    contexts = _features(log.context, len(log))
    features = _features(log.features, len(log.candidates))
    ids = log.candidates["id"].cast(pl.String).to_list()
    feasible = log.candidates["feasible"].to_numpy()
    probability = log.candidates["probability"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    weighted = log.weighted
    for d, row in enumerate(log.decisions.iter_rows(named=True)):
        if not weighted[d]:
            continue
        at = np.arange(log.offsets[d], log.offsets[d + 1])
        at = at[feasible[at]]
        taken = int(np.flatnonzero(at == log.offsets[d] + row["chosen"])[0])
        record: dict[str, Any] = {
            "_label_cost": 0.0 - row["reward"], "_label_probability": row["propensity"],
            "_label_Action": taken + 1, "_labelIndex": taken, "EventId": row["id"],
        }  # fmt: skip
        if row["time"] is not None:
            record["Timestamp"] = _written(row["time"])
        p = probability[at]
        if not np.isnan(p).any():
            order = [taken, *(k for k in range(len(at)) if k != taken)]
            record |= {"a": [k + 1 for k in order], "p": [float(p[k]) for k in order]}
        multi = [({} if ids[k] is None else {"_tag": ids[k]}) | features[k] for k in at.tolist()]
        record["c"] = {**contexts[d], "_multi": multi}
        if row["weight"] > 1.0:
            record["pdrop"] = 1.0 - 1.0 / row["weight"]
        if own := {name: row[name] for name in _OWN if row[name] is not None}:
            record["_hindcast"] = own
        yield record


def _features(frame: pl.DataFrame, height: int) -> list[dict[str, Any]]:
    """Return features as objects of JSON, without those that are missing."""
    if not frame.width:
        return [{} for _ in range(height)]
    texts = [pl.col(n).cast(pl.String) for n, t in frame.schema.items() if t == pl.Categorical]
    plain = frame.with_columns(*texts, cs.float().fill_nan(None))
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in plain.iter_rows(named=True)
    ]


def _written(seconds: float) -> str:
    return (_EPOCH + timedelta(microseconds=round(seconds * 1e6))).isoformat()
