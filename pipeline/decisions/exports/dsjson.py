"""`dsjson`: a log of decisions as VowpalWabbit reads it, one JSON object per line.

    _labelIndex          place of the taken candidate among the feasible ones, from 0
    a, p                 feasible candidates from 1, the taken one first; p is in the order of `a`
    _label_cost          minus the reward
    pdrop                1 - 1 / weight, where the log was thinned
    _hindcast            session, unit and logger, which `hindcast ingest` reads back; others ignore
                         it, as they do everything that begins with `_`

`a` and `p` are left out where the probabilities of the other candidates were not logged. Decisions
without reward and overridden ones are left out: one unknown cost makes VowpalWabbit's mean unknown.

A dataset that was built becomes sessions, one per episode, whose units are the windows.

What is lost: images, identifiers, infeasible candidates, splits, simulated times; which
numbers were missing (dsjson reads an absent number as 0); decisions without reward; the draws of
Monte-Carlo propensities; the single terms of a reward.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.dataset.part import Block
from hindcast.pipeline.decisions.log import Array, DecisionLog
from hindcast.pipeline.decisions.record import read_record
from hindcast.pipeline.decisions.shapes.dsjson import OWN
from hindcast.pipeline.decisions.values import floats
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.exports import ExportResult, Progress
from hindcast.pipeline.exports._labels import ALL, Labels, labels_of
from hindcast.pipeline.exports._target import new_file, result
from hindcast.pipeline.scenarios.decisions import NAME
from hindcast.pipeline.simulation.spec import Spec

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OWN: Final = ("session", "unit", "logger")


def export(
    dataset: Dataset, out: Path, candidates: int | None, tell: Progress, split: str
) -> ExportResult:
    """Write the file `out`; raise as `hindcast.pipeline.exports.export`."""
    del candidates
    labels = labels_of(dataset, split)
    if dataset.spec.scenario != NAME:
        return _recorded_here(dataset, out, labels, tell)
    log = recorded_log(dataset, split)
    require_propensities(log, str(dataset.folder), "dsjson")
    _require_names(log, str(dataset.folder))
    with new_file(out) as temporary, temporary.open("w", encoding="utf-8") as file:
        done = 0
        for piece in log.pieces():
            file.writelines(json.dumps(record) + "\n" for record in records_of(piece))
            done += len(piece)
            tell(done, len(log))
    return result(out, (*left_out(log, "dsjson"), *_missing(log), *labels.notes))


def recorded_log(dataset: Dataset, split: str) -> DecisionLog:
    """Return the recorded log of a dataset, or that of one split."""
    log = read_record(dataset.folder, dataset.manifest.provenance)
    if split == ALL:
        return log
    return log.take(np.flatnonzero((log.decisions["split"] == split).to_numpy()))


def _recorded_here(dataset: Dataset, out: Path, labels: Labels, tell: Progress) -> ExportResult:
    """Write the decisions of a dataset that was built."""
    about = {row["episode"]: row for row in dataset.episodes().iter_rows(named=True)}
    parts = len(dataset.manifest.parts)
    with new_file(out) as temporary, temporary.open("w", encoding="utf-8") as file:
        for part in range(parts):
            for block in dataset.blocks(part):
                if np.isnan(block.propensity[block.choice != NO_CHOICE]).any():
                    raise InputError(
                        f"{dataset.folder}: it has decisions without propensity, which every "
                        "record of dsjson has; expected --to csv"
                    )
                written = labels.writes(block.episode)
                records = records_of_block(block, dataset.spec, about, written)
                file.writelines(json.dumps(record) + "\n" for record in records)
            tell(part + 1, parts)
    note = "sessions are episodes, units are windows; identifiers are not in it"
    return result(out, (note, *labels.notes))


def require_propensities(log: DecisionLog, where: str, form: str) -> None:
    """Raise InputError if a decision that is exported has no propensity."""
    unknown = log.decisions["propensity"].is_null().to_numpy() & log.weighted
    if unknown.any():
        raise InputError(
            f"{where}: {int(unknown.sum()):,} decisions have no propensity, which every record of "
            f"{form} has; expected a log with propensities, or --to csv"
        )


def _require_names(log: DecisionLog, where: str) -> None:
    """Raise InputError for a feature whose name dsjson has for something else."""
    for side, frame in (("context", log.context), ("candidates", log.features)):
        for name in frame.columns:
            if name.startswith("_") or "._" in name or (side == "context" and name == "c"):
                raise InputError(
                    f"{where}: the feature {name!r} of the {side} has a name that is no feature in "
                    "dsjson (`c`, and names or parts of names that begin with `_`); expected "
                    "another name in the mapping"
                )


def left_out(log: DecisionLog, form: str) -> Iterator[str]:
    """Yield what of a log is not in an export that has decisions with weights alone."""
    if left := int((~log.weighted).sum()):
        yield f"{left:,} decisions without reward, or overridden, are not in it"
    if lost := int((~log.candidates["feasible"]).sum()):
        yield f"{lost:,} infeasible candidates are not in it"
    draws = log.decisions["draws"].drop_nulls().drop_nans().unique().sort().to_list()
    if draws:
        said = f"{draws[0]:,.0f}" + (f" to {draws[-1]:,.0f}" if len(draws) > 1 else "")
        yield (
            f"propensities were counted from {said} draws, which {form} cannot say: give "
            "[propensity] draws in a mapping"
        )


def _missing(log: DecisionLog) -> Iterator[str]:
    missing = sum(
        int(frame[name].is_nan().sum())
        for frame in (log.context, log.features)
        for name in frame.columns
        if frame[name].dtype == pl.Float64
    )
    if missing:
        yield f"{missing:,} missing numbers are absent, which readers of dsjson take as 0"


def records_of(log: DecisionLog) -> Iterator[dict[str, Any]]:
    """Yield the records of the decisions that have a reward and their own choice."""
    contexts = _features(log.context, len(log))
    features = _features(log.features, len(log.candidates))
    ids = log.candidates["id"].cast(pl.String).to_list()
    feasible = log.candidates["feasible"].to_numpy()
    probability = floats(log.candidates["probability"])
    weighted = log.weighted
    for d, row in enumerate(log.decisions.iter_rows(named=True)):
        if not weighted[d]:
            continue
        at = np.arange(log.offsets[d], log.offsets[d + 1])
        at = at[feasible[at]]
        taken = int(np.searchsorted(at, log.offsets[d] + row["chosen"]))
        multi = [({} if ids[k] is None else {"_tag": ids[k]}) | features[k] for k in at.tolist()]
        record = _record(row["id"], row["reward"], row["propensity"], taken, probability[at])
        if row["time"] is not None:
            record["Timestamp"] = _written(row["time"])
        record["c"] = {**contexts[d], "_multi": multi}
        if row["weight"] > 1.0:
            record["pdrop"] = 1.0 - 1.0 / row["weight"]
        if own := {name: row[name] for name in _OWN if row[name] is not None}:
            record[OWN] = own
        yield record


def records_of_block(
    block: Block, spec: Spec, about: Mapping[int, Mapping[str, Any]], written: NDArray[np.bool_]
) -> Iterator[dict[str, Any]]:
    """Yield the records of the decisions (R,) to be `written`, which Hindcast recorded.

    A session is an episode, a unit a window. `about` has the window and the behaviour of each
    episode.
    """
    columns = list(spec.learned_candidates)
    names = [spec.candidates[i].name for i in columns]
    for d in np.flatnonzero((block.choice != NO_CHOICE) & written).tolist():
        at = np.arange(block.offsets[d], block.offsets[d + 1])
        at = at[block.feasible[at]]
        taken = int(np.searchsorted(at, block.offsets[d] + block.choice[d]))
        episode = int(block.episode[d])
        p = block.probabilities[at].astype(np.float64)
        record = _record(
            f"{episode}/{block.step[d]}", float(block.reward[d]), float(block.propensity[d]),
            taken, p,
        )  # fmt: skip
        record["c"] = {
            **_known([f.name for f in spec.context], block.context[d]),
            "_multi": [_known(names, block.candidates[k, columns]) for k in at],
        }
        record[OWN] = {
            "session": str(episode), "unit": str(about[episode]["window"]),
            "logger": about[episode]["behaviour"],
        }  # fmt: skip
        yield record


def _known(names: Sequence[str], values: NDArray[np.float32]) -> dict[str, float]:
    """Return numbers by their names, without those that are missing."""
    return {n: float(v) for n, v in zip(names, values, strict=True) if not np.isnan(v)}


def _record(
    name: str, reward: float, propensity: float, taken: int, probability: Array
) -> dict[str, Any]:
    """Return a record without its features; `taken` is a place among the feasible candidates."""
    record: dict[str, Any] = {
        "_label_cost": 0.0 - reward, "_label_probability": propensity,
        "_label_Action": taken + 1, "_labelIndex": taken, "EventId": name,
    }  # fmt: skip
    if not np.isnan(probability).any():
        order = [taken, *(k for k in range(len(probability)) if k != taken)]
        record |= {"a": [k + 1 for k in order], "p": [float(probability[k]) for k in order]}
    return record


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
