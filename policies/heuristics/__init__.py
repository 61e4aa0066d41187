"""Compiled rules, one module per scenario."""

import importlib
from collections.abc import Mapping
from typing import Any, Final

from hindcast.pipeline.scenarios import SCENARIOS, module_of
from hindcast.pipeline.simulation.memory_rules import MemoryRule
from hindcast.pipeline.simulation.policy import Heuristic

_HERE: Final = "hindcast.policies.heuristics."
_THERE: Final = "hindcast.pipeline.scenarios."


def heuristics(scenario: str) -> dict[str, Heuristic]:
    """Return the rules that score observations; raise UnknownName for an unknown scenario.

    Rules of hindcast.pipeline.scenarios.NAME are in hindcast.policies.heuristics.NAME. A scenario
    from outside this repository has its rules in its own module.
    """
    from hindcast.policies.heuristics.generic import INDIFFERENT
    from hindcast.policies.heuristics.linear import RANDOM_LINEAR

    of_scenario: Mapping[str, Heuristic] = getattr(_module(scenario), "HEURISTICS", {})
    return {"random": INDIFFERENT, "random_linear": RANDOM_LINEAR, **of_scenario}


def rankable(scenario: str) -> dict[str, Heuristic]:
    """Return the deterministic rules of a scenario that score rows, by name."""
    return {
        name: rule
        for name, rule in heuristics(scenario).items()
        if rule.draw is None and not any(rule.exploration)
    }


def rules(scenario: str) -> dict[str, Heuristic | MemoryRule]:
    """Return every rule of a scenario by name, with its rules over the memory at the end."""
    memory_rules: Mapping[str, MemoryRule] = getattr(_module(scenario), "MEMORY_RULES", {})
    return {**heuristics(scenario), **memory_rules}


def find_rule(scenario: str, name: str) -> Heuristic | MemoryRule | None:
    """Return the rule of a name, which may be around_RULE; None if there is no such rule."""
    from hindcast.policies.heuristics.around import PREFIX, around

    by_name = rules(scenario)
    if name in by_name or not name.startswith(PREFIX):
        return by_name.get(name)
    rule = by_name.get(name.removeprefix(PREFIX))
    if not isinstance(rule, Heuristic) or rule.draw is not None or any(rule.exploration):
        return None
    return around(rule)


def _module(scenario: str) -> Any:
    """Return the module that holds the rules of a scenario."""
    entry = SCENARIOS.get(scenario)
    if isinstance(entry, str) and entry.startswith(_THERE):
        return importlib.import_module(entry.replace(_THERE, _HERE))
    return module_of(scenario)
