"""Compiled rules, one module per scenario."""

import importlib
from collections.abc import Mapping
from typing import Final

from pipeline.scenarios import SCENARIOS, module_of
from pipeline.simulation.policy import Heuristic

_HERE: Final = "policies.heuristics."
_THERE: Final = "pipeline.scenarios."


def heuristics(scenario: str) -> dict[str, Heuristic]:
    """Return every rule of a scenario by name; raise UnknownName if there is no such scenario.

    Rules of pipeline.scenarios.NAME are in policies.heuristics.NAME. A scenario from outside this
    repository has its rules in its own module.
    """
    from policies.heuristics.generic import INDIFFERENT
    from policies.heuristics.linear import RANDOM_LINEAR

    held = SCENARIOS.get(scenario)
    if isinstance(held, str) and held.startswith(_THERE):
        module = importlib.import_module(held.replace(_THERE, _HERE))
    else:
        module = module_of(scenario)
    own: Mapping[str, Heuristic] = getattr(module, "HEURISTICS", {})
    return {"random": INDIFFERENT, "random_linear": RANDOM_LINEAR, **own}
