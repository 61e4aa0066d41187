"""HTML that is escaped by construction: text is `str`, finished markup is `Markup`."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

VOID: Final = {"meta", "link", "br", "hr"}


class Markup(str):
    """Finished HTML; every other string is escaped when it becomes a child."""

    __slots__ = ()


def element(tag: str, /, *children: str, **attributes: str | bool | None) -> Markup:
    """Return one element.

    `class_` becomes class, `data_sort` becomes data-sort; attributes that are None or False are
    left out.
    """
    pairs = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        pairs.append(attribute if value is True else f'{attribute}="{html.escape(str(value))}"')
    opening = " ".join([tag, *pairs])
    if tag in VOID:
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{joined(children)}</{tag}>")


def joined(children: Iterable[str]) -> Markup:
    """Return the children in a row, with everything escaped that is not markup."""
    return Markup("".join(c if isinstance(c, Markup) else html.escape(c) for c in children))


@dataclass(frozen=True)
class Cell:
    """Table cell: its content, and the number that it is sorted by (its text if None)."""

    content: str
    sort: float | None = None


@dataclass(frozen=True)
class Row:
    """Table row; its first cell is the heading. A pinned row stays at the end when sorting."""

    cells: Sequence[Cell]
    class_: str | None = None
    pinned: bool = False


def table(
    title: str, text: str, head: Sequence[str], rows: Iterable[Row], *, words: int = 1
) -> Markup:
    """Return a table in a box that scrolls sideways on narrow screens; column heads sort it.

    The first `words` columns are text and are aligned left, the others are numbers.
    """
    heads = joined(
        element("th", name, scope="col", class_="text" if i < words else None)
        for i, name in enumerate(head)
    )
    body = joined(
        element("tr", joined(_cells(row, words)), class_=row.class_, data_pinned=row.pinned)
        for row in rows
    )
    inside = joined(
        [
            element("caption", element("span", element("strong", title), text)),
            element("thead", element("tr", heads)),
            element("tbody", body),
        ]
    )
    box = element("table", inside, class_="sortable")
    return element("div", box, class_="scroll", role="region", aria_label=title, tabindex="0")


def captioned(title: str, text: str) -> Markup:
    """Return the caption of a figure: a title in bold, followed by its text."""
    return joined([element("strong", title), f" {text}"])


def figure(svg: str, caption: str, *, wide: bool = True) -> Markup:
    """Return an inline SVG with its caption, over half the page's width unless it is wide."""
    return element(
        "figure",
        element("div", Markup(svg), class_="plot"),
        element("figcaption", caption),
        class_="wide" if wide else None,
    )


def definitions(pairs: Iterable[tuple[str, str]], class_: str) -> Markup:
    """Return a list of terms and their values; pairs with an empty value are left out."""
    items = (
        element("div", element("dt", term), element("dd", value)) for term, value in pairs if value
    )
    return element("dl", joined(items), class_=class_)


def section(identifier: str, title: str, *children: str) -> Markup:
    """Return a titled section that can be linked to."""
    heading = f"{identifier}-title"
    return element(
        "section",
        element("h2", title, id=heading),
        *children,
        id=identifier,
        aria_labelledby=heading,
    )


def _cells(row: Row, words: int) -> Iterable[Markup]:
    for index, cell in enumerate(row.cells):
        sort = None if cell.sort is None else repr(cell.sort)
        if index == 0:
            yield element("th", cell.content, scope="row", data_sort=sort)
        else:
            side = "text" if index < words else None
            yield element("td", cell.content, class_=side, data_sort=sort)
