"""Forecasts of when waiting jobs start, from a log: what `start` and `decide` share."""

from typing import Any

from hindcast.flows.progress import note
from hindcast.flows.runs.whatif import reading, source_of
from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.forecast.forecasts import Policy, simulated
from hindcast.pipeline.forecast.live import Starts, users_of
from hindcast.pipeline.forecast.plays import DRAWS, Past, past_of
from hindcast.pipeline.recipes.proposals.proposal import second_zero
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios.queue.priorities import RULES
from hindcast.pipeline.whatif.orders import policy_of
from hindcast.pipeline.whatif.record import Record, read_record
from hindcast.pipeline.workloads.schema import Workload


def rule_of(name: str) -> Policy:
    """Return the order and mode of a rule; raise InputError if plays cannot follow it."""
    found = policy_of(name)
    if found is None:
        known = [f"{rule}{form}" for rule in RULES for form in ("", "_easy", "_greedy")]
        raise unknown_name("rule that plays can follow", name, [*known, "conservative"])
    return found


def read(request: Any) -> tuple[Workload, Record]:
    """Return the log of a request and its record."""
    workload = load_source(reading(source_of(request)))
    return workload, read_record(workload)


def schedule_of(record: Record, policy: Policy, *, recorded: bool) -> Past:
    """Return the log with its own starts, or with those of a rule."""
    if not recorded:
        return simulated(record, policy)
    if not record.known.any():
        raise InputError("the log does not say when jobs started; leave out --recorded")
    return past_of(record)


def starts(
    request: Any, rule: str, *, recorded: bool = False, seed: int = 0, draws: int = DRAWS
) -> Starts:
    """Return what forecasts of a rule need, from the log of a request."""
    policy = rule_of(rule)
    workload, record = read(request)
    if not record.known.any():
        note("the log does not say when jobs started; its runs end when the rule would end them")
    schedule = schedule_of(record, policy, recorded=recorded)
    past = past_of(record) if record.known.any() else schedule
    zero = second_zero(workload)[0]
    unix = None if zero is None else int(zero.timestamp())
    return Starts(past, policy, users_of(workload), schedule, unix, recorded, seed, draws)
