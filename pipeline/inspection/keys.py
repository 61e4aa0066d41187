"""All keys of a recipe, defaults included, with their values, types, ranges and meanings.

    config.machines     2            integer    from 1 to 100,000    Number of machines.
    split.train         "0..79"      string                          ...
    behaviours[].policy  ["random"]  string     one value per [[behaviours]] table

The meanings are those of the `Attributes:` sections of the settings classes.
"""

import dataclasses
import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from hindcast.pipeline.dataset.documents.attributes import attributes
from hindcast.pipeline.recipes.recipe import OF_THIS_MACHINE, Recipe, TrainRecipe
from hindcast.pipeline.recipes.workload_source import SYNTHETIC
from hindcast.pipeline.settings.ranges import range_of
from hindcast.pipeline.settings.reading import read_settings

_TYPES: Final[Mapping[Any, str]] = {
    int: "integer", float: "number", str: "string", bool: "boolean", range: "string", Any: "any",
}  # fmt: skip


@dataclass(frozen=True)
class Key:
    """Key of a recipe.

    Attributes:
        key: Name as `--set` takes it, section.key.
        value: Value as JSON.
        type: Type of the value, in words.
        range: Range of its numbers, with their unit; empty for other values.
        meaning: Meaning; empty if the settings class does not state it.
    """

    key: str
    value: Any
    type: str
    range: str
    meaning: str


def recipe_keys(recipe: Recipe, settings: Mapping[str, Any] | None = None) -> list[Key]:
    """Return the keys of a recipe in the order of its classes.

    `settings` are the settings dataclasses of agents by section: "online.settings" or
    "train.settings.AGENT". Sections without one are listed as the recipe's file has them.
    """
    known = dict(settings or {})
    if recipe.trace.format == SYNTHETIC:
        from hindcast.pipeline.traces.synthetic import SyntheticConfig

        known["trace.settings"] = read_settings(
            SyntheticConfig, recipe.trace.settings, f"{recipe.id}: trace.settings"
        )
    return list(_keys(recipe, "", known))


def type_name(hint: Any) -> str:
    """Return the type of a setting in words, for example "list of integers"."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " | ".join(json.dumps(one) for one in arguments)
    if origin in {Union, types.UnionType}:
        return " or ".join(type_name(one) for one in arguments if one is not types.NoneType)
    if origin is tuple:
        return f"list of {type_name(arguments[0])}s"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "table"
    return str(_TYPES.get(hint) or getattr(hint, "__name__", hint))


def _keys(table: Any, prefix: str, known: Mapping[str, Any]) -> Iterator[Key]:
    """Yield the keys of a settings dataclass; `known` are those of sections that it leaves open."""
    hints, meanings = get_type_hints(type(table)), attributes(type(table))
    for each in dataclasses.fields(table):
        key, hint = f"{prefix}{each.name}", hints[each.name]
        value, meaning = known.get(key, getattr(table, each.name)), meanings.get(each.name, "")
        if key in OF_THIS_MACHINE:
            continue
        if dataclasses.is_dataclass(value):
            yield from _keys(value, f"{key}.", known)
        elif isinstance(value, Mapping):
            yield from _entries(value, key, hint, meaning, known)
        elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            columns = [list(_keys(one, f"{key}[].", known)) for one in value]
            for of in zip(*columns, strict=True):
                yield dataclasses.replace(of[0], value=[one.value for one in of])
        else:
            yield Key(key, _plain(value), type_name(hint), range_of(each), meaning)


def _entries(
    table: Mapping[str, Any], key: str, hint: Any, meaning: str, known: Mapping[str, Any]
) -> Iterator[Key]:
    """Yield the keys of an open section, such as [split] or [train.settings]."""
    for name, value in table.items():
        inner = f"{key}.{name}"
        if inner in known:
            yield from _keys(known[inner], f"{inner}.", known)
            if "steps" in value:  # of [train.settings.AGENT]; not a setting of the agent
                steps = range_of(TrainRecipe.__dataclass_fields__["steps"])
                yield Key(f"{inner}.steps", value["steps"], "integer", steps, "Gradient steps.")
        elif isinstance(value, Mapping):
            yield from _entries(value, inner, Any, meaning, known)
        else:
            of = get_args(hint)[1] if get_args(hint) else Any
            kind = type_name(type(value) if of is Any else of)
            yield Key(inner, _plain(value), kind, "", meaning)


def _plain(value: Any) -> Any:
    if isinstance(value, range):
        return f"{value.start}..{value.stop - 1}"
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
