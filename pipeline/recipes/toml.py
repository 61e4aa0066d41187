"""Writing of a recipe as TOML with all defaults; reading it gives the same recipe and digest."""

import json
from collections.abc import Mapping
from typing import Any

from hindcast.pipeline.recipes.recipe import Recipe


def recipe_toml(recipe: Recipe) -> str:
    """Return the text of a recipe.toml, without keys of value None, which is their default."""
    table = {**recipe.to_dict(), "id": recipe.id}
    behaviours = table.pop("behaviours")
    sections = {k: table.pop(k) for k in ("config", "trace", "split", "train", "evaluate")}
    lines = _pairs(table)
    for name, section in sections.items():
        lines += ["", f"[{name}]", *_pairs(section)]
    for behaviour in behaviours:
        lines += ["", "[[behaviours]]", *_pairs(behaviour)]
    return "\n".join(lines) + "\n"


def table_toml(table: Mapping[str, Any]) -> str:
    """Return the text of a table, each of its tables as a section."""
    lines = _pairs({k: v for k, v in table.items() if not isinstance(v, Mapping)})
    for name, section in table.items():
        if isinstance(section, Mapping):
            lines += ["", f"[{_key(name)}]", *_pairs(section)]
    return "\n".join(lines) + "\n"


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(k)} = {value_toml(v)}" for k, v in table.items() if v is not None]


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else _text(name)


def _text(text: str) -> str:
    # JSON's strings are TOML's basic strings, except that TOML wants DEL escaped as well
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def value_toml(value: Any) -> str:
    """Return a value as it stands after the `=` of a line; a table is inline."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_pairs(value)) + " }" if value else "{}"
    return "[" + ", ".join(value_toml(v) for v in value) + "]"
