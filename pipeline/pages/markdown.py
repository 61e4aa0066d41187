"""Text as it stands in Markdown and YAML: escaped, quoted, wrapped, and tables."""

import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from hindcast.pipeline.errors import printable

_WIDTH: Final = 98  # characters of a wrapped line
# Markdown ignores an underscore inside a word, so names stay readable without an escape.
_SPECIAL: Final = re.compile(r"[\\`*{}\[\]<>|#]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")


def plain_text(text: str) -> str:
    """Return text with the characters escaped that Markdown or a terminal would obey."""
    return _SPECIAL.sub(r"\\\g<0>", printable(" ".join(text.split())))


def text_table(head: Sequence[str], body: Iterable[Sequence[str]], left: int) -> list[str]:
    """Return a Markdown table; its first `left` columns are text, the others are numbers."""
    rules = ["---" if i < left else "---:" for i in range(len(head))]
    return [*(f"| {' | '.join(cells)} |" for cells in (head, rules, *body)), ""]


def cell(text: str) -> str:
    """Return text that cannot end a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def quoted(text: str) -> str:
    """Return text as a YAML string in one line; JSON's strings are YAML strings."""
    return json.dumps(text, ensure_ascii=False)


def wrapped(text: str, indent: str = "") -> str:
    """Return a paragraph in lines of at most 98 characters; a newline at its end is kept.

    Lines after the first begin with `indent`.
    """
    lines = textwrap.wrap(
        re.sub(r"\n *", " ", text.strip("\n")), _WIDTH, subsequent_indent=indent,
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
    return "\n".join(lines) + "\n" * text.endswith("\n")
