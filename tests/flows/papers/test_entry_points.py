"""Tests of the entry points of this project: they name what their registries hold."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from hindcast.flows.calibrations import CALIBRATIONS, Calibration
from hindcast.flows.protocols import PROTOCOLS, Protocol
from hindcast.pipeline.exports import EXPORTS, Export
from hindcast.pipeline.gymnasium_env.registration import ENVIRONMENTS
from hindcast.pipeline.recipes.loading import known_recipes, load_recipe
from hindcast.pipeline.scenarios import SCENARIOS, load_scenario
from hindcast.pipeline.traces import FORMATS, TraceFormat
from hindcast.policies.networks import ARCHITECTURES, Architecture
from hindcast.policies.offline import AGENTS, Agent
from hindcast.policies.online import ONLINE_AGENTS, OnlineAgent
from tests.readable_recipes import READABLE

PROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"
POINTS = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
REGISTRIES = {
    "agents": (AGENTS, Agent),
    "architectures": (ARCHITECTURES, Architecture),
    "calibrations": (CALIBRATIONS, Calibration),
    "environments": (ENVIRONMENTS, Mapping),
    "exports": (EXPORTS, Export),
    "online_agents": (ONLINE_AGENTS, OnlineAgent),
    "protocols": (PROTOCOLS, Protocol),
    "scenarios": (SCENARIOS, str),
    "trace_formats": (FORMATS, TraceFormat),
}


def test_every_group_belongs_to_a_registry():
    assert POINTS.keys() == {f"hindcast.{group}" for group in REGISTRIES}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "name"), [(g, name) for g in REGISTRIES for name in POINTS[f"hindcast.{g}"]]
)
def test_an_entry_point_is_of_the_kind_of_its_registry(group, name):
    registry, kind = REGISTRIES[group]
    thing = registry[name]
    assert isinstance(thing, kind)
    assert getattr(thing, "name", name) == name
    if group == "scenarios":
        assert load_scenario(name).name == name
    if group == "architectures":
        assert thing.settings.kind == name
    if group == "calibrations":
        assert callable(thing.implementation())


def test_every_recipe_is_of_a_known_scenario_and_agent():
    """Tests of all recipes leave out none."""
    assert known_recipes() == READABLE
    assert {load_recipe(name).online.agent for name in READABLE} <= {"", *ONLINE_AGENTS}
