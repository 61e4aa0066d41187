"""Records of decisions that are still to be made, as the features of a log's learners.

    nested          {"id": "r1", "models": ["ash", "elm"], "price": {"ash": .2, "elm": .7}}
                    a record as in the log, without its choice and its reward
    rows, wide,     {"id": "r1", "load": .4, "candidates": [{"arm": "ash", "price": .2}, ...]}
    obp, obd        columns of the decision, and an object per candidate with its columns
    dsjson, cb_adf  {"EventId": "r1", "c": {"load": .4, "_multi": [{"_tag": "ash", ...}, ...]}}

A record with its choice, as `logged` returns it, is read by `hindcast ingest decisions` with the
mapping of `mapping_of_log`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from hindcast.pipeline.decisions.encoding import CONSTANT, REST
from hindcast.pipeline.decisions.live.description import SIDES, VOWPAL, Description
from hindcast.pipeline.decisions.log import Array, Flags
from hindcast.pipeline.decisions.mapping import (
    Candidates,
    Columns,
    Context,
    DecisionMapping,
    Outcomes,
    Propensities,
)
from hindcast.pipeline.decisions.shapes import obd, obp
from hindcast.pipeline.decisions.shapes.dsjson import OWN
from hindcast.pipeline.decisions.shapes.nested import Bad, beside, flag, getter, number
from hindcast.pipeline.decisions.shapes.records import MOST_CANDIDATES, require_depth
from hindcast.pipeline.decisions.values import text_of
from hindcast.pipeline.errors import InputError

_COST: Final = "_label_cost"
_REWARDS: Final[Mapping[str, Mapping[str, Any]]] = {  # of shapes that name their reward
    "dsjson": {"cost": {_COST: 1.0}}, "cb_adf": {"cost": {_COST: 1.0}},
    "obp": {"reward": {obp.REWARD.partition(":")[2]: 1.0}},
    "obd": {"reward": {obd.CLICK.partition(":")[2]: 1.0}},
}  # fmt: skip

_Values = dict[str, Any]  # numbers and texts of a decision or a candidate, by their names


@dataclass(frozen=True)
class Moment:
    """A decision that is to be made.

    Attributes:
        id: Its id, None if the record has none.
        ids: Ids of the candidates; the position where a candidate has none.
        feasible: (N,) which candidates may be taken.
        context: (C,) features of the decision, NaN where a number is missing.
        candidates: (N, F) features of the candidates.
        unseen: Sentences about values that the training did not have.
    """

    id: str | None
    ids: tuple[str, ...]
    feasible: Flags
    context: Array
    candidates: Array
    unseen: tuple[str, ...]


class Records:
    """Records of one log, before and after their decisions.

    Attributes:
        description: Names of the log.
        mapping: Meaning of the records that `logged` returns, without file and outcomes.
    """

    def __init__(self, description: Description) -> None:
        self.description = description
        self.vowpal = description.mapping.shape in VOWPAL
        self.mapping = _vowpal(description) if self.vowpal else _nested(description)
        self._fills = {side: description.fills(side) for side in SIDES}
        self._numbers = {side: dict.fromkeys(description.numbers(side)) for side in SIDES}

    def read(self, record: Any, where: str) -> Moment:
        """Return the decision of a record; raise InputError, which begins with `where`."""
        if not isinstance(record, dict):
            raise InputError(
                f"{where}: the record is a {type(record).__name__}, expected an object"
            )
        require_depth(record, where)
        try:
            return (self._read_vowpal if self.vowpal else self._read_nested)(record)
        except (Bad, OverflowError) as error:  # a whole number may have thousands of digits
            raise InputError(f"{where}: {error}") from error

    def _read_nested(self, record: Mapping[str, Any]) -> Moment:
        """Return the decision of a record whose values the mapping finds; raise Bad."""
        m = self.mapping
        listed = _required(getter(m.candidates.list)(record), m.candidates.list)
        ids = tuple(self._id(c, k) for k, c in enumerate(listed))
        if len(set(ids)) < len(ids):
            raise Bad("two candidates have the same id")
        context, candidates = [dict[str, Any]()], [dict[str, Any]() for _ in ids]
        for side, rows, owners in (
            (m.context, context, None), (m.candidates, candidates, (listed, ids)),
        ):  # fmt: skip
            for name, path in side.numbers.items():
                for values, value in zip(rows, _each(record, path, owners), strict=True):
                    if (said := number(value, name)) == said:
                        values[name] = said
            for name, path in side.categories.items():
                for values, value in zip(rows, _each(record, path, owners), strict=True):
                    if (text := text_of(value)) is not None:
                        values[name] = text
        feasible = [True] * len(ids)
        if path := m.candidates.feasible:
            said_of_each = _each(record, path, (listed, ids))
            feasible = [v is None or flag(v, "feasible") for v in said_of_each]
        decision = _id(getter(m.columns.decision)(record))
        return self._moment(decision, ids, feasible, context, candidates)

    def _read_vowpal(self, record: Mapping[str, Any]) -> Moment:
        """Return the decision of a record of dsjson, whose candidates are `c._multi`; raise Bad."""
        c = record.get("c")
        if not isinstance(c, dict):
            raise Bad("`c` is no object, expected the context with `_multi`")
        if "_slots" in c:
            raise Bad("`c` has `_slots`, expected a record per slot, with its features in `c`")
        listed = _required(c.get("_multi"), "c._multi")
        if not all(isinstance(candidate, dict) for candidate in listed):
            raise Bad("c._multi holds what is no object, expected the features of each candidate")
        context, candidates = [_flat(c, {})], [_flat(candidate, {}) for candidate in listed]
        ids = tuple(str(candidate.get("_tag", k)) for k, candidate in enumerate(listed))
        feasible = _named(record.get("a"), len(ids))
        return self._moment(_id(record.get("EventId")), ids, feasible, context, candidates)

    def _id(self, candidate: Any, position: int) -> str:
        """Return the id of a candidate, which may be the candidate itself; else its position."""
        path = self.mapping.candidates.id
        if isinstance(candidate, Mapping):
            candidate = getter(path)(candidate) if path else None
        text = text_of(candidate)
        return str(position) if text is None else text

    def _moment(
        self, name: str | None, ids: tuple[str, ...], feasible: Sequence[bool],
        context: list[_Values], candidates: list[_Values],
    ) -> Moment:  # fmt: skip
        """Return the decision `name` with the features of the training; raise Bad.

        `context` has the values of the decision by name, in a list of one; `candidates` those of
        each candidate.
        """
        if not any(feasible):
            raise Bad(f"none of the {len(ids)} candidates is feasible")
        unseen = dict[str, None]()
        rows = {"context": context, "candidates": candidates}
        found = {}
        for side in SIDES:
            for values in rows[side]:
                self._typed(side, values)
                unseen |= dict.fromkeys(self._unseen(side, values))
            filled = [[fill(values) for fill in self._fills[side]] for values in rows[side]]
            # as in the dataset, whose numbers are of single precision
            with np.errstate(over="ignore"):
                found[side] = np.array(filled, np.float32).astype(np.float64)
            if not np.isfinite(found[side][~np.isnan(found[side])]).all():
                raise Bad(f"a number of the {side} is not finite")
        return Moment(
            name, ids, np.array(feasible, bool), found["context"][0], found["candidates"],
            tuple(unseen),
        )  # fmt: skip

    def _typed(self, side: str, values: dict[str, Any]) -> None:
        """Make numbers of a category texts, as in the log; raise Bad for a text as a number."""
        for name, value in values.items():
            text = isinstance(value, str)
            if text and name in self._numbers[side]:
                raise Bad(f"{name} is {value!r:.60}, expected a number")
            if not text and f"{side}.{name}" in self.description.levels:
                values[name] = f"{value:g}"

    def _unseen(self, side: str, values: Mapping[str, Any]) -> Iterable[str]:
        """Yield a sentence about each value of one side that the training did not have."""
        kinds, levels = self.description.kinds[side], self.description.levels
        if not self.vowpal:
            for name in self._numbers[side]:
                if name not in values and f"{name}_missing" not in kinds and [*kinds] != [CONSTANT]:
                    yield f"{name} is missing, which it never was in the log: read as 0"
        for name, value in values.items():
            known = levels.get(f"{side}.{name}")
            if known is None and name not in self._numbers[side]:
                yield f"{name} is no feature of the training: not read"
            elif known is not None and value not in known:
                yield f"{name} is {value!r:.60}, no level of the training: read as {name}={REST}"

    def logged(
        self, record: Mapping[str, Any], moment: Moment, name: str, choice: int,
        probabilities: Sequence[float], logger: str,
    ) -> dict[str, Any]:  # fmt: skip
        """Return a record with its decision, as `hindcast ingest decisions` reads it.

        It has what the mapping reads, and no other key of the record.
        """
        if self.vowpal:
            return _logged_vowpal(record, moment, name, choice, probabilities, logger)
        m, made = self.mapping, dict[str, Any]()
        columns = m.columns
        _put(made, columns.decision, name, record)
        for path in (columns.session, columns.unit, columns.slot, columns.time,
                     *m.context.numbers.values(), *m.context.categories.values()):  # fmt: skip
            if path:
                _put(made, path, getter(path)(record), record)
        of_each = [p for p in (m.candidates.feasible, *m.candidates.numbers.values(),
                               *m.candidates.categories.values()) if p]  # fmt: skip
        listed = getter(m.candidates.list)(record)
        objects: list[Any] = []
        for place, candidate in enumerate(listed):
            if not isinstance(candidate, Mapping):
                objects.append(candidate)
                continue
            kept: dict[str, Any] = {}
            if m.candidates.id:
                _put(kept, m.candidates.id, moment.ids[place], candidate)
            for path in of_each:
                if (value := getter(path)(candidate)) is not None:
                    _put(kept, path, value, candidate)
            objects.append(kept)
        for path in of_each:
            if (value := getter(path)(record)) is not None:
                _put(made, path, value, record)
        _put(made, m.candidates.list, objects, record)
        _put(made, columns.chosen, moment.ids[choice], record)
        _put(made, columns.propensity, probabilities[choice], record)
        _put(made, columns.probabilities, list(probabilities), record)
        _put(made, columns.logger, logger, record)
        return made

    def mapping_of_log(self, file: str, outcomes: str) -> DecisionMapping:
        """Return the mapping of a file of logged records, whose rewards are in another file."""
        later = self.description.mapping.outcomes
        if later is None:
            later = Outcomes(decision=self.id_name, **self._rewards())
        return replace(self.mapping, files=(file,), outcomes=replace(later, file=outcomes))

    def _rewards(self) -> Mapping[str, Any]:
        """Return the key `reward` or `cost`: its columns in the file of outcomes, with factors."""
        columns = self.description.mapping.columns
        if columns.terms:
            return {"reward": columns.reward, "cost": columns.cost}
        return _REWARDS.get(self.description.mapping.shape, {"reward": {"reward": 1.0}})

    @cached_property
    def id_name(self) -> str:
        """The name of the id of a decision in a record."""
        return "EventId" if self.vowpal else self.mapping.columns.decision


def _id(value: Any) -> str | None:
    """Return the id of a decision, which a draw hashes."""
    found = text_of(value)
    if found is not None and not found.isascii():
        try:
            found.encode()
        except UnicodeEncodeError:
            raise Bad(f"the id {found!r:.60} is no valid text") from None
    return found


def _required(listed: Any, name: str) -> list[Any]:
    """Return a list of candidates."""
    if not isinstance(listed, list) or not listed:
        raise Bad(f"{name} holds no candidates, expected a list of at least one")
    if len(listed) > MOST_CANDIDATES:
        raise Bad(f"{len(listed):,} candidates, expected at most {MOST_CANDIDATES:,}")
    return listed


def _flat(values: Mapping[str, Any], into: _Values, prefix: str = "") -> _Values:
    """Return the features of an object of dsjson by their dotted paths.

    True is 1, what begins with `_` is no feature, and objects of a list are merged in order.
    """
    for key, value in values.items():
        if key[:1] == "_":
            continue
        if isinstance(value, dict):
            _flat(value, into, f"{prefix}{key}.")
        elif isinstance(value, str):
            into[prefix + key] = value
        elif isinstance(value, list):
            for place, item in enumerate(value):
                if isinstance(item, dict):
                    _flat(item, into, f"{prefix}{key}.")
                elif isinstance(item, str):
                    into[f"{prefix}{key}={item}"] = 1.0
                elif isinstance(item, int | float):
                    into[f"{prefix}{key}.{place}"] = float(item)
        elif value is not None and value is not False:
            into[prefix + key] = float(value)
    return into


def _named(actions: Any, count: int) -> list[bool]:
    """Return which candidates `a` of dsjson names: all, if there is none.

    It counts from 1, or from 0 if it has a 0 and not the number of candidates.
    """
    if actions is None:
        return [True] * count
    if not isinstance(actions, list):
        raise Bad(f"the actions `a` are {actions!r:.60}, expected a list of numbers")
    first = int(0 not in actions or count in actions)
    numbers = range(first, first + count)
    if not all(action in numbers for action in actions):
        raise Bad(f"the list of actions {actions!r:.60} does not fit {count} candidates")
    return [number in actions for number in numbers]


def _each(
    record: Mapping[str, Any], path: str, owners: tuple[list[Any], tuple[str, ...]] | None
) -> list[Any]:
    """Return the values at a path: [that of the decision], or one for each candidate.

    `owners` are the candidates and their ids, None for the decision. The value of a candidate is in
    its object; else in the record, in a map by its id or in a list beside the candidates.
    """
    get = getter(path)
    if owners is None:
        return [get(record)]
    listed, ids = owners
    inside = [get(c) if isinstance(c, Mapping) else None for c in listed]
    if any(value is not None for value in inside):
        return inside
    return beside(get(record), ids)


def _put(to: dict[str, Any], path: str, value: Any, like: Mapping[str, Any]) -> None:
    """Set what a dotted path reads; a key that has the dots itself stays so, as in `like`."""
    *parents, last = [path] if path in like else path.split(".")
    for step in parents:
        to = to.setdefault(step, {})
    to[last] = value


def _nested(description: Description) -> DecisionMapping:
    """Return the mapping of nested records of a log, of whatever shape it was."""
    old = description.mapping
    columns, context, candidates = old.columns, old.context, old.candidates
    if old.shape != "nested":
        if old.shape == "rows":
            numbers, categories = candidates.numbers, candidates.categories
        else:
            numbers, categories = ({n: n for n in names} for names in _split(description, SIDES[1]))
        if not columns.chosen:
            context = Context(*({n: n for n in part} for part in _split(description, SIDES[0])))
        feasible = columns.feasible or (candidates.feasible and "feasible")
        candidates = Candidates(
            "candidates", columns.candidate or "id", feasible, numbers, categories
        )
    elif columns.feasible and not candidates.feasible:
        candidates = replace(candidates, feasible=columns.feasible)
    taken = [path for path in (
        columns.session, columns.unit, columns.slot, columns.time, candidates.list,
        candidates.feasible, *context.numbers.values(), *context.categories.values(),
        *candidates.numbers.values(), *candidates.categories.values(),
    ) if path]  # fmt: skip

    def free(name: str, otherwise: str) -> str:
        """Return the log's own name, if a record has no other use for it."""
        found = name if name and old.shape == "nested" else otherwise
        while any(f"{one}.".startswith(f"{found}.") or f"{found}.".startswith(f"{one}.")
                  for one in taken):  # fmt: skip
            found = f"_{found}"
        taken.append(found)
        return found

    own = Columns(
        decision=columns.decision or free("", "id"), session=columns.session, unit=columns.unit,
        slot=columns.slot, time=columns.time, chosen=free(columns.chosen, "chosen"),
        propensity=free(columns.propensity, "propensity"),
        probabilities=free(columns.probabilities, "probabilities"),
        logger=free(columns.logger, "logger"),
    )  # fmt: skip
    return DecisionMapping(
        shape="nested", time_zone=old.time_zone, sessions_end=old.sessions_end,
        missing_reward=old.missing_reward, columns=own, context=context, candidates=candidates,
        propensity=Propensities("exact"), split=old.split,
    )  # fmt: skip


def _split(description: Description, side: str) -> tuple[list[str], list[str]]:
    """Return the numbers and the categories of a side."""
    alone = [*description.kinds[side]] == [CONSTANT]
    return [] if alone else description.numbers(side), description.categories(side)


def _vowpal(description: Description) -> DecisionMapping:
    """Return the mapping of records of dsjson of a log."""
    old = description.mapping
    return DecisionMapping(
        shape="dsjson", time_zone=old.time_zone, missing_reward=old.missing_reward, split=old.split
    )


def _logged_vowpal(
    record: Mapping[str, Any], moment: Moment, name: str, choice: int,
    probabilities: Sequence[float], logger: str,
) -> dict[str, Any]:  # fmt: skip
    """Return a record of dsjson with its decision: the chosen candidate first in `a` and `p`."""
    others = np.flatnonzero(moment.feasible).tolist()
    order = [choice, *(k for k in others if k != choice)]
    own = record.get(OWN)
    return {
        "_label_probability": probabilities[choice], "_label_Action": choice + 1,
        "_labelIndex": choice, "EventId": name,
        **({"Timestamp": record["Timestamp"]} if "Timestamp" in record else {}),
        "a": [k + 1 for k in order], "p": [probabilities[k] for k in order], "c": record["c"],
        OWN: {**(own if isinstance(own, dict) else {}), "logger": logger},
    }  # fmt: skip


def line_of(record: Mapping[str, Any]) -> str:
    """Return a record as a line of JSON."""
    return json.dumps(record) + "\n"
