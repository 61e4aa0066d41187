"""Ranges of numbers in settings: every number has one, and what is out of it is refused."""

import dataclasses
import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args, get_type_hints

import pytest

from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.scenarios import SCENARIOS, load_scenario
from hindcast.pipeline.settings.ranges import check_ranges, number, range_of, ranged
from hindcast.pipeline.settings.reading import read_settings
from hindcast.pipeline.simulation.scenario import LEFT_OUT_WHEN_DEFAULT
from hindcast.pipeline.traces.synthetic import SyntheticConfig
from hindcast.policies.networks import ARCHITECTURES
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.offline import AGENTS
from hindcast.policies.offline.sweep import Sweep
from hindcast.policies.online import ONLINE_AGENTS


@dataclass(frozen=True)
class Machine:
    """A settings dataclass with every kind of range."""

    seed: int = field(metadata=ranged("at least 0"))
    epsilon: float = number(0.0, "from 0 to 1")
    decay: float = number(0.5, "from 0 to below 1")
    step_s: float = number(1.0, "above 0, at most 1,000", "s")
    limit: float = number(1.0, "above 0 or inf")
    lengths: tuple[int, ...] | None = number(None, "from -2 to 3", metadata=LEFT_OUT_WHEN_DEFAULT)
    weight: float = number(1.0, "any")
    shares: Mapping[str, float] = field(default_factory=dict, metadata=ranged("from 0 to 1"))


GOOD: list[dict[str, Any]] = [
    {"epsilon": 0}, {"epsilon": 1}, {"decay": 0.0}, {"step_s": 1000}, {"step_s": 5e-324},
    {"limit": math.inf}, {"lengths": [-2, 3]}, {"lengths": None}, {"weight": -1e300},
    {"shares": {"a": 1, "b": 0.5}},
]  # fmt: skip
BAD = [
    ({"epsilon": 1.5}, r"x: epsilon is 1.5, expected from 0 to 1"),
    ({"epsilon": -0.5}, r"x: epsilon is -0.5, expected from 0 to 1"),
    ({"epsilon": math.nan}, r"x: epsilon is nan, expected from 0 to 1"),
    ({"decay": 1.0}, r"x: decay is 1.0, expected from 0 to below 1"),
    ({"step_s": 0}, r"x: step_s is 0.0, expected above 0, at most 1,000 \(s\)"),
    ({"step_s": 1001}, r"x: step_s is 1001.0, expected above 0, at most 1,000 \(s\)"),
    ({"limit": math.nan}, r"x: limit is nan, expected above 0 or inf"),
    ({"lengths": [1, 4]}, r"x: lengths\[1\] is 4, expected from -2 to 3"),
    ({"shares": {"a": 0.5, "b": 2.0}}, r"x: shares\.b is 2.0, expected from 0 to 1"),
    ({"weight": math.inf}, r"x: weight is inf, expected any"),
    ({"weight": 10**400}, r"x: weight is a whole number of 1,329 bits, expected a number"),
    ({"seed": 10**5000}, r"x: seed is a whole number of 16,610 bits, expected at least 0, a whole"),
    ({"seed": -1}, r"x: seed is -1, expected at least 0$"),
]


@pytest.mark.parametrize("values", GOOD)
def test_numbers_within_their_range_are_read(values):
    assert read_settings(Machine, {"seed": 1, **values}, "x").seed == 1


@pytest.mark.parametrize(("values", "words"), BAD)
def test_numbers_out_of_their_range_are_refused(values, words):
    with pytest.raises(RecipeError, match=words):
        read_settings(Machine, {"seed": 1, **values}, "x")


def test_a_settings_object_can_check_itself():
    with pytest.raises(RecipeError, match=r"machine\.epsilon is 2.0, expected from 0 to 1"):
        check_ranges(Machine(seed=1, epsilon=2.0), "machine")


def test_metadata_combine():
    lengths = {f.name: f for f in dataclasses.fields(Machine)}["lengths"]
    assert lengths.metadata.items() >= LEFT_OUT_WHEN_DEFAULT.items()
    assert range_of(lengths) == "from -2 to 3"


@pytest.mark.parametrize("text", ["", "0 to 1", "from 0", "at leats 1", "above 0 and maybe 1"])
def test_a_text_that_is_no_range_is_refused_when_it_is_typed(text):
    if text == "from 0":  # the same as "at least 0"
        number(0, text)
        return
    with pytest.raises(ValueError, match="is not a range"):
        number(0, text)


def settings_classes() -> list[type[Any]]:
    """Every dataclass of settings that a recipe, a sweep or a checkpoint can hold."""
    tops: list[type[Any]] = [Recipe, SyntheticConfig, NetworkSettings, Sweep]
    tops += [load_scenario(name).config for name in SCENARIOS]
    tops += [agent.implementation().Config for agent in AGENTS.values()]
    tops += [importlib.import_module(agent.module).Config for agent in ONLINE_AGENTS.values()]
    tops += [each.settings for each in ARCHITECTURES.values()]
    found: dict[type[Any], None] = {}
    while tops:
        kind = tops.pop(0)
        if kind not in found:
            found[kind] = None
            hints = get_type_hints(kind)
            tops += [
                inner
                for each in dataclasses.fields(kind)
                for inner in (hints[each.name], *get_args(hints[each.name]))
                if dataclasses.is_dataclass(inner) and isinstance(inner, type)
            ]
    return list(found)


def holds_numbers(hint: Any) -> bool:
    """Whether a type is a number, or a list or an option of numbers."""
    return hint in {int, float} or any(map(holds_numbers, get_args(hint)))


def test_every_number_of_settings_has_a_range():
    """Literal numbers need none: their type names them."""
    without = [
        f"{kind.__module__}.{kind.__qualname__}.{each.name}"
        for kind in settings_classes()
        for each in dataclasses.fields(kind)
        if holds_numbers(get_type_hints(kind)[each.name]) and not range_of(each)
    ]
    assert without == []
    assert len(settings_classes()) > 30


def test_defaults_are_within_their_ranges():
    for kind in settings_classes():
        given = [
            each
            for each in dataclasses.fields(kind)
            if each.default is not dataclasses.MISSING and range_of(each)
        ]
        check_ranges(dataclasses.make_dataclass(f"Given{kind.__name__}", [
            (each.name, Any, field(default=each.default, metadata=each.metadata)) for each in given
        ])())  # fmt: skip
