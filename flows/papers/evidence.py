"""The page "What the evidence says": the claims of all papers, counted and sorted by verdict."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.flows.papers.page import claims_markdown, setting_of
from hindcast.flows.papers.results import Results
from hindcast.pipeline.pages.markdown import plain_text, text_table
from hindcast.pipeline.pages.tables import Cell, Row, Table
from hindcast.pipeline.pages.templates import render

# Verdict -> which claims; the first that fits is a claim's.
GROUPS: Final = {
    "comes again": "The claim holds in direction or order, and where it has a size, this is at "
    "least the published one.",
    "holds, but shrinks": "The direction holds; the difference is smaller than published.",
    "not shown": "The interval contains 0, or a part of an order holds.",
    "does not come again": "The difference or the order is the other way round.",
}
Paper = tuple[dict[str, Any], Results]


def group_of(claim: dict[str, Any]) -> str:
    """Return the group of a claim, one of GROUPS."""
    verdicts = {claim["direction"], claim["order"]} - {"-"}
    if "no" in verdicts:
        return "does not come again"
    if verdicts & {"not shown", "in part"}:
        return "not shown"
    return "holds, but shrinks" if claim["size"] == "smaller" else "comes again"


def counts(claims: pl.DataFrame) -> dict[str, int]:
    """Return how many claims each group has."""
    groups = [group_of(claim) for claim in claims.to_dicts()]
    return {name: groups.count(name) for name in GROUPS}


def _in_group(claims: pl.DataFrame, group: str) -> pl.DataFrame:
    kept = [group_of(claim) == group for claim in claims.to_dicts()]
    return claims.filter(pl.Series(kept, dtype=pl.Boolean))


def evidence_markdown(papers: Sequence[Paper]) -> str:
    """Return the page as Markdown."""
    scope = "Every claim of the reproduced papers, on unseen windows that all policies share."
    lines = ["# What the evidence says", "", scope, ""]
    body = [
        [plain_text(about["title"]), *map(str, counts(results.claims).values()), setting_of(about)]
        for about, results in papers
    ]
    lines += [*text_table(["paper", *GROUPS, "run"], body, 1), ""]
    for group, meaning in GROUPS.items():
        lines += [f"## {group[0].upper()}{group[1:]}", "", meaning, ""]
        for about, results in papers:
            claims = _in_group(results.claims, group)
            if not claims.is_empty():
                lines += [f"### {group[0].upper()}{group[1:]}: {plain_text(about['title'])}", ""]
                lines += [*claims_markdown(claims), ""]
    return "\n".join(lines)


def evidence_html(papers: Sequence[Paper]) -> str:
    """Return the page as HTML; it links to the page of each paper."""
    rows = [
        Row([
            Cell(about["title"], link=f"{about['paper']}/index.html"),
            *(Cell(str(n), n) for n in counts(results.claims).values()),
        ])
        for about, results in papers
    ]  # fmt: skip
    claims = {
        group: [
            f"{about['title']}: {claim['text']}"
            for about, results in papers
            for claim in _in_group(results.claims, group).to_dicts()
        ]
        for group in GROUPS
    }
    return render(
        Path(__file__).with_name("evidence.html.jinja"),
        counted=Table("Claims", " of each paper, counted.", ["paper", *GROUPS], rows),
        groups=GROUPS,
        claims=claims,
    )
