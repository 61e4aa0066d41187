"""Values of foreign JSON, each checked for its type and range."""

import re
from collections.abc import Callable
from typing import Any, Final

_MOST: Final = 1 << 40  # of anything that is counted
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def _of(kind: type[Any], expected: str) -> Callable[[Any], Any]:
    """Return a function that passes values of exactly this type and raises TypeError for others."""

    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{str(value)[:40]!r} is a {type(value).__name__}, expected {expected}")
        return value

    return check


a_table: Final[Callable[[Any], dict[str, Any]]] = _of(dict, "a table")
a_list: Final[Callable[[Any], list[Any]]] = _of(list, "a list")
a_text: Final[Callable[[Any], str]] = _of(str, "text")
_a_whole_number: Final[Callable[[Any], int]] = _of(int, "a whole number")


def a_count(value: Any, most: int = _MOST) -> int:
    """Return a whole number from 0 to `most`; raise TypeError or ValueError for anything else."""
    if not 0 <= _a_whole_number(value) <= most:
        raise ValueError(f"{str(value)[:40]} is out of range, expected 0 to {most}")
    return int(value)


def a_sha256(value: Any) -> str:
    """Return a SHA-256 in lower-case hex; raise TypeError or ValueError for anything else."""
    if not _SHA256.fullmatch(a_text(value)):
        raise ValueError(
            f"{value[:80]!r} is not a SHA-256, expected 64 lower-case hexadecimal digits"
        )
    return str(value)
