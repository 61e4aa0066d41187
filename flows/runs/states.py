"""States of a machine in a file or on stdin: one object as JSON, or one a line."""

import json
import sys
from collections.abc import Iterator
from typing import Any, Final

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.storage.location import location

STDIN: Final = "-"


def texts_of(source: str) -> Iterator[tuple[str, str]]:
    """Return each state of a file or of stdin as JSON, behind the name of its file and line."""
    name = "stdin" if source == STDIN else source
    try:
        text = sys.stdin.read() if source == STDIN else location(source).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 ({error}), expected JSON") from error
    lines = [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise InputError(f"{name}: empty, expected a state as JSON, or JSON lines")
    if _is_one(lines[0][1], text):
        yield name, text
        return
    for number, line in lines:
        yield f"{name}, line {number}", line


def _is_one(line: str, text: str) -> bool:
    """Return whether a text is one object over several lines: its first line alone is no JSON."""
    if line.strip() == text.strip():
        return False
    try:
        json.loads(line)
    except ValueError:
        return line.strip() in {"{", "["} or not line.rstrip().endswith("}")
    return False


def parsed(text: str | bytes, where: str, what: str = "a state") -> Any:
    """Return a state, or `what` else a line has, from JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error}), expected {what} as an object") from error
