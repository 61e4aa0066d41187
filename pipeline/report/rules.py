"""Rules and agents that a page names: a tooltip at every name, and a list at the end of the page.

Names are found in finished markup, so that no table, sentence or plot has to mark them. A name that
is a plain word, such as `random`, is found where only names stand: in heads, and in a sentence at
its beginning or behind a word such as `against`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from markupsafe import Markup, escape

from hindcast.pipeline.report.plots import shortened

_VOID: Final = frozenset({"meta", "link", "br", "hr"})
_TAG: Final = re.compile(r"(<[^>]*>)")
_OPAQUE: Final = frozenset({"a", "code", "style", "title", "badge"})  # text is left as it is
_HEADS: Final = frozenset({"th", "dt", "strong", "text"})
_BEFORE: Final = (
    "against", "and", "beats", "between", "is", "scheduler", "than", "to", "under", "with",
)  # fmt: skip

Listed = dict[tuple[str, str], int]  # name and sentence -> number in the list of the page


def explaining(sentences: Mapping[str, str]) -> dict[str, Any]:
    """Return what a template needs to explain names: the block `explained`, and the list.

    `{% call explained() %}` marks the names in its content, of `sentences` or of those that it is
    given in their place. rules.html.jinja lists the names that were found until then.
    """
    listed = Listed()

    def call(known: Mapping[str, str] = sentences, *, caller: Callable[[], Markup]) -> Markup:
        return explained(caller(), known, listed)

    return {"explained": call, "listed": listed}


def explained(markup: str, sentences: Mapping[str, str], listed: Listed) -> Markup:
    """Return markup with a tooltip at every name, which leads to the list of the page.

    Heads of columns and texts of plots have the tooltip only. The names found join `listed`.

    Args:
        markup: Markup, in which text is escaped.
        sentences: What is known of every policy, by name.
        listed: Names that the page has so far.
    """
    if not sentences:
        return Markup(markup)  # noqa: S704 - see Args
    names = {_text(text): name for name in sentences for text in (name, shortened(name))}
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
        about = _text(sentence(text))
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
                about = "; ".join(f"{text}: {_text(sentence(text))}" for text in found)
                parts[i] = f"<title>{about}</title>{part}"
    return Markup("".join(parts))  # noqa: S704 - of markup and escaped text


def _text(text: str) -> str:
    """Return text as it stands in markup."""
    return str(escape(text))


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
    elif not tag.endswith("/>") and name not in _VOID:
        inside.append("badge" if 'class="badge' in tag else name)
