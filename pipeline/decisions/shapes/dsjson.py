"""Reader of VowpalWabbit's dsjson: single decisions, slots of CCB, slates.

    {"_label_cost": -1, "_label_probability": .8, "_labelIndex": 1, "EventId": "e1",
     "a": [2, 1], "p": [.8, .2], "c": {"u": {...}, "_multi": [{...}, {...}]}}

`a` lists candidates from 1, the taken one first, and `p` is in the order of `a`. In `_outcomes`,
`_a` counts from 0. Candidates that `a` leaves out are infeasible if the probabilities add to 1;
else the lists were cut and the decision cannot be used. Numbers are of single precision in
VowpalWabbit. Features have dotted paths; what begins with `_` is none.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
import polars as pl

from hindcast.pipeline.decisions.batch import TERM, Batch, Reading
from hindcast.pipeline.decisions.checks import LEAST, SAME, SUM
from hindcast.pipeline.decisions.shapes.nested import Bad, number
from hindcast.pipeline.decisions.shapes.records import (
    BATCH,
    MOST_CANDIDATES,
    Collector,
    records_of,
    require_depth,
)
from hindcast.pipeline.decisions.values import text_of, times
from hindcast.pipeline.errors import TraceError

COST: Final = TERM + "_label_cost"
ORIGINAL: Final = TERM + "_original_label_cost"
OWN: Final = "_hindcast"  # what the format has no place for, in files that Hindcast exported
_NAMES: Final = ("id", "session", "unit", "logger", "slot", "file", "line", "chosen", "propensity",
                 "weight", "content", "reason", COST, ORIGINAL)  # fmt: skip
_NAN: Final = float("nan")
_64_BITS: Final = 0xFFFFFFFFFFFFFFFF


def read_dsjson(paths: list[Path], zone: str, reading: Reading) -> Iterator[Batch]:
    """Yield the decisions of dsjson files."""
    collector, raw_times = Collector(_NAMES, 0.0), []
    checked = False
    for file, path in enumerate(paths):
        for line, record, text in records_of(path, file, reading, _parsed):
            if not checked:
                require_depth(record, f"{path}: line {line}")
                checked = True
            context = record.get("c")
            if "_label_ca" in record:
                raise TraceError(
                    f"{path}: line {line} has `_label_ca`: continuous actions have no candidates, "
                    "expected records with `_multi`"
                )
            if not isinstance(context, dict) or "_multi" not in context:
                reading.count("outcomes_without_decision")
                continue
            if record.get("_skipLearn") is True:
                reading.count("not_shown")
                continue
            before = len(collector)
            meta: dict[str, Any] = {
                "id": text_of(record.get("EventId")), "file": file, "line": line,
                "reason": None, "content": hash(text) & _64_BITS,
            }  # fmt: skip
            if isinstance(own := record.get(OWN), dict):
                meta |= {name: text_of(own.get(name)) for name in ("session", "unit", "logger")}
            if "_slots" in context or "_outcomes" in record:
                _slots(collector, record, context, meta, text, reading)
            else:
                _guarded(
                    collector, meta,
                    partial(_read_single, collector, meta, record, context, reading),
                )  # fmt: skip
            raw_times.extend([record.get("Timestamp")] * (len(collector) - before))
            if len(collector) >= BATCH:
                yield _timed(collector, raw_times, zone, reading)
                raw_times = []
    if len(collector):
        yield _timed(collector, raw_times, zone, reading)


def _parsed(line: bytes) -> Any:
    """Return the value of a line of JSON, exactly as json does, in less than half of the time."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:  # also for NaN, which json reads
        return json.loads(line)
    # An integer beyond 64 bits becomes a float, which is no id.
    return json.loads(line) if type(value.get("EventId")) is float else value


def _timed(collector: Collector, raw: list[Any], zone: str, reading: Reading) -> Batch:
    """Return the collected decisions with their times from `raw`; null for what is no time."""
    found, _bad, local = times(pl.Series([text_of(t) for t in raw], dtype=pl.String), zone)
    if local:
        reading.note(f"times without a zone are read as {zone}")
    batch = collector.batch()
    decisions = batch.decisions.with_columns(pl.Series("time", found).fill_nan(None))
    return replace(batch, decisions=decisions)


def _candidates(to: Collector, listed: Any) -> list[dict[str, Any]]:
    """Add the candidates of a decision with their features; return them.

    The id of a candidate is its `_tag`, or its position without one. Raises Bad if `listed` is no
    list of objects, and TraceError if it is too long.
    """
    start = len(to.ids)
    if not isinstance(listed, list) or {*map(type, listed)} != {dict}:
        to.lengths.append(0)
        raise Bad("no candidates")
    if len(listed) > MOST_CANDIDATES:
        raise TraceError(f"a decision has {len(listed):,} candidates, at most {MOST_CANDIDATES:,}")
    tags = [candidate.get("_tag") for candidate in listed]
    named = {*map(type, tags)} == {str}
    to.ids.extend(tags if named else [str(k if tag is None else tag) for k, tag in enumerate(tags)])
    to.features.flatten(start, listed)
    to.lengths.append(len(listed))
    return listed


def _weight(record: Mapping[str, Any]) -> float:
    """Return the weight of a record of which the share `pdrop` was dropped; raise Bad."""
    dropped = record.get("pdrop")
    if dropped is None:
        return 1.0
    share = number(dropped, "pdrop")
    if not 0.0 <= share < 1.0:
        raise Bad(f"pdrop is {share:g}, expected 0 <= pdrop < 1")
    return 1.0 / (1.0 - share)


def _spread(
    to: Collector, actions: list[Any], probabilities: list[Any] | None, count: int
) -> list[float]:
    """Add which candidates are feasible and their probabilities; `actions` count from 0."""
    places = actions if {*map(type, actions)} == {int} else [*map(int, actions)]
    whole = sorted(places) == [*range(count)]
    if (
        not whole
        and places
        and (min(places) < 0 or max(places) >= count or len(set(places)) < len(places))
    ):
        raise Bad(f"the list of actions {actions!r:.60} does not fit {count} candidates")
    if probabilities is None:
        to.feasible.extend([True] * count)
        to.probability.extend([_NAN] * count)
        return []
    if len(probabilities) != len(places):
        raise Bad(f"{len(places)} actions and {len(probabilities)} probabilities")
    values = probabilities
    if {*map(type, values)} != {float}:
        values = [number(p, "a probability") for p in values]
    if not whole and not abs((total := sum(values)) - 1.0) < SUM:
        raise Bad(
            f"the actions name {len(places)} of {count} candidates, whose probabilities add to "
            f"{total:.4g}: the lists were cut"
        )
    spread, feasible = [_NAN] * count, [whole] * count
    for place, value in zip(places, values, strict=True):
        spread[place] = value
    for place in () if whole else places:
        feasible[place] = True
    to.feasible.extend(feasible)
    to.probability.extend(spread)
    return spread


def _guarded(to: Collector, meta: dict[str, Any], read: Callable[[], None]) -> None:
    """Add the decision that `read` completes; one that cannot be read has a reason."""
    try:
        read()
    except Bad as error:
        meta["reason"] = str(error)
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
        meta["reason"] = f"not as dsjson is ({error})"
    if meta["reason"] is not None:
        to.fill()
    to.add(meta)


def _read_single(
    to: Collector, meta: dict[str, Any], record: dict[str, Any], context: dict[str, Any],
    reading: Reading,
) -> None:  # fmt: skip
    """Read a decision of one slot; its features become those of the next decision of `to`."""
    owner = len(to.lengths)
    listed = _candidates(to, context["_multi"])
    to.context.flatten(owner, [{k: v for k, v in context.items() if k[:1] != "_"}])
    count, actions = len(listed), record.get("a")
    if not actions:
        places = list(range(count))
    elif 0 in actions and count not in actions:
        reading.count("actions_from_0")
        places = list(actions)
    else:
        places = [a - 1 for a in actions]
    spread = _spread(to, places, record.get("p") if actions else None, count)
    chosen = record.get("_labelIndex")
    if chosen is None and record.get("_label_Action") is not None:
        chosen = int(record["_label_Action"]) - 1
    labelled = chosen is not None
    if chosen is None:
        if not actions:
            raise Bad("no candidate is chosen")
        chosen = places[0]
    if not 0 <= chosen < count:
        raise Bad(f"the label names candidate {chosen} of {count}, counted from 0")
    probability = record.get("_label_probability")
    if labelled and probability is not None:
        meta["propensity"] = number(probability, "_label_probability")
        if spread:
            _same(meta["propensity"], spread[chosen])
    elif spread:
        meta["propensity"] = spread[chosen]
    meta["chosen"] = chosen
    meta["weight"] = _weight(record)
    meta[COST] = number(record.get("_label_cost"), "_label_cost")
    if "_original_label_cost" in record:
        meta[ORIGINAL] = number(record["_original_label_cost"], "_original_label_cost")


def _same(label: float, listed: float) -> None:
    """Raise Bad if the probability of the label is not that of its candidate in `p`."""
    if abs(label - listed) > SAME * max(label, listed) + LEAST:  # false for NaN
        raise Bad(
            f"the label's probability is {label:g}, that of its candidate in p {listed:g}: "
            "p in the order of the candidates?"
        )


def _slots(
    to: Collector, record: dict[str, Any], context: dict[str, Any], meta: dict[str, Any],
    text: bytes, reading: Reading,
) -> None:  # fmt: skip
    """Add a decision per slot that has an outcome."""
    outcomes = record.get("_outcomes")
    if not isinstance(outcomes, list) or not outcomes:
        reading.count("without_label")
        return
    slots = context.get("_slots")
    session = meta["id"] if meta["id"] is not None else f"line {meta['line']}"
    for place, given in enumerate(outcomes):
        outcome = given if isinstance(given, dict) else {}  # one without a choice
        slot = slots[place] if isinstance(slots, list) and place < len(slots) else {}
        slot = slot if isinstance(slot, dict) else {}
        name = text_of(outcome.get("_id", slot.get("_id"))) or str(place)
        own = {
            **meta, "id": f"{session}/{name}", "session": session, "slot": name,
            "content": hash((text, place)) & _64_BITS,
        }  # fmt: skip
        last = place == len(outcomes) - 1
        _guarded(to, own, partial(_read_slot, to, own, record, context, slot, outcome, place, last))


def _read_slot(
    to: Collector, meta: dict[str, Any], record: dict[str, Any], context: dict[str, Any],
    slot: dict[str, Any], outcome: dict[str, Any], place: int, last: bool,
) -> None:  # fmt: skip
    """Read the decision of a slot. The one cost of slates is that of their last slot."""
    listed, slates = context["_multi"], "_label_cost" in record
    if slates and isinstance(listed, list):
        listed = [c for c in listed if not isinstance(c, dict) or c.get("_slot_id", place) == place]
    owner = len(to.lengths)
    listed = _candidates(to, listed)
    to.context.flatten(owner, [{k: v for k, v in context.items() if k[:1] != "_"}])
    to.context.flatten(owner, [slot])
    places = outcome.get("_a")
    if not places:
        raise Bad("no candidate is chosen")
    spread = _spread(to, places, outcome.get("_p"), len(listed))
    meta["chosen"] = places[0]
    if spread:
        meta["propensity"] = spread[places[0]]
    meta["weight"] = _weight(record)
    costs = record if slates else outcome
    meta[COST] = number(costs.get("_label_cost"), "_label_cost") if last or not slates else 0.0
    if last or not slates:
        meta[ORIGINAL] = number(costs.get("_original_label_cost"), "_original_label_cost")
