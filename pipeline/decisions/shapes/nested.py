"""Reader of nested records: a record is a decision, with the list of its candidates.

    {"id": "r1", "candidate_models": ["ash", "elm"], "price": {"ash": .2, "elm": .7},
     "selected_model": "elm", "propensity": .26}

Candidates are objects or names. What belongs to a candidate stands in its object, in a map by its
name beside the list, or in a list as long as that of the candidates.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import polars as pl

from hindcast.pipeline.decisions.batch import TERM, Batch, Reading
from hindcast.pipeline.decisions.mapping import DecisionMapping
from hindcast.pipeline.decisions.shapes.records import (
    BATCH,
    MOST_CANDIDATES,
    Collector,
    records_of,
    require_depth,
)
from hindcast.pipeline.decisions.shapes.tables import Tables, is_parquet, name_of, no_column
from hindcast.pipeline.decisions.values import FALSE, MISSING, TRUE, as_series, text_of, times
from hindcast.pipeline.errors import TraceError

_SAMPLE: Final = 1000  # records looked at to see where things stand
_NAN: Final = float("nan")
_SORTED: Final = orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS

Source = Path | pl.DataFrame | list[dict[str, Any]]
Get = Callable[[Mapping[str, Any]], Any]
Record = tuple[int, int, dict[str, Any]]  # file, line, record


class Bad(Exception):  # ends the reading of one record only
    """The reason why a record is no usable decision."""


def getter(path: str) -> Get:
    """Return a function that reads a dotted path; a key that has the dots itself comes first."""
    steps = path.split(".")

    def get(record: Mapping[str, Any]) -> Any:
        if path in record:
            return record[path]
        value: Any = record
        for step in steps:
            if isinstance(value, Mapping):
                value = value.get(step)
            elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            else:
                return None
        return value

    return get


def records(sources: Iterable[Source], reading: Reading) -> Iterator[Record]:
    """Yield the records of JSON lines, Parquet files, frames and lists."""
    for file, source in enumerate(sources):
        if isinstance(source, list):
            for line, record in enumerate(source, start=1):
                yield file, line, record
        elif isinstance(source, pl.DataFrame) or is_parquet(source):
            for piece in Tables([source]).pieces():
                for place, record in enumerate(piece.rows.iter_rows(named=True)):
                    yield file, piece.line - 1 + place, record
        else:
            for line, record, _ in records_of(source, file, reading):
                yield file, line, record


def read_nested(
    sources: list[Source], mapping: DecisionMapping, reading: Reading
) -> Iterator[Batch]:
    """Yield the decisions of nested records."""
    sample = []
    for _, _, example in records(sources, Reading()):
        sample.append(example)
        if len(sample) >= _SAMPLE:
            break
    if not sample:
        return
    require_depth(sample[0], f"{name_of(sources[0])}: the first record")
    reader = _Reader(mapping, sample, name_of(sources[0]))
    collector = Collector(reader.names, _NAN)
    raw_times: list[Any] = []
    for file, line, record in records(sources, reading):
        reader.read(collector, raw_times, file, line, record)
        if len(collector) >= BATCH:
            yield _timed(collector.batch(), raw_times, mapping, reading)
            raw_times = []
    if len(collector):
        yield _timed(collector.batch(), raw_times, mapping, reading)


def _timed(batch: Batch, raw: list[Any], mapping: DecisionMapping, reading: Reading) -> Batch:
    """Return a batch with its times, read from `raw` (D,); one that cannot be read is a reason."""
    if not mapping.columns.time:
        return batch
    series = as_series(raw)
    found, bad, local = times(series, mapping.time_zone)
    if local:
        reading.note(f"times without a zone are read as {mapping.time_zone}")
    reasons = batch.decisions["reason"].to_list()
    for decision in np.flatnonzero(bad):
        reasons[decision] = reasons[decision] or f"the time {raw[decision]!r} cannot be read"
    decisions = batch.decisions.with_columns(
        pl.Series("time", found).fill_nan(None), pl.Series("reason", reasons, dtype=pl.String)
    )
    return replace(batch, decisions=decisions)


class _Reader:
    """The reader of single records, made from the mapping and a sample of records."""

    def __init__(self, mapping: DecisionMapping, sample: list[dict[str, Any]], where: str) -> None:
        self.mapping, self.where = mapping, where
        columns, candidates = mapping.columns, mapping.candidates
        self.get: dict[str, Get] = {}
        for name in ("decision", "session", "unit", "slot", "logger", "time", "chosen", "sampled",
                     "overridden", "propensity", "keep", "drop"):  # fmt: skip
            if path := getattr(columns, name):
                self.get[name] = getter(path)
        draws = mapping.propensity.draws
        if isinstance(draws, str) and draws:
            self.get["draws"] = getter(draws)
        self.list = getter(candidates.list)
        self.id = getter(candidates.id) if candidates.id else None
        self.terms = {name: getter(name) for name in columns.terms}
        self.context_numbers = {n: getter(p) for n, p in mapping.context.numbers.items()}
        self.context_texts = {n: getter(p) for n, p in mapping.context.categories.items()}
        lists = [each for r in sample if isinstance(each := self.list(r), list | np.ndarray)]
        listed = [c for each in lists for c in each if isinstance(c, Mapping)]
        if not lists:
            self._lacks(candidates.list, sample)

        def of(path: str) -> tuple[bool, Get]:
            """Return whether a path is in the objects of the list, and its getter."""
            get = getter(path)
            inside = any(get(c) is not None for c in listed)
            if not inside and not any(get(r) is not None for r in sample):
                self._lacks(path, [*sample, *listed])
            return inside, get

        self.numbers = {name: of(path) for name, path in candidates.numbers.items()}
        self.texts = {name: of(path) for name, path in candidates.categories.items()}
        feasible = candidates.feasible or columns.feasible
        self.feasible = of(feasible) if feasible else None
        probability = columns.probabilities or columns.probability
        self.probability = of(probability) if probability else None
        for name in (columns.decision, columns.propensity, columns.time, *columns.terms):
            if name and not any(_has(r, name) for r in sample):
                self._lacks(name, sample)
        inside = any(self.get["chosen"](c) is not None for c in listed)
        outside = any(self.get["chosen"](r) is not None for r in sample)
        self.flagged = inside and not outside
        if not inside and not outside:
            self._lacks(columns.chosen, [*sample, *listed])
        self.by_id = not self.flagged and self._by_id(sample, "chosen")
        self.sampled_by_id = "sampled" in self.get and self._by_id(sample, "sampled")
        self.names = ["id", "session", "unit", "slot", "logger", "file", "line", "chosen",
                      "sampled", "overridden", "propensity", "draws", "weight", "content",
                      "reason", *(TERM + name for name in self.terms)]  # fmt: skip

    def _lacks(self, path: str, sample: list[Any]) -> None:
        raise no_column(self.where, path, sorted({key for r in sample for key in _paths(r)}))

    def _by_id(self, sample: list[dict[str, Any]], what: str) -> bool:
        """Return whether a column names candidates by their ids rather than their positions."""
        get = self.get[what]
        matches = positions = 0
        for record in sample:
            value, listed = get(record), self.list(record)
            if value is None or not isinstance(listed, list):
                continue
            if isinstance(value, str) and not value.strip().lstrip("-").isdigit():
                return True
            ids = [self._id(c, k) for k, c in enumerate(listed)]
            matches += text_of(value) in ids
            positions += 0 <= _place(value) < len(ids)
        return matches > 0 and matches >= positions

    def _id(self, candidate: Any, position: int) -> str | None:
        if isinstance(candidate, dict):
            return text_of(self.id(candidate)) if self.id else str(position)
        return text_of(candidate)

    def read(
        self, to: Collector, raw_times: list[Any], file: int, line: int,
        record: dict[str, Any],
    ) -> None:  # fmt: skip
        """Add the decision of a record; what cannot be used has a reason."""
        get, reason = self.get, None
        meta: dict[str, Any] = {"file": file, "line": line}
        start, owner = len(to.ids), len(to.lengths)
        meta["content"] = hash(_text(record)) & 0xFFFFFFFFFFFFFFFF
        for name, key in (("id", "decision"), ("session", "session"), ("unit", "unit"),
                          ("slot", "slot"), ("logger", "logger")):  # fmt: skip
            if key in get:
                meta[name] = text_of(get[key](record))
        listed = self.list(record)
        listed = listed if isinstance(listed, list) else []
        if len(listed) > MOST_CANDIDATES:
            raise TraceError(
                f"{self.where}: line {line} has {len(listed):,} candidates, "
                f"expected at most {MOST_CANDIDATES:,}"
            )
        ids = [self._id(c, k) for k, c in enumerate(listed)]
        to.ids.extend(ids)
        to.lengths.append(len(ids))
        try:
            self._candidates(to, record, listed, ids, start)
            self._decision(to, meta, record, listed, ids, owner)
        except Bad as error:
            reason = str(error)
            to.fill()
        raw_times.append(get["time"](record) if "time" in get else None)
        to.add(meta | {"reason": reason})

    def _candidates(
        self, to: Collector, record: dict[str, Any], listed: list[Any],
        ids: list[str | None], start: int,
    ) -> None:  # fmt: skip
        """Add the candidates of a record; raise Bad if they cannot be used."""
        if not listed:
            raise Bad("no candidates")
        if len(set(ids)) < len(ids):
            raise Bad("two candidates have the same id")
        count = len(ids)
        if self.feasible is None:
            feasible = [True] * count
        else:
            values = _each(self.feasible, record, listed, ids)
            feasible = [v is None or flag(v, "feasible") for v in values]
        to.feasible.extend(feasible)
        if self.probability is None:
            to.probability.extend([_NAN] * count)
        else:
            values = _each(self.probability, record, listed, ids)
            to.probability.extend([number(v, "a probability") for v in values])
        for name, place in self.numbers.items():
            put = to.features.number
            values = _each(place, record, listed, ids)
            if {*map(type, values)} == {float} and math.isfinite(sum(values)):
                to.features.numbers_from(name, start, values)
                continue
            for k, v in enumerate(values):
                if v is not None:
                    put(name, start + k, number(v, name))
        for name, place in self.texts.items():
            for k, v in enumerate(_each(place, record, listed, ids)):
                if (said := text_of(v)) is not None:
                    to.features.text(name, start + k, said)

    def _decision(
        self, to: Collector, meta: dict[str, Any], record: dict[str, Any], listed: list[Any],
        ids: list[str | None], owner: int,
    ) -> None:  # fmt: skip
        """Add what a record says of its decision; raise Bad if it cannot be used."""
        get = self.get
        if "decision" in get and meta.get("id") is None:
            raise Bad("no id of the decision")
        if self.flagged:
            taken = [k for k, c in enumerate(listed)
                     if (v := get["chosen"](c)) is not None and flag(v, "chosen")]  # fmt: skip
            if len(taken) != 1:
                raise Bad(f"{len(taken)} candidates are chosen, expected one" if taken
                          else "no candidate is chosen")  # fmt: skip
            meta["chosen"] = taken[0]
        else:
            meta["chosen"] = position(get["chosen"](record), ids, self.by_id, "chosen")
        if "sampled" in get and (drawn := get["sampled"](record)) is not None:
            meta["sampled"] = position(drawn, ids, self.sampled_by_id, "sampled")
        if "overridden" in get and (said := get["overridden"](record)) is not None:
            meta["overridden"] = flag(said, "overridden")
        if "propensity" in get:
            at = meta.get("sampled", meta["chosen"])
            value = get["propensity"](record)
            if isinstance(value, list) and len(value) == len(ids):
                value = value[at]
            elif isinstance(value, Mapping):
                value = value.get(ids[at])
            meta["propensity"] = number(value, "the propensity")
        if "draws" in get:
            meta["draws"] = number(get["draws"](record), "the number of draws")
        if "keep" in get or "drop" in get:
            keep = number(get["keep"](record), "keep") if "keep" in get else (
                1.0 - number(get["drop"](record), "drop"))  # fmt: skip
            if not 0.0 < keep <= 1.0:
                raise Bad(f"kept with probability {keep:g}, expected 0 < p <= 1")
            meta["weight"] = 1.0 / keep
        for name, read in self.terms.items():
            meta[TERM + name] = number(read(record), name)
        for name, read in self.context_numbers.items():
            value = number(read(record), name)
            if not math.isnan(value):
                to.context.number(name, owner, value)
        for name, read in self.context_texts.items():
            if (said := text_of(read(record))) is not None:
                to.context.text(name, owner, said)


def _each(
    place: tuple[bool, Get], record: dict[str, Any], listed: list[Any], ids: list[str | None]
) -> list[Any]:
    """Return a value per candidate: of its object, or of what stands beside the list."""
    inside, get = place
    if inside:
        return [get(c) if isinstance(c, dict) else None for c in listed]
    return beside(get(record), ids)


def beside(values: Any, ids: Sequence[str | None]) -> list[Any]:
    """Return a value per candidate: of a map by its id, of a list, or of one for all."""
    if isinstance(values, Mapping):
        return [values.get(name) for name in ids]
    if isinstance(values, list):
        if len(values) != len(ids):
            raise Bad(f"a list of {len(values)} values beside {len(ids)} candidates")
        return values
    return [values] * len(ids)


def number(value: Any, what: str) -> float:
    """Return a number of JSON, NaN if it is missing; raise Bad if it is none or infinite."""
    if value is None:
        return _NAN
    if type(value) is float and math.isfinite(value):
        return value
    try:
        result = float(value)
    except (TypeError, ValueError):
        if isinstance(value, str) and value.strip().lower() in MISSING:
            return _NAN
        raise Bad(f"{what} is {value!r:.60}, expected a number") from None
    except OverflowError:  # a whole number may have hundreds of digits
        result = math.inf
    if math.isinf(result):
        raise Bad(f"{what} is {value!r:.60}, expected a finite number")
    return result


def flag(value: Any, what: str) -> bool:
    """Return a flag of JSON; raise Bad if it is none."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in TRUE:
        return True
    if text in FALSE or text in MISSING:
        return False
    raise Bad(f"{what} is {value!r:.60}, expected true or false")


def position(value: Any, ids: list[str | None], by_id: bool, what: str) -> int:
    """Return the position of a candidate that is named by its id or by its position."""
    if value is None:
        raise Bad("no candidate is chosen" if what == "chosen" else f"no candidate is {what}")
    if by_id:
        text = text_of(value)
        if text in ids:
            return ids.index(text)
    else:
        at = _place(value)
        if 0 <= at < len(ids):
            return at
    raise Bad(f"{what} {value!r:.60} is not among the candidates")


def _text(record: dict[str, Any]) -> bytes | str:
    """Return a text that is the same for the same content, whatever the order of its keys."""
    try:
        return orjson.dumps(record, default=str, option=_SORTED)
    except orjson.JSONEncodeError:  # an integer beyond 64 bits
        return json.dumps(record, sort_keys=True, default=str)


def _place(value: Any) -> int:
    """Return the whole number that a value of JSON is, -1 if it is none."""
    try:
        at = float(value)
        return int(at) if at.is_integer() else -1
    except (TypeError, ValueError, OverflowError):
        return -1


def _has(record: Mapping[str, Any], path: str) -> bool:
    """Return whether a record has a path, even if its value is null."""
    if path in record:
        return True
    parent, _, last = path.rpartition(".")
    inner = getter(parent)(record) if parent else record
    return isinstance(inner, Mapping) and last in inner


def _paths(record: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(record, Mapping):
        for key, value in record.items():
            yield f"{prefix}{key}"
            if isinstance(value, Mapping) and prefix.count(".") < 3:
                yield from _paths(value, f"{prefix}{key}.")
