"""Templates of pages: files beside the code, each readable as the page that it makes.

A template is named after its page: `card.md.jinja`. It may also use those of this folder. A name
that a template does not know is an error.

In `*.html.jinja` every value is escaped that is not markup already, and so is all text. White space
with a newline in it vanishes beside a tag, a block, or an expression that is alone on its line. It
is one space elsewhere.
"""

import html
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hindcast.pipeline.errors import printable
from hindcast.pipeline.pages.markdown import cell, plain_text, quoted, wrapped
from hindcast.pipeline.pages.numbers import (
    count_of,
    decimals_for,
    write_estimate,
    write_interval,
    write_number,
)
from hindcast.pipeline.statistics.intervals import Interval

if TYPE_CHECKING:
    import jinja2

_HERE: Final = Path(__file__).parent
STYLE: Final = _HERE / "page.css"  # of all HTML pages, with the light scheme first
_HTML: Final = ".html.jinja"

# Lines that begin or end with a tag, a block, or an expression that is alone on its lines.
_BEGINS: Final = re.compile(r"<|\{[%#]|\{\{((?!\}\}).)*(\}\}$|$)")
_ENDS: Final = re.compile(r"(>|[%#]\}|(^|^\{\{)((?!\{\{).)*\}\})$")
_CODE: Final = r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}"
_NO_TEXT: Final = re.compile(rf"(<(?:{_CODE}|[^>])*>|{_CODE})")


def render(template: Path, **values: Any) -> str:
    """Return the page that a template makes of some values."""
    text = _environment(template.parent).get_template(template.name).render(values)
    if template.name.endswith(_HTML):  # quotes are written as by html.escape
        text = text.replace("&#34;", "&quot;").replace("&#39;", "&#x27;")
    return text


@cache
def _environment(folder: Path) -> "jinja2.Environment":
    import jinja2

    class Loader(jinja2.FileSystemLoader):
        def get_source(self, environment: jinja2.Environment, template: str) -> Any:
            text, *others = super().get_source(environment, template)
            return on_one_line(text) if template.endswith(_HTML) else text, *others

    environment = jinja2.Environment(
        loader=Loader([folder, _HERE]),
        autoescape=jinja2.select_autoescape([_HTML[1:]]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        cell=cell, count_of=count_of, decimals=decimals_for, estimate=_estimate,
        number=write_number, plain=plain_text, printable=printable, quoted=quoted, repr=repr,
        wrapped=wrapped, written=format,
    )  # fmt: skip
    environment.globals.update(interval=write_interval)
    return environment


def on_one_line(source: str) -> str:
    """Return an HTML template without white space beside tags and blocks, see above."""
    found, inside = "", True
    for line in filter(None, map(str.strip, source.splitlines())):
        begins, ends = _BEGINS.match(line), _ENDS.search(line)
        found += line if inside or begins else f" {line}"
        inside = bool(ends)
    parts = _NO_TEXT.split(found)  # text, tag or code, text, ...
    parts[::2] = [html.escape(html.unescape(text)) for text in parts[::2]]
    return "".join(parts)


def _estimate(interval: Interval, decimals: int) -> str:
    return write_estimate(*interval, decimals)
