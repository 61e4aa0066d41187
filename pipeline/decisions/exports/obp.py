"""`obp`: a log of decisions as the arrays of Open Bandit Pipeline, in one .npz without pickles.

    action, reward, pscore     (n,) the taken arm, its reward and its propensity
    context                    (n, F) features of the decisions
    action_context             (arms, G) features of the arms; (n, arms, G) where they change
    pi_b                       (n, arms, 1) probabilities, if those of all candidates were logged
    n_rounds, n_actions        numbers
    hindcast_place             (n, arms) place of an arm among the candidates, -1 where it is none
    hindcast_...               ids, units, sessions, times, weights, draws, names; `hindcast ingest`
                               reads them back, others ignore them

An arm is an id of a candidate; where candidates have no ids, or a decision has one twice, it is a
place in the list. OBP knows no candidates that come and go: arms that are none have probability 0,
and a policy that is evaluated must give them 0 as well. Every level of a category is a column.

What is lost: infeasible candidates, splits, decisions without reward and overridden ones, draws of
propensities, the single terms of a reward, which columns were one category, slots.
"""

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.decisions.arrays import design
from hindcast.pipeline.decisions.exports.dsjson import left_out, recorded_log, require_propensities
from hindcast.pipeline.decisions.log import Array, DecisionLog, Flags
from hindcast.pipeline.decisions.shapes.obp import NUMBERS, OWN, TEXTS
from hindcast.pipeline.decisions.values import floats
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.estimators.decisions.logged import Ints
from hindcast.pipeline.exports import ExportResult, Progress
from hindcast.pipeline.exports._labels import labels_of
from hindcast.pipeline.exports._target import new_file, result
from hindcast.pipeline.scenarios.decisions import NAME

MOST_ARMS: Final = 1000


def export(
    dataset: Dataset, out: Path, candidates: int | None, tell: Progress, split: str
) -> ExportResult:
    """Write the file `out`; raise as `hindcast.pipeline.exports.export`."""
    del candidates
    where = str(dataset.folder)
    if dataset.spec.scenario != NAME:
        raise InputError(
            f"{where}: it has episodes of a simulator, obp has single decisions; expected a log of "
            "decisions, or --to dsjson"
        )
    log, labels = recorded_log(dataset, split), labels_of(dataset, split)
    require_propensities(log, where, "obp")
    arms = _arms(log, where)
    writers = list(_writers(log, arms))
    with new_file(out) as temporary, zipfile.ZipFile(temporary, "w") as file:
        for done, (name, write) in enumerate(writers):
            entry = zipfile.ZipInfo(f"{name}.npy")  # its time is fixed, so that bytes come again
            entry.compress_type = zipfile.ZIP_DEFLATED
            with file.open(entry, "w", force_zip64=True) as stream:
                write(stream)
            tell(done + 1, len(writers))
    return result(out, (*left_out(log, "obp"), *labels.notes))


@dataclass(frozen=True)
class _Arms:
    """Arms of a log: (C,) arm of each candidate, and their ids; none where arms are places."""

    of: Ints
    count: int
    ids: tuple[str, ...]


def _arms(log: DecisionLog, where: str) -> _Arms:
    """Return the arms of a log; raise InputError if there are more than MOST_ARMS."""
    used = _used(log).to_numpy()
    owner = np.repeat(np.arange(len(log)), log.lengths)
    ids = log.candidates["id"].cast(pl.String)
    if not ids.null_count():
        known = ids.filter(pl.Series(used)).unique(maintain_order=True)
        codes = ids.replace_strict(known, np.arange(len(known)), default=-1).to_numpy()
        count, names = len(known), tuple(known.to_list())
        twice = len(np.unique(owner[used] * max(count, 1) + codes[used])) < int(used.sum())
    if ids.null_count() or twice:
        codes = np.arange(len(owner)) - log.offsets[:-1][owner]
        count, names = int(codes[used].max(initial=-1)) + 1, ()
    if count > MOST_ARMS:
        raise InputError(
            f"{where}: {count:,} arms, expected at most {MOST_ARMS:,}, since obp has every arm in "
            "every round; --to dsjson keeps the candidates of each decision"
        )
    return _Arms(np.asarray(codes, np.int64), count, names)


Write = Callable[[IO[bytes]], None]
Fill = Callable[[NDArray[Any], float], NDArray[Any]]  # (C,) -> (rows, arms), other arms filled


def _writers(log: DecisionLog, arms: _Arms) -> Iterator[tuple[str, Write]]:
    """Yield the arrays by name, with functions that write them."""
    weighted = log.weighted
    d = log.decisions.filter(pl.Series(weighted))
    taken = (log.offsets[:-1] + log.decisions["chosen"].to_numpy())[weighted]
    context, features = _Columns(log.context), _Columns(log.features)
    whole: dict[str, Any] = {
        "n_rounds": np.int64(len(d)), "n_actions": np.int64(arms.count), "action": arms.of[taken],
        "reward": d["reward"].to_numpy(), "pscore": d["propensity"].to_numpy(),
        f"{OWN}context": np.array(context.names, str),
        f"{OWN}action_context": np.array(features.names, str),
        f"{OWN}arm": np.array(arms.ids, str),
        **{OWN + name: np.array(d[name].fill_null("").to_list(), str)
           for name in TEXTS if d[name].null_count() < len(d)},
        **{OWN + name: floats(d[name]) for name in NUMBERS if d[name].null_count() < len(d)},
    }  # fmt: skip
    dense: dict[str, tuple[tuple[int, ...], type, Callable[[DecisionLog, Fill], Any]]] = {
        f"{OWN}place": ((), np.int32, lambda piece, fill: fill(
            np.arange(int(piece.offsets[-1])) - np.repeat(piece.offsets[:-1], piece.lengths), -1)),
    }  # fmt: skip
    if context.names:
        whole["context"] = context.matrix(log.context.filter(pl.Series(weighted)))
    if features.names and (rows := _constant(log, arms)) is not None:
        whole["action_context"] = features.matrix(log.features[rows])
    elif features.names:
        dense["action_context"] = ((len(features.names),), np.float64, lambda piece, fill: (
            np.stack([fill(x, 0.0) for x in features.matrix(piece.features).T], axis=2)
        ))  # fmt: skip
    if not log.candidates["probability"].filter(_used(log)).null_count():
        dense["pi_b"] = ((1,), np.float64, lambda piece, fill: (
            fill(piece.candidates["probability"].to_numpy(), 0.0)[:, :, None]))  # fmt: skip
    for name, values in whole.items():
        yield name, partial(np.lib.format.write_array, array=values, allow_pickle=False)
    for name, (further, dtype, of) in dense.items():
        shape = (len(d), arms.count, *further)
        yield name, partial(_write, log=log, arms=arms, shape=shape, dtype=np.dtype(dtype), of=of)


def _write(
    stream: IO[bytes], log: DecisionLog, arms: _Arms, shape: tuple[int, ...], dtype: np.dtype[Any],
    of: Callable[[DecisionLog, Fill], NDArray[Any]],
) -> None:  # fmt: skip
    """Write an array with all arms in every round, piece by piece."""
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(
        stream, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    begin = 0
    for piece in log.pieces():
        weighted, used = piece.weighted, _used(piece).to_numpy()
        row = np.repeat(np.cumsum(weighted) - 1, piece.lengths)[used]
        at = row, arms.of[begin : begin + len(used)][used]
        begin += len(used)

        def fill(
            values: NDArray[Any], otherwise: float, at: Any = at, used: Flags = used,
            rows: int = int(weighted.sum()),
        ) -> NDArray[Any]:  # fmt: skip
            block = np.full((rows, arms.count), otherwise, values.dtype)
            block[at] = values[used]
            return block

        stream.write(np.ascontiguousarray(of(piece, fill), dtype).tobytes())


def _used(log: DecisionLog) -> pl.Series:
    """Return which candidates are written: feasible ones of decisions in weights."""
    return pl.Series(np.repeat(log.weighted, log.lengths)) & log.candidates["feasible"]


class _Columns:
    """Numbers of a frame: its own, and a flag per level of a category."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.names: list[str] = []
        self._levels: dict[str, Ints] = {}
        for name, dtype in frame.schema.items():
            if dtype == pl.Float64:
                self.names.append(name)
                continue
            known = frame[name].unique().drop_nulls().sort()
            self._levels[name] = known.to_physical().to_numpy().astype(np.int64)
            self.names += [f"{name}={level}" for level in known.cast(pl.String)]

    def matrix(self, frame: pl.DataFrame) -> Array:
        """Return the numbers (rows, names); NaN where one is missing."""
        return design(frame, frame.height, self._levels, missing=float("nan"))


def _constant(log: DecisionLog, arms: _Arms) -> Ints | None:
    """Return a row of each arm if its features never change, else None."""
    if not arms.ids:
        return None
    used = _used(log)
    frame = log.features.with_columns(
        pl.Series("\0arm", arms.of), pl.int_range(pl.len()).alias("\0row")
    ).filter(used)
    found = (
        frame.group_by("\0arm")
        .agg(pl.col("\0row").first(), pl.col(*log.features.columns).n_unique())
        .sort("\0arm")
    )
    if (found.select(log.features.columns).to_numpy() > 1).any():
        return None
    return found["\0row"].to_numpy().astype(np.int64)
