"""The scheduling problems, one folder each, and their registry."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.plugins import Registry, import_module

if TYPE_CHECKING:  # these import numba, which is not needed for the names alone
    from hindcast.pipeline.simulation.policy import Heuristic
    from hindcast.pipeline.simulation.scenario import Scenario

# Each package has a constant SCENARIO. It is imported when the scenario is named, because the
# import compiles. The rules of `hindcast.pipeline.scenarios.NAME` are in
# `hindcast.policies.heuristics.NAME`. A registered scenario is the name of a module with the
# constants SCENARIO and HEURISTICS, or an object with both.
SCENARIOS: Final = Registry[Any](
    "scenarios",
    {
        "binpack": "hindcast.pipeline.scenarios.binpack",
        "deferrable": "hindcast.pipeline.scenarios.deferrable",
        "gpupack": "hindcast.pipeline.scenarios.gpupack",
        "multicluster": "hindcast.pipeline.scenarios.multicluster",
        "queue": "hindcast.pipeline.scenarios.queue",
        "slots": "hindcast.pipeline.scenarios.slots",
        "thermal": "hindcast.pipeline.scenarios.thermal",
    },
)

# Kinds of datasets that no simulator made. They have a spec, and no episode of them can be played.
WITHOUT_SIMULATOR: Final[Mapping[str, str]] = {"decisions": "hindcast.pipeline.scenarios.decisions"}

# Scenarios for which states of a real machine can be read, and the module that reads them.
LIVE_STATES: Final = Registry[str](
    "live_states", {"queue": "hindcast.pipeline.scenarios.queue.live_state"}, str
)


def load_scenario(name: str) -> "Scenario":
    """Return the scenario of that name.

    An unknown name raises UnknownName; a registered object that is no such Scenario, InputError.
    """
    from hindcast.pipeline.simulation.scenario import Scenario

    scenario = getattr(module_of(name), "SCENARIO", None)
    if not isinstance(scenario, Scenario) or scenario.name != name:
        raise InputError(f"scenario {name!r}: the registered object is not a Scenario of that name")
    return scenario


def module_of(name: str) -> Any:
    """Return the module of a scenario, or the registered object. Raises UnknownName."""
    held = WITHOUT_SIMULATOR.get(name) or SCENARIOS.get(name)
    if held is None:
        raise unknown_name("scenario", name, SCENARIOS)
    return import_module(held) if isinstance(held, str) else held


def register_scenario(
    name: str,
    scenario: "Scenario | str",
    heuristics: "Mapping[str, Heuristic] | None" = None,
) -> None:
    """Add a scenario, so that its name can be used wherever a scenario is named.

    Args:
        name: The name in recipes. It must equal `scenario.name`.
        scenario: The scenario, or the dotted name of a module with the constants SCENARIO and
            HEURISTICS. The module is imported when the scenario is used.
        heuristics: The rules of the scenario by name, in addition to `random` and
            `random_linear`, which every scenario has. Leave this out for a module, whose rules are
            its HEURISTICS.

    Raises:
        InputError: The name is taken, or `heuristics` is given with the name of a module.
    """
    if isinstance(scenario, str) and heuristics is not None:
        raise InputError(
            f"scenario {name!r}: leave out heuristics, because the rules of the module {scenario} "
            "are its HEURISTICS"
        )
    held = SimpleNamespace(SCENARIO=scenario, HEURISTICS=dict(heuristics or {}))
    SCENARIOS.register(name, scenario if isinstance(scenario, str) else held)
