"""Markdown shared by the generated pages."""

from collections.abc import Iterable, Sequence

from pipeline.evaluation.summary.markdown import plain_text, text_table


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 99) -> str:
    """Return a Markdown table; cells are Markdown already, their line breaks become spaces."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(text_table(head, cells, left)) if cells else ""


def code(text: str) -> str:
    """Return text as inline code."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """Return plain text with Markdown's special characters escaped."""
    return plain_text(text)


def sentence(text: str) -> str:
    """Return plain text as a sentence: a capital letter first, a full stop last."""
    text = plain_text(text)
    return f"{text[0].upper()}{text[1:].rstrip('.')}." if text else ""


def contents(entries: Iterable[str], depth: int = 1) -> str:
    """Return a table of contents of pages by their paths without suffix."""
    return "\n".join(["```{toctree}", f":maxdepth: {depth}", "", *entries, "```", ""])
