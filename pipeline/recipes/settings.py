"""Typed reading of settings: frozen dataclasses from tables of TOML or JSON."""

import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from pipeline.errors import RecipeError, did_you_mean

_RANGES: Final[Mapping[str, Callable[[float], bool]]] = {
    "above 0": lambda v: v > 0,
    "at least 0": lambda v: v >= 0,
    "at least 1": lambda v: v >= 1,
    "from 0 to 1": lambda v: 0 <= v <= 1,
    "from 0 to below 1": lambda v: 0 <= v < 1,
    "above 0, at most 1": lambda v: 0 < v <= 1,
}


def require_numbers(settings: Any, expected: str, *names: str, table: str = "") -> None:
    """Raise RecipeError if a number of `settings` is not as expected, a key of _RANGES.

    `table` is the name of the settings in a recipe, for the message.
    """
    for name in names:
        value = getattr(settings, name)
        if not _RANGES[expected](value):
            where = f"{table}.{name}" if table else name
            raise RecipeError(f"{where} is {value}, expected {expected}")


def read_settings(settings: type[Any], value: Any, where: str) -> Any:
    """Return a frozen dataclass from a table, with unknown keys refused and types checked.

    A whole number becomes a float if the field is one. Raises RecipeError that names the key and
    what was expected.
    """
    if dataclasses.is_dataclass(settings) and isinstance(value, settings):
        return value
    if not isinstance(value, Mapping):
        raise RecipeError(f"{where}: the value is {value!r}, expected a table")
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
    return settings(**{k: _typed(hints[k], v, f"{where}: {k}") for k, v in value.items()})


def _typed(hint: Any, value: Any, where: str) -> Any:
    """Return `value` with the type of the annotation, or raise RecipeError."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or (origin is Mapping and where.endswith(": split")):
        return value
    if dataclasses.is_dataclass(hint):
        return read_settings(hint, value, where)  # type: ignore[arg-type]
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise RecipeError(f"{where} is {value!r}, expected a list")
        return tuple(_typed(arguments[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if origin is Literal:
        if value not in arguments:
            raise RecipeError(
                f"{where} is {value!r}; {did_you_mean(str(value), map(str, arguments))}"
            )
        return value
    if origin in {Union, types.UnionType}:
        return None if value is None else _typed(arguments[0], value, where)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise RecipeError(f"{where} is {value!r}, expected a table")
        return {k: _typed(arguments[1], v, f"{where}.{k}") for k, v in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not hint:
        raise RecipeError(f"{where} is {value!r}, expected {_KINDS.get(hint, hint.__name__)}")
    return value


_KINDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "true or false",
}
