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

    own: Mapping[str, Heuristic] = getattr(_module(scenario), "HEURISTICS", {})
    return {"random": INDIFFERENT, "random_linear": RANDOM_LINEAR, **own}


def rules(scenario: str) -> dict[str, Heuristic | MemoryRule]:
    """Return every rule of a scenario by name, with its rules over the memory at the end."""
    own: Mapping[str, MemoryRule] = getattr(_module(scenario), "MEMORY_RULES", {})
    return {**heuristics(scenario), **own}


def find_rule(scenario: str, name: str) -> Heuristic | MemoryRule | None:
    """Return the rule of a name, which may be around_RULE; None if there is no such rule."""
    from hindcast.policies.heuristics.around import PREFIX, around

    known = rules(scenario)
    if name in known or not name.startswith(PREFIX):
        return known.get(name)
    rule = known.get(name.removeprefix(PREFIX))
    fixed = isinstance(rule, Heuristic) and rule.draw is None and not rule.name.startswith("random")
    return around(rule) if fixed and isinstance(rule, Heuristic) else None


def _module(scenario: str) -> Any:
    """Return the module that holds the rules of a scenario."""
    held = SCENARIOS.get(scenario)
    if isinstance(held, str) and held.startswith(_THERE):
        return importlib.import_module(held.replace(_THERE, _HERE))
    return module_of(scenario)
