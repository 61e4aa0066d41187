"""The scheduling problems, one folder each, and their registry."""

import importlib
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from pipeline.errors import InputError, unknown_name
from pipeline.plugins import Registry

if TYPE_CHECKING:  # numba, which the names alone do not need
    from pipeline.simulation.policy import Heuristic
    from pipeline.simulation.scenario import Scenario

# A package per scenario, each with a constant SCENARIO; loaded when named, since that compiles.
# The rules of `pipeline.scenarios.NAME` are in `policies.heuristics.NAME`. A registered scenario is
# the name of a module with the constants SCENARIO and HEURISTICS, or an object that has them.
SCENARIOS: Final = Registry[Any](
    "scenarios",
    {
        "binpack": "pipeline.scenarios.binpack",
        "deferrable": "pipeline.scenarios.deferrable",
        "multicluster": "pipeline.scenarios.multicluster",
        "slots": "pipeline.scenarios.slots",
        "thermal": "pipeline.scenarios.thermal",
    },
)


def load_scenario(name: str) -> "Scenario":
    """The scenario of that name; UnknownName with the nearest one where there is none."""
    from pipeline.simulation.scenario import Scenario

    scenario = getattr(module_of(name), "SCENARIO", None)
    if not isinstance(scenario, Scenario) or scenario.name != name:
        raise InputError(f"scenario {name!r}: what is registered is no Scenario of that name")
    return scenario


def module_of(name: str) -> Any:
    """The module of a scenario, or what was registered in its place; UnknownName for others."""
    if name not in SCENARIOS:
        raise unknown_name("scenario", name, SCENARIOS)
    held = SCENARIOS[name]
    return importlib.import_module(held) if isinstance(held, str) else held


def register_scenario(
    name: str,
    scenario: "Scenario | str",
    heuristics: "Mapping[str, Heuristic] | None" = None,
) -> None:
    """Make a scenario known under its name, wherever the name of a scenario is asked for.

    Args:
        name: The name in recipes, which is also `scenario.name`.
        scenario: The scenario; or the dotted name of a module with the constants SCENARIO and
            HEURISTICS, which is imported when the scenario is used.
        heuristics: Its rules by name, beside `random` and `random_linear`, which every scenario
            has. Rules of a module are its HEURISTICS.

    Raises:
        InputError: The name is taken, or rules are given beside the name of a module.
    """
    if isinstance(scenario, str) and heuristics is not None:
        raise InputError(f"scenario {name!r}: rules of the module {scenario} are its HEURISTICS")
    held = SimpleNamespace(SCENARIO=scenario, HEURISTICS=dict(heuristics or {}))
    SCENARIOS.register(name, scenario if isinstance(scenario, str) else held)
