"""Pages of one paper, as HTML and Markdown: published beside measured."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.flows.papers.plots import file_name, panels
from hindcast.flows.papers.results import Results
from hindcast.pipeline.pages.markdown import plain_text, text_table
from hindcast.pipeline.pages.numbers import (
    decimals_for,
    name_with_unit,
    write_estimate,
    write_number,
)
from hindcast.pipeline.pages.tables import NOTHING, Cell, Row, Table
from hindcast.pipeline.pages.templates import render

_CLAIM: Final = ("claim", "in the paper", "published", "measured", "holds", "what differs here")
_VERDICTS: Final = ("direction", "order", "size")
READING: Final = (
    "Published numbers are those that the paper prints. Measured numbers are means over windows "
    "and training seeds with 95 % intervals. Direction: whether a difference has the "
    "claimed sign with an interval that excludes 0. Order: whether all neighbours of a ranking "
    "are in the claimed order in the same sense. Size: whether the published difference lies in "
    "the interval."
)


def paper_html(about: Mapping[str, Any], results: Results) -> str:
    """Return the page of a reproduction, which loads nothing."""
    return render(
        Path(__file__).with_name("paper.html.jinja"),
        about=about,
        setting=setting_of(about),
        claims=_claims(results.claims),
        tables=_tables(results),
        figures=_figures(results),
        commands=_commands(about),
        record=about.get("provenance", {}),
    )


def setting_of(about: Mapping[str, Any]) -> str:
    """Return the size of a reproduction as a sentence."""
    if not about["stages"]:
        return "Nothing is trained."
    seeds = about["setting"]["seeds"]
    told = f"{len(seeds)} training seed{'s' * (len(seeds) != 1)}: {', '.join(map(str, seeds))}."
    if about["setting"]["quick"]:
        return f"A quick run, cut down to minutes: its agents are hardly trained. {told}"
    return f"The full protocol. {told}"


def _verdict(row: Mapping[str, Any]) -> str:
    return "; ".join(f"{n} {row[n]}" for n in _VERDICTS if row[n] not in {"-", ""})


def _estimate(row: Mapping[str, Any], decimals: int) -> str:
    if row["measured"] is None:
        return NOTHING
    return write_estimate(row["measured"], row["low"], row["high"], decimals)


def _claim_cells(claims: pl.DataFrame) -> Iterator[list[str]]:
    """Yield the cells of each claim, under the heads of _CLAIM."""
    for row in claims.to_dicts():
        published, decimals = row["published"], decimals_for([row["published"], row["measured"]])
        yield [
            row["text"], row["item"],
            NOTHING if published is None else write_number(published, decimals, signed=True),
            _estimate(row, decimals), _verdict(row), row["differs"] or NOTHING,
        ]  # fmt: skip


def _claims(claims: pl.DataFrame) -> Table:
    rows = [Row([Cell(cell) for cell in cells]) for cells in _claim_cells(claims)]
    return Table("Claims", f" {READING}", _CLAIM, rows, words=len(_CLAIM))


def cells_of(rows: pl.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return a table of the paper as text: heads, and lines of cells.

    A cell is `measured (low .. high)`, and `; paper: published` where the paper prints a number.
    """
    columns = rows["column"].unique(maintain_order=True).to_list()
    units = {row["column"]: row["unit"] for row in rows.to_dicts()}
    found = {(row["row"], row["column"]): row for row in rows.to_dicts()}
    decimals = {
        c: decimals_for([n for row in rows.filter(column=c).to_dicts()
                         for n in (row["measured"], row["published"])])
        for c in columns
    }  # fmt: skip

    def text(row: Mapping[str, Any] | None) -> str:
        if row is None:
            return NOTHING
        places = decimals[row["column"]]
        told = [] if row["measured"] is None else [_estimate(row, places)]
        if row["published"] is not None:
            told.append(f"paper: {write_number(row['published'], places)}")
        return "; ".join(told) or NOTHING

    names = rows["row"].unique(maintain_order=True).to_list()
    lines = [[name, *(text(found.get((name, column))) for column in columns)] for name in names]
    return ["", *(name_with_unit(column, units[column]) for column in columns)], lines


def _tables(results: Results) -> Iterator[Table]:
    for name, text in results.table_texts.items():
        head, lines = cells_of(results.tables.filter(table=name))
        rows = [Row([Cell(cell) for cell in line]) for line in lines]
        yield Table(text.title, _after(text.place, text.differs), head, rows)


def _after(place: str, text: str) -> str:
    """Return the place of an item in the paper, and a remark, behind its title."""
    told = [f"{place}." if place else "Not in the paper.", text]
    return " " + " ".join(each for each in told if each)


def _figures(results: Results) -> Iterator[dict[str, Any]]:
    drawn = panels(results.figures, results.figure_texts)
    for name, text in results.figure_texts.items():
        own = [svg for (figure_name, _), svg in drawn.items() if figure_name == name]
        caption = _after(text.place, text.caption).strip()
        yield {"text": text, "caption": caption, "pictures": own}


def _commands(about: Mapping[str, Any]) -> Table:
    head = ("stage", "command", "minutes")
    rows = [
        Row([
            Cell(stage["name"]), Cell(stage["command"], code=True),
            Cell(f"{stage['seconds'] / 60:.1f}", stage["seconds"]),
        ])
        for stage in about["stages"]
    ]  # fmt: skip
    total = sum(stage["seconds"] for stage in about["stages"]) / 60
    text = f" {total:.0f} minutes in all, on the machine below."
    return Table("Commands that made the numbers", text, head, rows, words=2)


def paper_markdown(about: Mapping[str, Any], results: Results, pictures: str = "") -> str:
    """Return the page of a reproduction for the documentation.

    `pictures` is the folder of the SVG files, as the page refers to it.
    """
    title, source = plain_text(about["title"]), plain_text(about["source"])
    lines = [f"# {title}: published beside measured", "", f"Source: {source}", ""]
    lines += [setting_of(about), "", READING, "", "## Claims", ""]
    lines += claims_markdown(results.claims)
    lines += ["", "## Tables", ""]
    for name, text in results.table_texts.items():
        head, body = cells_of(results.tables.filter(table=name))
        lines += [f"### {plain_text(text.title)}", "", _after(text.place, text.differs).strip(), ""]
        lines += [*text_table(head, [[plain_text(c) for c in line] for line in body], 1), ""]
    if results.figure_texts:
        lines += ["## Figures", ""]
    for name, drawn in results.figure_texts.items():
        alt = plain_text(drawn.title)
        own = results.figures.filter(figure=name)["panel"].unique(maintain_order=True)
        lines += [f"### {alt}", ""]
        lines += [f"![{alt}, {p}]({pictures}{file_name(name, p)})" for p in own]
        lines += ["", _after(drawn.place, drawn.caption).strip(), ""]
    lines += ["## Commands", "", "```text"]
    lines += [f"{s['command']}    # {s['seconds'] / 60:.1f} minutes" for s in about["stages"]]
    return "\n".join([*lines, "```", ""])


def claims_markdown(claims: pl.DataFrame) -> list[str]:
    """Return the table of claims as lines of Markdown."""
    body = [[plain_text(cell) for cell in cells] for cells in _claim_cells(claims)]
    return text_table(_CLAIM, body, len(_CLAIM))
