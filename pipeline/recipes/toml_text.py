"""Reading of untrusted TOML: nesting, keys and numbers that no recipe has are refused early."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.settings.ranges import LARGEST, shown

_MOST_BYTES: Final = 1 << 20
_DEEPEST: Final = 16  # tables and lists within each other; recipes have 5
# Parts of a dotted key. Reading a key takes a time that grows with the square of its length.
_PART: Final = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY: Final = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{4 * _DEEPEST},}}+")


def read_toml(path: Path) -> dict[str, Any]:
    """Return the table of a TOML file; raise RecipeError if it is invalid or beyond the limits."""
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise RecipeError(
                f"{path}: this file has {size:,} bytes, expected at most {_MOST_BYTES:,}"
            )
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: this file is not valid TOML ({error})") from error
    except OSError as error:
        raise RecipeError(f"{path}: this file cannot be read ({error.strerror})") from error
    try:
        return parse_toml(text, str(path))
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path}: this file is not valid TOML ({error})") from error


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Return the table of a text.

    Raises RecipeError for nesting, keys and numbers that no recipe has, and tomllib.TOMLDecodeError
    for a text that is not TOML.
    """
    if long := _LONG_KEY.search(text):
        line = text.count("\n", 0, long.start()) + 1
        raise RecipeError(
            f"{where}: line {line} has a key of more than {4 * _DEEPEST} dotted parts, expected at "
            f"most {_DEEPEST}"
        )
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError as error:
        raise RecipeError(f"{where}: {_too_deep()}") from error
    except ValueError as error:  # of int(), for thousands of digits
        raise RecipeError(
            f"{where}: a whole number has thousands of digits, expected at most 64 bits"
        ) from error
    check_table(table, where)
    return table


def check_table(table: Mapping[str, Any], where: str) -> None:
    """Raise RecipeError if values are nested too deeply, or a whole number has over 64 bits."""
    to_check: list[tuple[str, int, Any]] = [("", 0, table)]
    while to_check:
        key, depth, value = to_check.pop()
        if depth > _DEEPEST:
            raise RecipeError(f"{where}: {key.split('.')[0].split('[')[0]}: {_too_deep()}")
        if isinstance(value, Mapping):
            dot = "." if key else ""
            to_check += [(f"{key}{dot}{name}", depth + 1, item) for name, item in value.items()]
        elif isinstance(value, list):
            to_check += [(f"{key}[{place}]", depth + 1, item) for place, item in enumerate(value)]
        elif isinstance(value, int) and abs(value) > LARGEST:
            raise RecipeError(f"{where}: {key} is {shown(value)}, expected at most 64 bits")


def _too_deep() -> str:
    return f"tables or lists are nested too deeply, expected at most {_DEEPEST} within each other"
