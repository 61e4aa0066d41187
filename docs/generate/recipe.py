"""The reference page of recipes: every key, from the settings dataclasses."""

import dataclasses
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from docs.generate.text import code, prose, table
from hindcast.pipeline.dataset.documents.attributes import attributes
from hindcast.pipeline.recipes import recipe as r
from hindcast.pipeline.settings.ranges import range_of
from hindcast.pipeline.traces.batch_systems.grid_engine import GridEngineSettings
from hindcast.pipeline.traces.batch_systems.lsf import LsfSettings
from hindcast.pipeline.traces.job_logs import FilteredLogSettings, JobLogSettings
from hindcast.pipeline.traces.slurm import SlurmSettings
from hindcast.pipeline.traces.swf import SwfSettings
from hindcast.pipeline.traces.synthetic import SyntheticConfig

_INTRODUCTION = """\
# Keys of a recipe

A recipe is a TOML file with these sections. A key that does not exist is refused, and the error
names the nearest key that does. `hindcast list --keys RECIPE` prints the values of one recipe.
"""
_CONFIG = """\
## `[config]`

The settings of the scenario: see the section Settings of [its table](index.md).
"""
_EVERY: Final = ("processors", "time_zone")
_SECTIONS: Final = (
    (
        "Top level",
        r.Recipe,
        ("config", "trace", "behaviours", "train", "evaluate", "online", *r.OF_THIS_MACHINE),
    ),
    ("`[trace]`", r.TraceSource, ()),
    ("`[trace.settings]` of the synthetic workload", SyntheticConfig, ()),
    ("`[trace.settings]` of logs of batch systems, but for `swf`", JobLogSettings, ()),
    ("`[trace.settings]` of `slurm`: which jobs", FilteredLogSettings, _EVERY),
    (
        "`[trace.settings]` of `slurm`: how they are written",
        SlurmSettings,
        (*_EVERY, "cluster", "partition"),
    ),
    ("`[trace.settings]` of `grid_engine` alone", GridEngineSettings, _EVERY),
    ("`[trace.settings]` of `lsf` alone", LsfSettings, _EVERY),
    ("`[trace.settings]` of `swf`", SwfSettings, ()),
    ("`[[behaviours]]`", r.BehaviourRecipe, ("sha256",)),
    ("`[train]`", r.TrainRecipe, ()),
    ("`[evaluate]`", r.EvaluateRecipe, ()),
    ("`[online]`", r.OnlineRecipe, ()),
)


def keys_of_a_recipe() -> str:
    """Return the page of all keys."""
    parts = [_INTRODUCTION]
    for title, settings, without in _SECTIONS:
        parts += [f"## {title}", "", settings_table(settings, without)]
    levels = [[code(name), prose(text)] for name, text in r.LEVELS.items()]
    parts += [_CONFIG, "## Levels", "", table(["level", "behaviours of the dataset"], levels)]
    return "\n".join(parts)


def settings_table(settings: type[Any], without: tuple[str, ...] = ()) -> str:
    """Return a table of the keys of a settings dataclass: type, default, range and meaning."""
    rows = list(_rows(settings, "", without))
    return table(["key", "type", "default", "range", "meaning"], rows)


def _rows(settings: type[Any], prefix: str, without: tuple[str, ...]) -> list[list[str]]:
    meanings, hints = attributes(settings), get_type_hints(settings)
    rows: list[list[str]] = []
    for each in dataclasses.fields(settings):
        if each.name in without:
            continue
        hint = hints[each.name]
        inner = next((h for h in (hint, *get_args(hint)) if dataclasses.is_dataclass(h)), None)
        if inner is not None and get_origin(hint) is not tuple:
            rows += _rows(inner, f"{prefix}{each.name}.", ())  # type: ignore[arg-type]
            continue
        key = f"{prefix}{each.name}"
        meaning = prose(meanings.get(each.name, ""))
        rows.append([code(key), _type(hint), _default(each), range_of(each), meaning])
    return rows


def _type(hint: Any) -> str:
    if hint is Any:
        return "any"
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        return " or ".join(_type(a) for a in arguments if a is not NoneType)
    if origin is Literal:
        return ", ".join(code(f'"{a}"' if isinstance(a, str) else str(a)) for a in arguments)
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if origin is not None:
        return "table"
    names = {"int": "integer", "float": "number", "str": "text", "bool": "boolean"}
    return names.get(getattr(hint, "__name__", ""), getattr(hint, "__name__", str(hint)))


def _default(of: dataclasses.Field[Any]) -> str:
    if of.default is not dataclasses.MISSING:
        value = of.default
    elif of.default_factory is not dataclasses.MISSING:
        value = of.default_factory()
    else:
        return "required"
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, tuple):
        return code("[" + ", ".join(map(_literal, value)) + "]")
    return code(_literal(value))


def _literal(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return "{}" if not value else str(dict(value))
    return f'"{value}"' if isinstance(value, str) else f"{value}"
