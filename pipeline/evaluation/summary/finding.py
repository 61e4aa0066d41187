"""Sentence that a report opens with, computed from its numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from hindcast.pipeline.evaluation.summary.pairing import Setting
from hindcast.pipeline.pages.numbers import (
    count_of,
    decimals_for,
    decimals_telling,
    with_unit,
    write_interval,
    write_number,
)
from hindcast.pipeline.statistics.intervals import LEVEL_TEXT

Verdict: TypeAlias = Literal["win", "unclear", "loss", "incomparable"]


@dataclass(frozen=True)
class Finding:
    """Result for the learned policies of a setting.

    Attributes:
        verdict: "win" if the whole interval of the gain lies above zero, "loss" if it lies below,
            "unclear" if it contains zero; "incomparable" without a learned policy, a simple policy
            or a better direction.
        sentence: The finding in words.
        learned: Row of the learned policy that the sentence is about, against `baseline`.
        baseline: Name of the strongest simple policy.
    """

    verdict: Verdict
    sentence: str
    learned: Mapping[str, Any] | None = None
    baseline: str | None = None


def state_finding(
    setting: Setting, rows: Sequence[Mapping[str, Any]], baseline: str | None
) -> Finding:
    """Return the gain of the best learned policy over the strongest simple policy, as a sentence.

    A win is claimed only if the interval excludes zero. Of several agents that their gates
    delivered, the best by mean with a clear win is reported; else the best of all learned policies
    with a clear win, or the best by mean. A policy picked among several on the windows that it is
    judged by looks better than it is, so the sentence gives their number.

    Args:
        setting: The setting.
        rows: Rows (policy, reference) of the headline metric, best policy first.
        baseline: Name of the strongest simple policy; None if there is none.
    """
    if rows[0]["better"] == "neither":
        name = rows[0]["metric"]
        return Finding(
            "incomparable", f"{name} has no better direction, so policies are not ranked."
        )
    if baseline is None:
        return Finding("incomparable", _alone(rows[0]))
    rows = [row for row in rows if row["reference"] == baseline]
    learned = [row for row in rows if row["kind"] == "learned"]
    if not learned:
        row = next(row for row in rows if row["policy"] == baseline)
        return Finding("incomparable", _unchallenged(row), None, baseline)
    gates = _gates(setting)
    delivered = [row for row in learned if gates.get(row["policy"]) == {"agent"}]
    pool, noun = delivered, "delivered agents"
    best = next((row for row in delivered if _verdict(row) == "win"), None)
    if best is None:
        pool, noun = learned, "learned policies"
        best = next((row for row in learned if _verdict(row) == "win"), learned[0])
    sentence = _sentence(best, baseline, _windows(best, setting))
    if best is not pool[0]:
        sentence += f" {pool[0]['policy']} has a better mean, but its interval contains zero."
    if len(pool) > 1:
        sentence += f" It was picked among {len(pool)} {noun} on these windows."
    also = [row for row in delivered if row is not best and _verdict(row) == "win"]
    sentence += "".join(f" {_also(row, baseline)}" for row in also)
    return Finding(_verdict(best), sentence + _said_by(gates), best, baseline)


def _also(row: Mapping[str, Any], baseline: str) -> str:
    """Return the gain of another delivered agent that clearly wins, as a sentence."""
    size, interval, _ = _measured(row)
    return f"{row['policy']} beats {baseline} by {size} ({interval})."


def _measured(row: Mapping[str, Any]) -> tuple[str, str, int]:
    """Return the size of a gain with its unit, its interval, and the decimals of both."""
    value, low, high = gain(row)
    decimals = decimals_telling((value, low, high), decimals_for([value], digits=2))
    size = with_unit(write_number(abs(value), decimals), row["unit"])
    return size, f"{LEVEL_TEXT} interval {write_interval(low, high, decimals)}", decimals


def _gates(setting: Setting) -> dict[str, set[str]]:
    """Return what the gates of each agent's trainings delivered, "agent" or "rule", by policy."""
    found: dict[str, set[str]] = {}
    for entry in setting.entries.values():
        if entry.delivered:
            found.setdefault(entry.group, set()).add(entry.delivered)
    return found


def _said_by(gates: Mapping[str, set[str]]) -> str:
    """Return a sentence about what the gates delivered and refused; "" without a gate."""
    parts = []
    for said, verdicts in (
        ("delivered", {"agent"}),
        ("refused in favour of a rule", {"rule"}),
        ("delivered or refused, by training", {"agent", "rule"}),
    ):
        names = [name.removesuffix("-delivered") for name, of in gates.items() if of == verdicts]
        if names:
            parts.append(f"{', '.join(names)}: {said}")
    if not parts:
        return ""
    return (
        f" Gates of the trainings: {'; '.join(parts)}. A gate compares with rules that do not look "
        "ahead."
    )


def _windows(row: Mapping[str, Any], setting: Setting) -> str:
    """Return the number of windows, and that nobody trained on them if that is known."""
    agents = [entry for entry in setting.entries.values() if entry.kind == "learned"]
    unseen = setting.first.split == "test" and all(
        entry.learned_from == setting.first.digest for entry in agents
    )
    if not unseen:
        return count_of(row["windows"], "window")
    return f"{count_of(row['windows'], 'test window')} that nobody trained on"


def gain(row: Mapping[str, Any]) -> tuple[float, float | None, float | None]:
    """Return the gain of a row's policy over its reference and its interval; below 0 is worse."""
    difference = (row["paired_difference"], row["paired_low"], row["paired_high"])
    if row["better"] == "higher":
        return difference
    value, low, high = (None if end is None else -end for end in difference)
    return value or 0.0, high, low


def _verdict(row: Mapping[str, Any]) -> Verdict:
    _, low, high = gain(row)
    if low is not None and low > 0.0:
        return "win"
    return "loss" if high is not None and high < 0.0 else "unclear"


def _sentence(row: Mapping[str, Any], baseline: str, windows: str) -> str:
    """Return the finding on a policy and a baseline, from their row of the summary."""
    value, low, high = gain(row)
    name, metric = row["policy"], row["metric"]
    size, interval, decimals = _measured(row)
    # The mean of the baseline is that of the policy less their difference.
    own = row["mean"] - row["paired_difference"]
    if own:
        share = abs(value / own) * 100
        size += f" ({share:,.0f} %)" if share >= 10 else f" ({share:.2g} %)"
    counts = (
        f"{count_of(row['wins'], 'win')}, {count_of(row['ties'], 'tie')}, "
        f"{count_of(row['losses'], 'loss', 'losses')} on {windows}"
    )
    match _verdict(row):
        case "win":
            return (
                f"{name} beats {baseline}, the strongest simple policy, by {size} in {metric} "
                f"({interval}; {counts})."
            )
        case "loss":
            interval = write_interval(abs(high or 0.0), abs(low or 0.0), decimals)
            return (
                f"No learned policy beats {baseline}, the strongest simple policy: {name}, the "
                f"best learned policy, is worse by {size} in {metric} "
                f"({LEVEL_TEXT} interval {interval}; {counts})."
            )
        case _:
            way = "better" if value > 0 else "worse"
            mean = f"is {way} by {size} in {metric}" if value else f"has the same {metric}"
            doubt = (
                f"the {interval} of the gain contains zero"
                if low is not None
                else "one window gives no interval"
            )
            link = "but" if value > 0 else "and"
            return (
                f"No learned policy clearly beats {baseline}, the strongest simple policy: {name} "
                f"{mean} on average, {link} {doubt} ({counts})."
            )


def _alone(row: Mapping[str, Any]) -> str:
    return (
        f"{row['policy']} has {_mean(row)}; no simple policy was run beside it, so there is "
        "no gain to report."
    )


def _unchallenged(row: Mapping[str, Any]) -> str:
    return (
        "No learned policy was evaluated; the strongest simple policy is "
        f"{row['policy']} with {_mean(row)}."
    )


def _mean(row: Mapping[str, Any]) -> str:
    decimals = decimals_for([row["mean"]])
    mean = with_unit(write_number(row["mean"], decimals), row["unit"])
    if row["low"] is None:
        return f"a mean {row['metric']} of {mean} on {count_of(row['windows'], 'window')}"
    return (
        f"a mean {row['metric']} of {mean} ({LEVEL_TEXT} interval "
        f"{write_interval(row['low'], row['high'], decimals)}; "
        f"{count_of(row['windows'], 'window')})"
    )
