"""Templates of pages: files beside the code, each readable as the page that it makes.

A template is named after its page: `card.md.jinja`. In `*.html.jinja` every value is escaped that
is not markup already. A name that a template does not know is an error.
"""

import json
import re
import textwrap
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hindcast.pipeline.errors import printable
from hindcast.pipeline.statistics.intervals import Interval
from hindcast.pipeline.statistics.numbers import count_of, write_estimate, write_number

if TYPE_CHECKING:
    import jinja2

_WIDTH: Final = 98  # characters of a wrapped line


def render(template: Path, **values: Any) -> str:
    """Return the page that a template makes of some values."""
    return _environment(template.parent).get_template(template.name).render(values)


@cache
def _environment(folder: Path) -> "jinja2.Environment":
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=jinja2.select_autoescape(["html.jinja"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        cell=cell, count_of=count_of, estimate=_estimate, number=write_number,
        printable=printable, quoted=quoted, wrapped=wrapped, written=format,
    )  # fmt: skip
    return environment


def wrapped(text: str, indent: str = "") -> str:
    """Return a paragraph in lines of at most 98 characters; a newline at its end is kept.

    Lines after the first begin with `indent`.
    """
    lines = textwrap.wrap(
        re.sub(r"\n *", " ", text.strip("\n")), _WIDTH, subsequent_indent=indent,
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
    return "\n".join(lines) + "\n" * text.endswith("\n")


def quoted(text: str) -> str:
    """Return text as a YAML string in one line; JSON's strings are YAML strings."""
    return json.dumps(text, ensure_ascii=False)


def cell(text: str) -> str:
    """Return text that cannot end a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def _estimate(interval: Interval, decimals: int) -> str:
    return write_estimate(*interval, decimals)
