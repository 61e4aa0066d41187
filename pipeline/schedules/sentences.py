"""A decision at which two policies differ, in sentences whose numbers stand in the decision."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

_STANDS_FOR_NEVER: Final = 1e9  # scores of this size are no measure: rules put rows last by them


def sentence_of(found: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return a decision, see hindcast.pipeline.schedules.difference.Difference, in sentences.

    Args:
        found: The decision as a dictionary.
        facts: Facts of the schedule of the first policy.
    """
    by_row = {candidate["row"]: candidate for candidate in found["candidates"]}
    chosen = [by_row[row] for row in found["chosen"]]
    parts = [_situation(found, facts)]
    for place, policy in enumerate(found["policies"]):
        does = _does(found, chosen[place], facts)
        parts.append(f"{policy} {does}{_since(chosen, place)}.")
    return " ".join([*parts, *_came(found, chosen, facts)])


def moment(at_s: float, facts: Mapping[str, Any]) -> str:
    """Return a moment of a schedule's clock: a date where it is known, else days and time."""
    if facts["clock"] != "s":
        return f"{facts['clock']} {at_s:,.0f}"
    if facts["epoch"] is not None:
        return f"{datetime.fromtimestamp(facts['epoch'] + at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    days, rest = divmod(round(at_s), 86_400)
    time = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"day {days + 1}, {time}"  # as on the page of `hindcast whatif`


def span(time: float, facts: Mapping[str, Any]) -> str:
    """Return a length of time of a schedule's clock."""
    if facts["clock"] != "s":
        return f"{time:,.10g} {facts['clock']}" + ("" if time == 1 else "s")
    seconds = round(time)
    if abs(seconds) < 120:
        return f"{seconds} s"
    minutes = round(abs(seconds) / 60)
    return f"{'-' if seconds < 0 else ''}{minutes // 60}:{minutes % 60:02} h"


def _situation(found: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return when the decision is, and what there is to choose from."""
    text = f"Decision {found['decision']} at {moment(found['at_s'], facts)}: "
    if found["scenario"] != "queue":
        count, listed = found["count"], found["candidates"]  # of many candidates the best
        feasible = sum(candidate["feasible"] for candidate in listed)
        if len(listed) == count:
            return f"{text}{count} candidates, of which {feasible} can be chosen."
        return f"{text}{count} candidates; {feasible} of the {len(listed)} listed can be chosen."
    context, processors = found["context"], facts["capacity"]["processors"]
    # As features: a logarithm, and a share of the machine.
    waiting, free = round(math.expm1(context["waiting"])), round(context["free"] * processors)
    jobs = "1 job waits" if waiting == 1 else f"{waiting:,} jobs wait"
    return f"{text}{free:,} of {processors:,} processors are free, {jobs}."


def _does(found: Mapping[str, Any], chosen: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return what a policy does, as a predicate: "starts job 4, which has waited ..."."""
    if found["scenario"] != "queue":
        return f"chooses {chosen['text']}"
    if chosen["job"] is None:
        return "waits for the next event"
    features = chosen["features"]
    size = round(math.exp(features["log_processors"]))
    what = f"{size:,} processor" + ("" if size == 1 else "s")
    clock = {"clock": "s"}
    waited = span(math.exp(features["log_waited"]) - 60, clock)
    requested = span(math.exp(features["log_requested"]), clock)
    job = f"{chosen['text']}, which has waited {waited} and requests {requested}"
    if features["safe"] == 1:
        return f"starts {job}, now on {what}"
    start = found["at_s"] + round(math.expm1(features["start_in"]))
    return f"keeps {what} for {job}, until {moment(start, facts)}"


def _since(chosen: list[Mapping[str, Any]], place: int) -> str:
    """Return the scores by which a policy chooses; "" where it gives none."""
    chance = chosen[place]["probabilities"][place]
    if chance is not None and chance < 1:
        return f", drawn with probability {chance:.3g}"
    own, other = (candidate["scores"][place] for candidate in (chosen[place], chosen[1 - place]))
    if own is None or other is None:
        return ""
    name = chosen[1 - place]["text"]
    if own == other:
        return f", since it is the first with its score of {own:.4g}, which {name} has too"
    if max(abs(own), abs(other)) >= _STANDS_FOR_NEVER:
        return f", which it scores higher than {name}"
    digits = next((n for n in range(4, 17) if f"{own:.{n}g}" != f"{other:.{n}g}"), 17)
    return f", since its score is {own:.{digits}g} and that of {name} {other:.{digits}g}"


def _came(
    found: Mapping[str, Any], chosen: list[Mapping[str, Any]], facts: Mapping[str, Any]
) -> list[str]:
    """Return what became of the two jobs under both policies."""
    told = dict[int, str]()
    for place, job in enumerate(found["jobs"]):
        if job is None or job in told:
            continue
        text = chosen[place]["text"].partition(" on ")[0]
        becomes = [_becomes(came[place], facts) for came in found["came"]]
        pairs = zip(becomes, found["policies"], strict=True)
        told[job] = f"{text} " + " and ".join(f"{of} under {policy}" for of, policy in pairs)
    return [f"In the end {'; '.join(told.values())}."] if told else []


def _becomes(came: Mapping[str, Any] | None, facts: Mapping[str, Any]) -> str:
    """Return what becomes of a job under a policy, as a predicate: "waits 1:30 h"."""
    if came is None or came["start_s"] is None:
        return "does not start"
    if came["wait_s"] is None:
        return "starts, and has no wait that is known for all of it"
    return f"waits {span(came['wait_s'], facts)}"
