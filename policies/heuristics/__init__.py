"""Compiled rules, one module per scenario."""

import importlib
from collections.abc import Mapping
from typing import Final

from pipeline.simulation.policy import Heuristic

# Where the rules of each scenario are; loaded when named, since that compiles.
HEURISTICS: Final[Mapping[str, str]] = {
    "binpack": "policies.heuristics.binpack",
    "deferrable": "policies.heuristics.deferrable",
    "multicluster": "policies.heuristics.multicluster",
    "slots": "policies.heuristics.slots",
    "thermal": "policies.heuristics.thermal",
}


def heuristics(scenario: str) -> dict[str, Heuristic]:
    """Every rule that a scenario knows, by name."""
    from policies.heuristics.generic import INDIFFERENT
    from policies.heuristics.linear import RANDOM_LINEAR

    own: Mapping[str, Heuristic] = importlib.import_module(HEURISTICS[scenario]).HEURISTICS
    return {"random": INDIFFERENT, "random_linear": RANDOM_LINEAR, **own}
