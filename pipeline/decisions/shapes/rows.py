"""Reader of long tables: a row is a candidate, the rows of a decision share its id.

Rows of one decision need not be adjacent. If an id comes again, a pass over the ids finds those
whose rows are apart; the next groups the others as they come, so that memory holds a decision once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.decisions.batch import (
    CANDIDATE_COLUMNS,
    DECISION_COLUMNS,
    TERM,
    Batch,
    Ints,
    Reading,
    Reasons,
    always,
    first_true,
    frame_of,
    not_as,
    sums,
)
from hindcast.pipeline.decisions.mapping import DecisionMapping
from hindcast.pipeline.decisions.shapes.tables import Piece, Tables
from hindcast.pipeline.decisions.values import (
    Array,
    Flags,
    flags,
    numbers,
    repeats,
    strings,
    texts,
    times,
)

_LINE: Final = "\x00line"
_FILE: Final = "\x00file"
_PLACE: Final = "\x00place"
_TEXTS: Final = ("session", "unit", "slot", "logger")
DIFFERS: Final = "the same id with other content"


class IdsReturn(Exception):
    """An id that comes again, apart from its other rows."""


def read_rows(
    tables: Tables, mapping: DecisionMapping, reading: Reading, apart: bool = False
) -> Iterator[Batch]:
    """Yield the decisions of long tables.

    Raises IdsReturn, at the latest after the last batch, if rows of a decision are not adjacent;
    with `apart`, such decisions are yielded whole in the last batch.
    """
    columns, candidates = mapping.columns, mapping.candidates
    feasible = columns.feasible or candidates.feasible
    of_decision = columns_of_decisions(mapping)
    wanted = tables.require([
        columns.decision, *of_decision, columns.candidate, columns.chosen, feasible,
        columns.sampled, columns.propensity, columns.probability, *columns.terms,
        *candidates.numbers.values(), *candidates.categories.values(),
    ])  # fmt: skip
    texts_of = {
        columns.decision, columns.candidate, columns.chosen, feasible, columns.sampled,
        *candidates.categories.values(), *mapping.context.categories.values(),
        *(getattr(columns, name) for name in ("overridden", "time", *_TEXTS)),
    }  # fmt: skip
    figures = [name for name in wanted if name not in texts_of]

    away = _apart(tables, columns.decision) if apart else pl.Series([], dtype=pl.UInt64)
    group = _Grouping(mapping, reading, of_decision, feasible, figures)
    batches = _grouped(tables.pieces(wanted, figures), columns.decision, group, away)
    yield from batches if apart else _without_returns(batches)


def _without_returns(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield batches; raise IdsReturn as soon as it is seen that an id came before."""
    ids: list[NDArray[np.uint64]] = []
    seen = checked = 0
    for batch in chain(batches, [None]):
        if batch is not None:
            ids.append(batch.decisions["id"].hash(seed=1).to_numpy())
            seen += len(batch)
        if ids and (batch is None or seen >= 2 * checked):
            checked = seen
            if repeats(np.concatenate(ids)):
                raise IdsReturn
        if batch is not None:
            yield batch


def _grouped(
    pieces: Iterator[Piece], decision: str, group: "_Grouping", apart: pl.Series
) -> Iterator[Batch]:
    """Yield the decisions of pieces; those of `apart`, the hashes of ids, in the last batch."""
    reading = group.reading
    held: list[pl.DataFrame] = []
    rest: pl.DataFrame | None = None
    for piece in pieces:
        rows = piece.rows.with_columns(
            pl.Series(_LINE, np.arange(piece.line, piece.line + piece.rows.height)),
            pl.lit(piece.file, pl.Int32).alias(_FILE),
        )
        named = rows[decision].is_not_null()
        if not named.all():
            for line in rows.filter(~named)[_LINE].to_list():
                reading.rejected.append((piece.file, line, None, "no id of the decision"))
            rows = rows.filter(named)
        if len(apart):
            away = rows[decision].cast(pl.String).hash(seed=1).is_in(apart.implode())
            held.append(rows.filter(away))
            rows = rows.filter(~away)
        if rest is not None:
            rows = pl.concat([rest, rows], how="vertical_relaxed")
        if not rows.height:
            rest = None
            continue
        ids = rows[decision]
        others = (ids != ids[-1]).arg_true()  # the last decision may go on in the next piece
        cut = int(others[-1]) + 1 if len(others) else 0
        rest = rows[cut:]
        if cut:
            yield group(rows[:cut])
    if rest is not None and rest.height:
        yield group(rest)
    if held:
        rows = pl.concat(held, how="vertical_relaxed")
        if rows.height:
            place = pl.Series(_PLACE, np.arange(rows.height))
            first = pl.col(_PLACE).min().over(decision)
            yield group(rows.with_columns(place).sort(first, maintain_order=True).drop(_PLACE))


def _draws(mapping: DecisionMapping) -> str:
    draws = mapping.propensity.draws
    return draws if isinstance(draws, str) else ""


def _apart(tables: Tables, decision: str) -> pl.Series:
    """Return the hashes of the ids whose rows are not adjacent."""
    runs, last = [], None
    for piece in tables.pieces([decision]):
        hashes = piece.rows[decision].drop_nulls().cast(pl.String).hash(seed=1).to_numpy()
        if not len(hashes):
            continue
        starts = np.concatenate([[last is None or hashes[0] != last], hashes[1:] != hashes[:-1]])
        runs.append(hashes[starts])
        last = hashes[-1]
    if not runs:
        return pl.Series([], dtype=pl.UInt64)
    all_runs = pl.Series(np.concatenate(runs))
    return all_runs.filter(all_runs.is_duplicated()).unique()


class _Grouping:
    """The making of decisions from rows whose ids are contiguous."""

    def __init__(
        self, mapping: DecisionMapping, reading: Reading, of_decision: Sequence[str],
        feasible: str, figures: Sequence[str],
    ) -> None:  # fmt: skip
        self.mapping, self.reading, self.figures = mapping, reading, figures
        self.of_decision, self.feasible = of_decision, feasible
        self.by_flag: bool | None = None  # does `chosen` hold flags, or ids?

    def __call__(self, rows: pl.DataFrame) -> Batch:
        columns = self.mapping.columns
        rows, offsets, candidate, alike = self._distinct(self._with_numbers(rows))
        starts, lengths = offsets[:-1], np.diff(offsets)
        count = len(lengths)
        reasons = Reasons([None] * count)

        def mark_rows(where: Flags, text: Callable[[int], str]) -> None:
            reasons.mark_rows(where, offsets, text)

        firsts = self._first_values(rows, offsets, reasons)
        mark_rows(alike, always(DIFFERS))
        chosen = self._choice(columns.chosen, rows, candidate, offsets, reasons)
        meta: dict[str, object] = {
            "id": rows[columns.decision].cast(pl.String)[starts],
            "file": rows[_FILE].to_numpy()[starts],
            "line": rows[_LINE].to_numpy()[starts],
            "chosen": chosen,
        }
        if columns.sampled:
            meta["sampled"] = self._drawn(rows, candidate, offsets)
        taken = np.where(chosen >= 0, starts + np.maximum(chosen, 0), starts)
        for name in columns.terms:
            values, bad = numbers(rows[name][taken])
            reasons.mark(bad, not_as(name, rows[name][taken], "a finite number"))
            meta[TERM + name] = values
        if columns.propensity:
            drawn = taken
            if columns.sampled:
                sampled = np.asarray(meta["sampled"])
                drawn = np.where(sampled >= 0, starts + np.maximum(sampled, 0), taken)
            values, bad = numbers(rows[columns.propensity][drawn])
            if columns.sampled:  # it may stand in the row of the served candidate
                other, _ = numbers(rows[columns.propensity][taken])
                values = np.where(np.isnan(values), other, values)
            reasons.mark(
                bad, not_as("the propensity", rows[columns.propensity][drawn], "a finite number")
            )
            meta["propensity"] = values
        frame: dict[str, object] = {"id": _positions(lengths) if candidate is None else candidate}
        if self.feasible:
            said, bad = flags(rows[self.feasible])
            mark_rows(bad, not_as(self.feasible, rows[self.feasible], "0 or 1"))
            frame["feasible"] = said != 0
        if columns.probability:
            values, bad = numbers(rows[columns.probability])
            mark_rows(bad, not_as(columns.probability, rows[columns.probability], "a number"))
            frame["probability"] = values
        features: dict[str, object] = {}
        for name, column in self.mapping.candidates.numbers.items():
            values, bad = numbers(rows[column])
            mark_rows(bad, not_as(column, rows[column], "a finite number"))
            features[name] = values
        for name, column in self.mapping.candidates.categories.items():
            features[name] = texts(rows[column])
        context = decision_columns(firsts, self.mapping, meta, reasons, self.reading)
        meta["reason"] = reasons.series
        return Batch(
            frame_of(meta, DECISION_COLUMNS, count), pl.DataFrame(context),
            frame_of(frame, CANDIDATE_COLUMNS, rows.height), pl.DataFrame(features), lengths,
        )  # fmt: skip

    def _with_numbers(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows whose texts are numbers, column by column, where all of them are some."""
        found = [
            rows[name].cast(pl.Float64, strict=False)
            for name in self.figures
            if rows.schema[name] == pl.String
        ]
        read = [c for c in found if c.null_count() == rows[c.name].null_count()]
        return rows.with_columns(read) if read else rows

    def _distinct(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, Ints, pl.Series | None, Flags]:
        """Return the rows without those that repeat another one of their decision.

        With them come their offsets, the ids of the candidates, and which ids a decision has twice.
        """
        columns = self.mapping.columns
        offsets = _offsets(rows[columns.decision])
        candidate = texts(rows[columns.candidate]) if columns.candidate else None
        if candidate is not None and not (alike := _alike(candidate, offsets)).any():
            return rows, offsets, candidate, alike
        content = [c for c in rows.columns if c not in (_LINE, _FILE)]
        again = rows.select(content).is_duplicated()
        if again.any():
            ids = rows.filter(again)[columns.decision].unique()
            there = rows[columns.decision].is_in(ids.implode())
            repeated = rows.filter(there)
            if columns.candidate:
                keep = repeated.select(pl.struct(content).is_first_distinct()).to_series()
            else:  # candidates without ids may be alike: only whole decisions are repetitions
                seen = pl.len().over(content)
                whole = seen.min().over(columns.decision)
                frame = repeated.select(
                    seen.alias("seen"), whole.alias("whole"),
                    pl.struct(content).cum_count().over(content).alias("place"),
                    (seen % whole == 0).all().over(columns.decision).alias("alike"),
                )  # fmt: skip
                keep = frame.select(
                    ~pl.col("alike") | (pl.col("place") <= pl.col("seen") // pl.col("whole"))
                ).to_series()
            self.reading.count("repeated_rows", int((~keep).sum()))
            stays = np.ones(rows.height, bool)
            stays[there.arg_true().to_numpy()] = keep.to_numpy()
            rows = rows.filter(pl.Series(stays))
            candidate = None if candidate is None else candidate.filter(pl.Series(stays))
            offsets = _offsets(rows[columns.decision])
        alike = np.zeros(rows.height, bool) if candidate is None else _alike(candidate, offsets)
        return rows, offsets, candidate, alike

    def _first_values(
        self, rows: pl.DataFrame, offsets: Ints, reasons: Reasons
    ) -> dict[str, pl.Series]:
        """Return the columns that belong to decisions: the first value of each decision."""
        starts, lengths = offsets[:-1], np.diff(offsets)
        result = {}
        for name in self.of_decision:
            values = rows[name]
            if not values.null_count():
                changed = (values[1:] != values[:-1]).to_numpy().copy()
                changed[starts[1:] - 1] = False
                if not changed.any():
                    result[name] = values[starts]
                    continue
            there = values.is_not_null().to_numpy()
            first = starts + np.maximum(first_true(there, offsets), 0)
            result[name] = values[first]
            other = (values != values[np.repeat(first, lengths)]).fill_null(value=False).to_numpy()
            if other.any():
                reasons.mark(sums(other, offsets) > 0, always(f"{DIFFERS} ({name})"))
        return result

    def _choice(
        self, name: str, rows: pl.DataFrame, candidate: pl.Series | None, offsets: Ints,
        reasons: Reasons,
    ) -> Ints:  # fmt: skip
        """Return the positions of the chosen candidates, -1 where it is not clear."""
        said, bad = flags(rows[name])
        if self.by_flag is None:
            self.by_flag = candidate is None or not bad.any()
        if self.by_flag:
            reasons.mark_rows(bad, offsets, not_as(name, rows[name], "0 or 1"))
            found = said == 1
        else:
            assert candidate is not None
            found = (
                (texts(rows[name]).cast(pl.String) == candidate.cast(pl.String))
                .fill_null(value=False)
                .to_numpy()
            )
        taken = sums(found, offsets)
        reasons.mark(taken > 1, lambda d: f"{int(taken[d])} candidates are chosen, expected one")
        if self.by_flag:
            reasons.mark(taken == 0, always("no candidate is chosen"))
        else:
            stated = rows[name][offsets[:-1]]
            reasons.mark(taken == 0, lambda d: f"chosen {stated[d]!r} is not among the candidates")
        return np.where(taken == 1, first_true(found, offsets), -1)

    def _drawn(self, rows: pl.DataFrame, candidate: pl.Series | None, offsets: Ints) -> Ints:
        """Return the positions of the drawn candidates, -1 where it is not said."""
        values = rows[self.mapping.columns.sampled]
        said, bad = flags(values)
        if candidate is None or not bad.any():
            return first_true(said == 1, offsets)
        same = texts(values).cast(pl.String) == candidate.cast(pl.String)
        return first_true(same.fill_null(value=False).to_numpy(), offsets)


def _alike(candidate: pl.Series, offsets: Ints) -> Flags:
    """Return which rows have a candidate that their decision has twice."""
    codes = candidate.to_physical()
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    alike = np.zeros(len(owner), bool)
    key = (owner << 32) | codes.fill_null(0).cast(pl.Int64).to_numpy()
    if codes.null_count():
        key = np.where(codes.is_null().to_numpy(), -1 - np.arange(len(key)), key)
    elif (key[1:] > key[:-1]).all():
        return alike
    order = np.argsort(key, kind="stable")
    same = key[order][1:] == key[order][:-1]
    alike[order[1:][same]] = alike[order[:-1][same]] = True
    return alike


def _offsets(ids: pl.Series) -> Ints:
    """Return where each run of equal ids begins, and the number of ids."""
    starts = np.flatnonzero((ids[1:] != ids[:-1]).to_numpy()) + 1
    return np.concatenate([[0], starts, [len(ids)]]).astype(np.int64)


def columns_of_decisions(mapping: DecisionMapping) -> list[str]:
    """Return the columns that `decision_columns` reads, each once."""
    columns = mapping.columns
    named = (
        columns.session, columns.unit, columns.slot, columns.time, columns.logger, columns.keep,
        columns.drop, columns.overridden, _draws(mapping), *mapping.context.numbers.values(),
        *mapping.context.categories.values(),
    )  # fmt: skip
    return [name for name in dict.fromkeys(named) if name]


def decision_columns(
    firsts: Mapping[str, pl.Series],
    mapping: DecisionMapping,
    meta: dict[str, object],
    reasons: Reasons,
    reading: Reading,
) -> dict[str, object]:
    """Fill `meta` with what belongs to decisions; return the features of the context.

    `firsts` are the raw values by column. Decisions with a bad value get a reason.
    """
    columns = mapping.columns

    def number(name: str) -> Array:
        values, bad = numbers(firsts[name])
        reasons.mark(bad, not_as(name, firsts[name], "a finite number"))
        return values

    for name in _TEXTS:
        if column := getattr(columns, name):
            meta[name] = strings(firsts[column])
    if columns.time:
        values, bad, local = times(firsts[columns.time], mapping.time_zone)
        reasons.mark(bad, not_as("the time", firsts[columns.time], "a time"))
        meta["time"] = values
        if local:
            reading.note(f"times without a zone are read as {mapping.time_zone}")
    meta["weight"] = weights(mapping, number, reasons)
    if columns.overridden:
        said, bad = flags(firsts[columns.overridden])
        reasons.mark(bad, not_as(columns.overridden, firsts[columns.overridden], "0 or 1"))
        meta["overridden"] = said == 1
    if draws := _draws(mapping):
        meta["draws"] = number(draws)
    context: dict[str, object] = {
        name: number(column) for name, column in mapping.context.numbers.items()
    }
    for name, column in mapping.context.categories.items():
        context[name] = texts(firsts[column])
    return context


def weights(
    mapping: DecisionMapping,
    number: Callable[[str], Array],
    reasons: Reasons,
) -> Array | None:
    """Return the weights 1 / keep of decisions, or None if all records were kept."""
    columns = mapping.columns
    if not (columns.keep or columns.drop):
        return None
    keep = number(columns.keep) if columns.keep else 1.0 - number(columns.drop)
    reasons.mark(
        ~(keep > 0) | (keep > 1),
        lambda d: f"kept with probability {keep[d]:g}, expected 0 < p <= 1",
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        result = np.where((keep > 0) & (keep <= 1), 1.0 / keep, 1.0)
    return np.asarray(result)


def _positions(lengths: Ints) -> pl.Series:
    """Return the positions of the candidates in their decisions, as ids."""
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return pl.Series(np.arange(int(lengths.sum())) - starts).cast(pl.String).cast(pl.Categorical)
