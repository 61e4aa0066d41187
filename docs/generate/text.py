"""Markdown shared by the generated pages."""

import re
from collections.abc import Iterable, Sequence

from hindcast.pipeline.pages.markdown import plain_text, text_table


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 99) -> str:
    """Return a Markdown table; cells are Markdown already, their line breaks become spaces."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(text_table(head, cells, left)) if cells else ""


def code(text: str) -> str:
    """Return text as inline code."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """Return plain text with Markdown's special characters escaped, but for `code`."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(
        part if part.startswith("`") and len(part) > 1 else _escaped(part) for part in parts
    )


def _escaped(text: str) -> str:
    """Return text with special characters escaped and the spaces around it kept."""
    inner = text.strip()
    if not inner:
        return text
    before, _, after = text.partition(inner)
    return f"{before}{plain_text(inner)}{after}"


def sentence(text: str) -> str:
    """Return plain text as a sentence: a capital letter first, a full stop last."""
    text = prose(text)
    return f"{text[0].upper()}{text[1:].rstrip('.')}." if text else ""


def contents(entries: Iterable[str], depth: int = 1) -> str:
    """Return a table of contents of pages by their paths without suffix."""
    return "\n".join(["```{toctree}", f":maxdepth: {depth}", "", *entries, "```", ""])
