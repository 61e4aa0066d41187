"""Claims of RLScheduler: orders, rules with turned signs, and the agent, in eight settings."""

from itertools import pairwise
from typing import Any, Final

from hindcast.flows.papers.cells import difference, mean, strongest_rule
from hindcast.flows.papers.claims import difference_claim, order_claim
from hindcast.flows.papers.published import number
from hindcast.flows.papers.rlscheduler.commands import TABLE_RULES
from hindcast.flows.papers.rlscheduler.files import AGENT, PAPER_AGENT, Measured
from hindcast.flows.papers.rlscheduler.published_tables import BOUNDED_SLOWDOWN, SETTINGS
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.statistics.intervals import Interval

_UNIT: Final = "1"
_UNSEEN_DIFFERS: Final = (
    "Trained again; windows of 256 jobs after the agent's training windows, not sequences of 1,024 "
    "among them. Sizes of different windows are not comparable."
)


def claims(measured: Measured) -> list[dict[str, Any]]:
    """Return the claims of the tables and of the agent, each in the eight settings."""
    names = tuple(SETTINGS.values())
    signs = (("wfp", "wfp3"), ("uni", "unicef"))
    on_agents = (_published_agent, _agent_and_table_rule, _agent_and_all_rules)
    return [
        *(_order(measured, name) for name in names),
        *(_sign(measured, name, turned, right) for turned, right in signs for name in names),
        *(claim(measured, name) for claim in on_agents for name in names),
    ]


def _number(measured: Measured, name: str, policy: str) -> float:
    """Return a number of Table V."""
    value = number(measured.printed, BOUNDED_SLOWDOWN, name, policy)
    if value is None:
        raise InputError(f"published.csv: {BOUNDED_SLOWDOWN} has no number of {policy} on {name}")
    return value


def _best_printed(measured: Measured, name: str) -> str:
    """Return the rule with the smallest printed bounded slowdown."""
    return min(TABLE_RULES, key=lambda rule: _number(measured, name, rule))


def _order(measured: Measured, name: str) -> dict[str, Any]:
    """Return the claim that the five rules have the printed order."""
    at = measured.sequences[name]
    ranked = sorted(TABLE_RULES, key=lambda rule: _number(measured, name, rule))
    neighbours = [difference(at, worse, better) for better, worse in pairwise(ranked)]
    text = f"{name}: {' < '.join(ranked)}"
    return order_claim(f"order, {name}", BOUNDED_SLOWDOWN, text, neighbours)


def _sign(measured: Measured, name: str, turned: str, right: str) -> dict[str, Any]:
    """Return the claim on a rule whose sign is turned, against SJF."""
    gap = _number(measured, name, turned) - _number(measured, name, "sjf")
    return difference_claim(
        f"{right} against sjf, {name}", BOUNDED_SLOWDOWN,
        f"{name}: {right} less sjf", _UNIT, gap, difference(measured.sequences[name], right, "sjf"),
        f"Published: {turned}, whose sign is turned by the program. Measured: {right}.",
    )  # fmt: skip


def _agent_gap(measured: Measured, name: str) -> tuple[str, float]:
    """Return the best rule of Table V and the published agent's difference to it."""
    rule = _best_printed(measured, name)
    return rule, _number(measured, name, PAPER_AGENT) - _number(measured, name, rule)


def _published_agent(measured: Measured, name: str) -> dict[str, Any]:
    """Return the claim on the published agent, against all rules on its own sequences."""
    rule, gap = _agent_gap(measured, name)
    at = measured.sequences[name]
    best = strongest_rule(at)
    value, low, high = mean(at, best)
    agent = _number(measured, name, PAPER_AGENT)
    return difference_claim(
        f"published agent, {name}", BOUNDED_SLOWDOWN,
        f"{name}: published agent less {rule}, the best rule of the table", _UNIT, gap,
        Interval(agent - value, agent - high, agent - low),
        f"Measured: the published agent's mean less {best}, the best of all rules on these "
        "sequences, chosen after the fact. The interval is that of the rule alone.",
    )  # fmt: skip


def _agent_and_table_rule(measured: Measured, name: str) -> dict[str, Any]:
    """Return the claim on the agent trained again, against the best rule of the table."""
    rule, gap = _agent_gap(measured, name)
    return difference_claim(
        f"agent against {rule}, {name}", BOUNDED_SLOWDOWN,
        f"{name}: agent less {rule}, the best rule of the table", _UNIT, gap,
        difference(measured.unseen[name], AGENT, rule), _UNSEEN_DIFFERS,
    )  # fmt: skip


def _agent_and_all_rules(measured: Measured, name: str) -> dict[str, Any]:
    """Return the claim on the agent trained again, against the strongest of all rules."""
    rule, gap = _agent_gap(measured, name)
    at = measured.unseen[name]
    best = strongest_rule(at)
    return difference_claim(
        f"agent against all rules, {name}", BOUNDED_SLOWDOWN,
        f"{name}: agent less the best of all rules, {rule} in print", _UNIT, gap,
        difference(at, AGENT, best),
        f"Measured against {best}, the best of all rules on these windows, chosen after the fact. "
        f"{_UNSEEN_DIFFERS}",
    )  # fmt: skip
