"""Typed reading of settings: frozen dataclasses from tables of TOML or JSON."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from hindcast.pipeline.errors import RecipeError, did_you_mean
from hindcast.pipeline.settings.ranges import check_field, note_of, shown


def read_settings(settings: type[Any], value: Any, where: str) -> Any:
    """Return a frozen dataclass from a table, with unknown keys refused, types and ranges checked.

    A whole number becomes a float if the field is one. Ranges: `hindcast.pipeline.settings.ranges`.
    Raises RecipeError that names the key, its value and what was expected.
    """
    if dataclasses.is_dataclass(settings) and isinstance(value, settings):
        return value
    if not isinstance(value, Mapping):
        raise RecipeError(f"{where}: the value is {shown(value)}, expected a table")
    hints = get_type_hints(settings)
    names = [f.name for f in dataclasses.fields(settings)]
    for key in value:
        if key not in names:
            raise RecipeError(f"{where}: unknown key {key!r}; {did_you_mean(str(key), names)}")
    required = [
        f.name
        for f in dataclasses.fields(settings)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if missing := [name for name in required if name not in value]:
        raise RecipeError(f"{where}: the key {missing[0]!r} is missing")
    typed = {}
    for field in dataclasses.fields(settings):
        name = field.name
        if name in value:
            try:
                typed[name] = _typed(hints[name], value[name], f"{where}: {name}")
            except RecipeError as error:
                raise RecipeError(f"{error}{note_of(field)}") from error
    for field in dataclasses.fields(settings):
        if field.name in typed:
            check_field(field, typed[field.name], f"{where}: {field.name}")
    return settings(**typed)


def _typed(hint: Any, value: Any, where: str) -> Any:
    """Return `value` with the type of the annotation, or raise RecipeError."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or (origin is Mapping and where.endswith(": split")):
        return value
    if dataclasses.is_dataclass(hint):
        return read_settings(hint, value, where)  # type: ignore[arg-type]
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise RecipeError(f"{where} is {shown(value)}, expected a list")
        return tuple(_typed(arguments[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if origin is Literal:
        if value not in arguments:
            raise RecipeError(
                f"{where} is {shown(value)}; {did_you_mean(str(value), map(str, arguments))}"
            )
        return value
    if origin in {Union, types.UnionType}:
        lists = [each for each in arguments if get_origin(each) is tuple]
        if lists and isinstance(value, list | tuple):
            return _typed(lists[0], value, where)
        return None if value is None else _typed(arguments[0], value, where)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise RecipeError(f"{where} is {shown(value)}, expected a table")
        return {k: _typed(arguments[1], v, f"{where}.{k}") for k, v in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise RecipeError(f"{where} is {shown(value)}, expected a number") from error
    if type(value) is not hint:
        raise RecipeError(f"{where} is {shown(value)}, expected {_KINDS.get(hint, hint.__name__)}")
    return value


_KINDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "true or false",
}
