"""Rules and agents that a page names: a tooltip at every name, and a list at the end of the page.

Names are found in finished markup, so that no table, sentence or plot has to mark them. A name that
is a plain word, such as `random`, is found where only names stand: in heads, and in a sentence at
its beginning or behind a word such as `against`.
"""

import html
import re
from collections.abc import Iterable, Mapping
from typing import Final

from hindcast.pipeline.report.html import VOID, Markup, definitions, element
from hindcast.pipeline.report.plots import shortened
from hindcast.pipeline.statistics.numbers import count_of

_TAG: Final = re.compile(r"(<[^>]*>)")
_OPAQUE: Final = frozenset({"a", "code", "style", "title", "badge"})  # text is left as it is
_HEADS: Final = frozenset({"th", "dt", "strong", "text"})
_BEFORE: Final = (
    "against", "and", "beats", "between", "is", "scheduler", "than", "to", "under", "with",
)  # fmt: skip

Listed = dict[tuple[str, str], int]  # name and sentence -> number in the list of the page


def explained(markup: Markup, sentences: Mapping[str, str], listed: Listed) -> Markup:
    """Return markup with a tooltip at every name, which leads to the list of the page.

    Heads of columns and texts of plots have the tooltip only. The names found join `listed`.

    Args:
        markup: Markup of this package.
        sentences: What is known of every policy, by name.
        listed: Names that the page has so far.
    """
    if not sentences:
        return markup
    names = {html.escape(text): name for name in sentences for text in (name, shortened(name))}
    words = [text for text in names if text.isalpha()]
    heads, cells = _pattern(names), _pattern(set(names) - set(words))
    before = "|".join(("^", *(rf"(?<=[\s>]{word}\s)" for word in _BEFORE), r"(?<=[,:.;]\s)"))
    prose = re.compile(rf"{cells.pattern}|(?:{before}){_pattern(words).pattern}")

    def sentence(text: str) -> str:
        key = (names[text], sentences[names[text]])
        listed.setdefault(key, len(listed) + 1)
        return key[1]

    def marked(match: re.Match[str]) -> str:
        text = match.group()
        about = html.escape(sentence(text))
        if "thead" in inside:  # a script makes heads buttons, which cannot hold links
            return f'<abbr class="rule" title="{about}">{text}</abbr>'
        number = listed[names[text], sentences[names[text]]]
        return f'<a class="rule" href="#rule-{number}" title="{about}">{text}</a>'

    parts, inside = _TAG.split(markup), [""]
    for i, part in enumerate(parts):
        if i % 2:
            _follow(part, inside)
        elif part.strip() and not _OPAQUE.intersection(inside):
            pattern = heads if _HEADS.intersection(inside) else cells if "td" in inside else prose
            if "svg" not in inside:
                parts[i] = pattern.sub(marked, part)
            elif found := dict.fromkeys(pattern.findall(part)):
                about = "; ".join(f"{text}: {html.escape(sentence(text))}" for text in found)
                parts[i] = f"<title>{about}</title>{part}"
    return Markup("".join(parts))


def rules_part(listed: Listed) -> Markup:
    """Return the list of the names on a page, each with what is known of it."""
    summary = element("summary", count_of(len(listed), "name"))
    pairs = (
        (element("span", name, id=f"rule-{number}"), text)
        for (name, text), number in sorted(listed.items())
    )
    return element("details", summary, definitions(pairs, "facts"), open=True)


def _pattern(texts: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of any of some texts as a whole word, which matches nothing without any."""
    longest = sorted(texts, key=lambda text: (-len(text), text))
    any_of = "|".join(map(re.escape, longest)) or "(?!)"
    return re.compile(rf"(?<![\w./-])(?:{any_of})(?![\w/-]|\.\w)")


def _follow(tag: str, inside: list[str]) -> None:
    """Keep the names of the open elements, from the outside in; a badge has the name `badge`."""
    name = tag.strip("<>/").split()[0]
    if tag.startswith("</"):
        inside.pop()
    elif not tag.endswith("/>") and name not in VOID:
        inside.append("badge" if 'class="badge' in tag else name)
