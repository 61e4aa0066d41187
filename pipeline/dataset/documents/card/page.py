"""Card of a dataset: the values of its template, and what makes a log unfit for use."""

from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.documents.card.columns import grouped
from hindcast.pipeline.dataset.documents.card.coverage import Coverage
from hindcast.pipeline.dataset.documents.card.header import (
    MIXED,
    files_by_split,
    identity,
    size_category,
)
from hindcast.pipeline.dataset.documents.card.returns import behaviour_returns, histogram
from hindcast.pipeline.dataset.documents.terms import licence_lines, licence_of
from hindcast.pipeline.dataset.lineage import lineage_lines
from hindcast.pipeline.errors import printable
from hindcast.pipeline.pages.numbers import decimals_for
from hindcast.pipeline.pages.templates import render
from hindcast.pipeline.recipes.recipe import LEVELS
from hindcast.pipeline.recipes.toml import recipe_toml
from hindcast.pipeline.recipes.workload_source import ELSEWHERE
from hindcast.pipeline.simulation.scenario import Scenario
from hindcast.pipeline.traces import FORMATS

_TEMPLATE: Final = Path(__file__).with_name("card.md.jinja")
_POSITIONS: Final = 8  # with their shares of the decisions, the most frequent first


def card(
    manifest: mf.Manifest, scenario: Scenario, episodes: pl.DataFrame, coverage: Coverage
) -> str:
    """Return the card as Markdown.

    `coverage` is the result of hindcast.pipeline.dataset.documents.card.coverage.measure.
    """
    origin, spec, recipe = manifest.provenance, manifest.spec, manifest.recipe
    headline, workload = spec.outcomes[0], _workload(manifest)
    behaviours = behaviour_returns(episodes, headline, scenario, recipe.config)
    caveats = [printable(caveat.text) for caveat in manifest.caveats]
    licence, terms = licence_of(origin)
    most = coverage.chosen.argsort(kind="stable")[::-1][:_POSITIONS]
    values: dict[str, Any] = {
        "manifest": manifest,
        "name": manifest.name,
        "spec": spec,
        "counts": manifest.counts,
        "origin": origin,
        "recorded": origin.get("recorded") == ELSEWHERE,
        "trace": FORMATS.get(str(origin["format"])),
        "licence": licence,
        "licence_lines": licence_lines(origin),
        "terms": terms,
        "scenario": scenario,
        "levels": {r.level: LEVELS[r.level] for r in manifest.recipes if r.level},
        "size": sum(part.bytes for part in manifest.parts),
        "size_category": size_category(manifest.counts["rows"]),
        "identity": identity(manifest),
        "files": files_by_split(manifest, episodes),
        "mixed": MIXED,
        "lineage": [*lineage_lines(manifest.lineage)],
        "workload": workload,
        "splits": split_sizes(episodes).to_dicts(),
        "warnings": [
            *warnings(coverage, episodes, recipe.level),
            *map(_sentence, caveats),
        ],
        "names": episodes["behaviour"].unique(),
        "headline": headline,
        "behaviours": behaviours,
        "coverage": coverage,
        "entropy": coverage.entropy,
        "effective_positions": coverage.effective_positions,
        "total": max(1, coverage.decisions),
        "most_chosen": [(n, count) for n in most if (count := coverage.chosen[n])],
        "columns": {
            "context": list(grouped(spec.context)),
            "candidates": list(grouped(spec.candidates)),
        },
        "histogram": "\n".join(histogram(episodes["return"])),
        "decimals": {
            name: decimals_for([getattr(row, name).value for row in behaviours])
            for name in ("returns", "headline")
        },
        "recipe_toml": recipe_toml,
    }
    text = render(_TEMPLATE, **values)
    # after an append the table of episodes has another name
    return text.replace(mf.EPISODES, manifest.episodes.path)


def warnings(coverage: Coverage, episodes: pl.DataFrame, level: str = "") -> list[str]:
    """Return the reasons why a log is unfit for learning or estimation; empty if there are none."""
    found = []
    if coverage.one_position:
        found.append(
            "**Degenerate log: one and the same position was chosen in every decision.** It "
            "holds no information about the other candidates."
        )
    if coverage.deterministic and level == "recorded":
        found.append(
            "**The propensities are not known.** The decisions are those of the log's scheduler. "
            "Their replay is deterministic, so every propensity is 1, but how the scheduler drew "
            "them no log says. `hindcast behaviour` estimates propensities and keeps them beside "
            "the data."
        )
    elif coverage.deterministic:
        names = episodes["behaviour"].unique(maintain_order=True).to_list()
        who = f"the one behaviour, `{names[0]}`, is" if len(names) == 1 else "every behaviour is"
        found.append(
            f"**Degenerate log: {who} deterministic: every propensity is 1.** Importance "
            "weights of any policy that chooses otherwise are 0 or undefined."
        )
    if coverage.decisions and coverage.forced == coverage.decisions:
        found.append("**Degenerate log: no decision had more than one feasible candidate.**")
    return found


def split_sizes(episodes: pl.DataFrame) -> pl.DataFrame:
    """Return columns split, windows, episodes and decisions, a row per split."""
    return episodes.group_by("split", maintain_order=True).agg(
        pl.col("window").n_unique().alias("windows"),
        pl.len().alias("episodes"),
        pl.col("steps").sum().alias("decisions"),
    )


def _sentence(caveat: str) -> str:
    text = caveat.rstrip(".")
    return f"**Caveat:** {text[:1].upper()}{text[1:]}."


def _workload(manifest: mf.Manifest) -> str:
    """Return the origin of the workload: a trace and its source, or a generator."""
    kind = str(manifest.provenance["format"])
    form = FORMATS.get(kind)
    if form is not None:
        return f"Trace in the format `{form.name}`: {form.description}. Source: {form.source}"
    who = "the scenario" if kind == "generated" else f"the generator `{kind}` of Hindcast"
    return f"Random jobs, drawn by {who}; the dataset contains no data of a real trace"
