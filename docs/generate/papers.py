"""Pages of committed reproductions: one per paper below docs/results, and the evidence.

Committed runs are older than Student's intervals. Pages show their intervals of claims widened,
with the verdicts that follow, and their tables and pictures without.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from docs.generate.results import FOLDER
from docs.generate.text import contents
from hindcast.flows.papers.claims import NOT_APPLICABLE
from hindcast.flows.papers.evidence import Paper, evidence_markdown
from hindcast.flows.papers.folder import ABOUT, read_results
from hindcast.flows.papers.page import paper_markdown
from hindcast.flows.papers.results import CLAIM
from hindcast.flows.protocols import PROTOCOLS
from hindcast.pipeline.statistics.percentile import widened

# Commits of runs with percentile bootstrap intervals, which a run of today replaces.
_EARLIER: Final = frozenset({
    "7b3de9653e71", "ae70e553e30d", "a1a2f8dc0d7f-dirty", "1ee4228f2174", "efa3a98dde55",
    "7e3543585bf1", "df3bdf1f5100",
})  # fmt: skip
_FEW: Final = "2 seeds"  # in the remarks of a claim: no widening suffices for them
_NOTE: Final = (
    "Committed runs of earlier versions have [intervals of earlier evaluations]"
    "(../../concepts/windows-and-pairing.md#intervals-of-earlier-evaluations). Those of claims are "
    "widened as for several training seeds, which is more than a claim of one seed needs, and "
    "directions and sizes follow from them. Claims of two seeds and tables have no "
    "intervals; pictures have bands from the lowest to the highest seed, or none. Orders were "
    "judged by the run's own intervals, which are too narrow: a run of today may find fewer shown."
)
_PAGES: Final = Path("generated") / "papers"  # below docs


def committed() -> dict[str, Path]:
    """Return the folders of committed reproductions, by paper."""
    found = {name: FOLDER / name for name in PROTOCOLS}
    return {name: folder for name, folder in found.items() if (folder / ABOUT).is_file()}


def paper_pages() -> Mapping[str, str]:
    """Return the page of each committed reproduction, and the page of the evidence."""
    results = {name: shown(folder) for name, folder in committed().items()}
    evidence = evidence_markdown(list(results.values()))
    listed = contents(list(results)) if results else ""
    pages = {"papers/evidence.md": _noted(f"{evidence}\n{listed}")}
    for name, (about, found) in results.items():
        pictures = Path(os.path.relpath(Path("results") / name, _PAGES)).as_posix()
        page = paper_markdown(about, found, f"{pictures}/")
        pages[f"papers/{name}.md"] = _noted(page) if _is_earlier(about) else page
    return pages


def shown(folder: Path) -> Paper:
    """Return paper.json and the results of a committed run as pages show them."""
    about, found = read_results(folder)
    if not _is_earlier(about):
        return about, found
    claims = pl.DataFrame([_widened(row) for row in found.claims.to_dicts()], schema=CLAIM)
    # A band from the lowest to the highest seed is no interval. Flat lines are rules, with one.
    seeds = [name for name, text in found.figure_texts.items() if "band" in text.caption.lower()]
    flat = pl.col("y").n_unique().over("figure", "panel", "series") == 1
    figures = found.figures.with_columns(
        pl.when(pl.col("figure").is_in(seeds) & ~flat).then(end).alias(end)
        for end in ("low", "high")
    )
    return about, replace(
        found, claims=claims, tables=_without_intervals(found.tables), figures=figures
    )


def _is_earlier(about: Mapping[str, Any]) -> bool:
    return about["provenance"]["commit"] in _EARLIER


def _noted(page: str) -> str:
    title, rest = page.split("\n\n", 1)
    return f"{title}\n\n{_NOTE}\n\n{rest}"


def _without_intervals(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pl.lit(None, pl.Float64).alias(n) for n in ("low", "high"))


def _widened(row: dict[str, Any]) -> dict[str, Any]:
    """Return a claim with its interval widened, and the verdicts that follow from it."""
    if row["low"] is None:
        return row
    # A claim does not say how many windows and seeds it has: as for several seeds.
    _, low, high = widened(row["measured"], row["low"], row["high"], windows=1, seeds=2)
    verdicts = {}
    if row["direction"] != NOT_APPLICABLE and low <= 0.0 <= high:
        verdicts["direction"] = "not shown"
    if row["size"] != NOT_APPLICABLE and low <= row["published"] <= high:
        verdicts["size"] = "yes"
    ends = {"low": None, "high": None} if _FEW in row["differs"] else {"low": low, "high": high}
    return {**row, **ends, **verdicts}
