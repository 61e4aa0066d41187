"""What a scenario is made of, and the registry of those that exist."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import unknown_name
from pipeline.kernel import Compiled
from pipeline.schema import Spec
from pipeline.workload import Workload


@dataclass(frozen=True)
class Instance:
    """One problem instance, ready to run: the memory of an episode before its first decision.

    ints, floats   the memory (see pipeline.kernel); never changed, every episode copies it
    capacity       the most candidates that an observation of this instance can have
    """

    ints: NDArray[np.int64]
    floats: NDArray[np.float64]
    capacity: int


@dataclass(frozen=True)
class Scenario:
    """A scheduling problem: its settings, its instances, its compiled transition.

    config      frozen dataclass of settings; its fields are the keys of a recipe's [config]
    objectives  names of the rewards that it can pay
    windows     (config, workload) -> how many problem instances the workload gives
    instance    (config, objective, workload, window, rng) -> Instance; raises InputError where
                the workload cannot be run under the settings
    values      compiled like `outcome`: after the end of an episode, the value of every decision
                in order; needed where the spec is `valued`
    bound       outcome that bounds the headline outcome, or None; `bound_kind` says which way
    """

    name: str
    config: type[Any]
    objectives: tuple[str, ...]
    spec: Callable[[Any, str], Spec]
    windows: Callable[[Any, Workload], int]
    instance: Callable[[Any, str, Workload, int, np.random.Generator], Instance]
    observe: Compiled
    step: Compiled
    outcome: Compiled
    values: Compiled | None = None
    bound: str | None = None
    bound_kind: str | None = None


# A module per scenario, each with a constant SCENARIO; loaded when named, since that compiles.
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
