"""The scheduling problems, one folder each, and their registry."""

import importlib
from collections.abc import Mapping
from typing import Final

from pipeline.errors import unknown_name
from pipeline.simulation.scenario import Scenario

# A package per scenario, each with a constant SCENARIO; loaded when named, since that compiles.
SCENARIOS: Final[Mapping[str, str]] = {
    "binpack": "pipeline.scenarios.binpack",
    "deferrable": "pipeline.scenarios.deferrable",
    "multicluster": "pipeline.scenarios.multicluster",
    "slots": "pipeline.scenarios.slots",
    "thermal": "pipeline.scenarios.thermal",
}


def load_scenario(name: str) -> Scenario:
    """The scenario of that name; UnknownName with the nearest one where there is none."""
    if name not in SCENARIOS:
        raise unknown_name("scenario", name, SCENARIOS)
    scenario = importlib.import_module(SCENARIOS[name]).SCENARIO
    assert isinstance(scenario, Scenario)
    return scenario
