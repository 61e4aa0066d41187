"""Sweeps: strict TOML that describes a set of trainings, and the list of those trainings.

    agents = ["cql", "trajectory_preference"]
    seeds = [0, 1]                      # every choice of settings with every seed
    steps = 2000
    search = "grid"                     # every combination; or "random", then also
    draws = 8                           # choices of settings per agent
    seed = 0                            # of these draws

    [settings]                          # of all agents that have them
    learning_rate = [1e-3, 3e-3]        # the values to try; a single value is a list of one
    network.hidden = [[32, 32], [64, 64]]

    [settings.cql]                      # of one agent
    alpha = {low = 1e-4, high = 1e-1, scale = "log"}    # "random" only; scale is linear by default

The folder of a training is named after the agent, a digest of the settings, and the seed. A
training that is finished in its folder is not repeated.
"""

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from hindcast.pipeline.errors import RecipeError, did_you_mean
from hindcast.pipeline.recipes.toml_text import read_toml
from hindcast.pipeline.settings.ranges import SEED, number
from hindcast.pipeline.settings.reading import read_settings
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.storage.files import sha256_text
from hindcast.policies.offline import AGENTS, agent, read_config

_RANGE: Final = {"low", "high", "scale"}
_SCALES: Final = ("linear", "log")


@dataclass(frozen=True)
class Sweep:
    """A set of trainings, as in a sweep.toml.

    Attributes:
        agents: Names of the agents, at least one.
        seeds: Seeds of the trainings, 0 or more each, at least one.
        steps: Gradient steps of every training, at least 1.
        search: "grid" tries every combination of values, "random" draws some.
        draws: Choices of settings per agent in a random search, at least 1.
        seed: Seed of a random search, 0 or more.
        settings: Values or ranges to try, by the names of settings, or by agent and then by name.
    """

    agents: tuple[str, ...]
    seeds: tuple[int, ...] = number((0,), SEED)
    steps: int = number(2000, "from 1 to 1,000,000,000")
    search: Literal["grid", "random"] = "grid"
    draws: int = number(10, "from 1 to 1,000,000")
    seed: int = number(0, SEED)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One training of a sweep.

    Attributes:
        agent: Name of the agent.
        settings: Settings that the sweep replaces, by dotted names.
        seed: Seed of the training.
        steps: Number of gradient steps.
    """

    agent: str
    settings: Mapping[str, Any]
    seed: int
    steps: int

    @property
    def choice(self) -> str:
        """Agent and settings in canonical form, the same for runs that differ in the seed alone."""
        return f"{self.agent} {json.dumps(self.settings, sort_keys=True)}"

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        label = sha256_text(self.choice)[:8] if self.settings else "default"
        return f"{self.agent}-{label}-seed{self.seed}"


def load_sweep(path: Path) -> dict[str, Any]:
    """Return the table of a sweep.toml.

    Raises RecipeError if the file is no valid TOML or cannot be read.
    """
    return read_toml(path)


def plan(table: Mapping[str, Any], where: str) -> list[Run]:
    """Return the trainings of a sweep, in order, each once; `where` is the file to name in errors.

    Raises RecipeError, which names the key and the nearest valid one, and UnknownName for an agent.
    """
    sweep = read_settings(Sweep, table, where)
    for name in sweep.agents:
        agent(name)
    if not sweep.agents or not sweep.seeds:
        raise RecipeError(f"{where}: expected at least one agent and one seed")
    by_agent = _by_agent(sweep, where)
    runs = {
        (run.choice, run.seed): run
        for name in sweep.agents
        for settings in _choices(sweep, name, by_agent[name], where)
        for seed in sweep.seeds
        for run in (Run(name, settings, seed, sweep.steps),)
    }
    for run in runs.values():
        read_config(run.agent, run.settings)
    return list(runs.values())


def _by_agent(sweep: Sweep, where: str) -> dict[str, dict[str, Any]]:
    """Return the settings to try of each agent: dotted names to lists of values, or to ranges."""
    general = {k: v for k, v in sweep.settings.items() if k not in AGENTS}
    known = {name: _settings_of(name) for name in sweep.agents}
    flat = dict(_flatten(general))
    everywhere = sorted(set().union(*known.values()))
    for key in flat:
        if key not in everywhere:
            raise RecipeError(
                f"{where}: unknown key settings.{key}, which no agent of this sweep has; "
                f"{did_you_mean(key, [*everywhere, *sweep.agents])}"
            )
    for name in sweep.settings:
        if name in AGENTS and name not in sweep.agents:
            raise RecipeError(
                f"{where}: settings.{name} is given, but {name!r} is not among the agents; "
                f"{did_you_mean(name, sweep.agents)}"
            )
    by_agent = {}
    for name in sweep.agents:
        settings = dict(_flatten(sweep.settings.get(name, {})))
        for key in settings:
            if key not in known[name]:
                raise RecipeError(
                    f"{where}: unknown key settings.{name}.{key}; {did_you_mean(key, known[name])}"
                )
        by_agent[name] = {k: v for k, v in flat.items() if k in known[name]} | settings
    return by_agent


def _settings_of(name: str) -> set[str]:
    """Return the dotted names of an agent's settings, tables of settings included."""
    config = agent(name).implementation().Config()
    names = {f.name for f in dataclasses.fields(config)}
    tables = {n: v for n in names if dataclasses.is_dataclass(v := getattr(config, n))}
    return names | {f"{n}.{f.name}" for n, v in tables.items() for f in dataclasses.fields(v)}


def _flatten(table: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted names and values of nested tables; a range is a value."""
    for key, value in table.items() if isinstance(table, Mapping) else ():
        if isinstance(value, Mapping) and not _is_range(value):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _is_range(value: Any) -> bool:
    return isinstance(value, Mapping) and {"low", "high"} <= set(value) <= _RANGE


def _choices(
    sweep: Sweep, name: str, settings: Mapping[str, Any], where: str
) -> Iterator[dict[str, Any]]:
    """Yield the settings of each training."""
    keys = list(settings)
    values = [v if isinstance(v, list) or _is_range(v) else [v] for v in settings.values()]
    for key, value in zip(keys, values, strict=True):
        if value == []:
            raise RecipeError(f"{where}: settings.{key} is [], expected at least one value")
        if not isinstance(value, list):
            _check_range(value, f"{where}: settings.{key}", sweep.search)
    if sweep.search == "grid":
        for chosen in itertools.product(*values):
            yield dict(zip(keys, chosen, strict=True))
        return
    rng = generator(sweep.seed, f"sweep {name}")
    for _ in range(sweep.draws):
        yield {k: _draw(v, rng) for k, v in zip(keys, values, strict=True)}


def _check_range(value: Mapping[str, Any], where: str, search: str) -> None:
    if search == "grid":
        raise RecipeError(f'{where} is a range, which needs search = "random"')
    low, high, scale = value["low"], value["high"], value.get("scale", "linear")
    if scale not in _SCALES:
        raise RecipeError(f"{where}.scale is {scale!r}; {did_you_mean(str(scale), _SCALES)}")
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in (low, high)):
        raise RecipeError(f"{where}: low and high are {low!r} and {high!r}, expected numbers")
    if not low < high or (scale == "log" and low <= 0):
        raise RecipeError(f"{where}: expected low < high, and low above 0 for a log scale")


def _draw(value: Any, rng: np.random.Generator) -> Any:
    """Return one value of a list, or a number of a range: whole if both ends of the range are."""
    if isinstance(value, list):
        return value[int(rng.integers(len(value)))]
    low, high = value["low"], value["high"]
    is_whole = isinstance(low, int) and isinstance(high, int)
    if value.get("scale", "linear") == "log":
        drawn = math.exp(rng.uniform(math.log(low), math.log(high + is_whole)))
    else:
        drawn = rng.uniform(low, high + is_whole)
    return min(int(drawn), high) if is_whole else float(f"{drawn:.4g}")
