"""Page of a card: all its sections, in order."""

import textwrap

import polars as pl

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.documents.card import origin
from hindcast.pipeline.documents.card.columns import columns
from hindcast.pipeline.documents.card.coverage import Coverage, effective
from hindcast.pipeline.documents.card.header import files_by_split, header, licence_of
from hindcast.pipeline.documents.card.loading import loading
from hindcast.pipeline.documents.card.returns import behaviour_returns, behaviours_table, histogram
from hindcast.pipeline.errors import printable
from hindcast.pipeline.recipes.recipe import LEVELS
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.statistics.numbers import count_of
from hindcast.pipeline.workloads.caveats import Caveat


def card(manifest: mf.Manifest, episodes: pl.DataFrame, coverage: Coverage) -> str:
    """Return the card as Markdown.

    `coverage` is the result of hindcast.pipeline.documents.card.coverage.measure.
    """
    recipe, spec = manifest.recipe, manifest.spec
    sections = {
        "Known limits": origin.limits(manifest),
        "Load": loading(list(files_by_split(manifest, episodes)), manifest.episodes.path),
        "Size": _size(manifest, episodes),
        "Behaviours": _behaviours(manifest, episodes),
        "Action coverage": _coverage(coverage, episodes),
        "Returns": [
            "Number of episodes by undiscounted return:",
            "",
            *histogram(episodes["return"]),
        ],
        "Columns": columns(spec),
        "Provenance": origin.provenance(manifest),
        "Licence and citation": origin.terms(manifest),
        "Rebuild": origin.rebuild(manifest),
    }
    lines = [*header(manifest, episodes), "", f"# {manifest.name}", ""]
    found = warnings(coverage, episodes, manifest.recipe.level)
    found += [_sentence(c) for c in manifest.caveats]
    lines += [line for warning in found for line in _quoted(warning)]
    lines += _wrapped(
        "Logged decisions of cluster job schedulers, for offline reinforcement learning and "
        f"off-policy evaluation. {(recipe.description or 'A Hindcast dataset').rstrip('.')}."
    )
    lines += ["", *_summary(manifest, episodes), ""]
    lines += _wrapped(
        f"One row is one decision of the scenario `{spec.scenario}` (objective "
        f"`{spec.objective}`): a choice among the candidates of that moment, with the probability "
        "of every candidate under the behaviour policy. The observation after a decision is the "
        "observation of the next row; every episode ends with a closing row that holds its last "
        "observation and no choice."
    )
    for title, section in sections.items():
        lines += ["", f"## {title}", "", *section]
    # after an append the table of episodes has another name
    return "\n".join(lines).replace(mf.EPISODES, manifest.episodes.path) + "\n"


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


def _sentence(caveat: Caveat) -> str:
    text = printable(caveat.text).rstrip(".")
    return f"**Caveat:** {text[:1].upper()}{text[1:]}."


def _quoted(text: str) -> list[str]:
    return [*(f"> {line}" for line in _wrapped(text)), ""]


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, 98, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _summary(manifest: mf.Manifest, episodes: pl.DataFrame) -> list[str]:
    """Return the facts that a reader needs first: contents, origin, loading, terms, limits."""
    counts, names = manifest.counts, episodes["behaviour"].unique(maintain_order=True).to_list()
    known = load_scenario(manifest.recipe.scenario).source
    levels = dict.fromkeys(r.level for r in manifest.recipes if r.level)
    who = [f"{count_of(len(names), 'behaviour policy', 'behaviour policies')}"]
    who += [f"level `{level}`: {LEVELS[level]}" for level in levels]
    facts = {
        "Contents": f"{counts['decisions']:,} decisions in {counts['episodes']:,} episodes, by "
        + "; ".join(who),
        "Problem": f"scenario `{manifest.spec.scenario}` of Hindcast"
        + (f", after {known}" if known else ""),
        "Workload": origin.workload(manifest),
        "Loading": '`polars.read_parquet("data/*.parquet")`, or see [Load](#load)',
        "Terms": f"{licence_of(manifest.provenance)[1]}; see [Licence](#licence-and-citation)",
        "Before drawing conclusions": "read [Known limits](#known-limits)",
    }
    return [
        line
        for title, text in facts.items()
        for line in _wrapped(f"- **{title}:** {text.rstrip('.')}.", "  ")
    ]


def _size(manifest: mf.Manifest, episodes: pl.DataFrame) -> list[str]:
    counts = manifest.counts
    size = sum(p.bytes for p in manifest.parts)
    return [
        (
            f"{counts['decisions']:,} decisions in {counts['episodes']:,} episodes on "
            f"{counts['windows']:,} windows; {size / 1e6:.1f} MB in {len(manifest.parts)} parts "
            f"({size / max(1, counts['decisions']):.1f} bytes per decision)."
        ),
        "",
        "| split | windows | episodes | decisions |",
        "|---|---:|---:|---:|",
        *(f"| {s} | {w:,} | {n:,} | {d:,} |" for s, w, n, d in split_sizes(episodes).rows()),
        "",
        *_wrapped(
            "A window is one problem instance, and all windows of a split come before those of the "
            "next. Windows of splits that are not listed are kept for runs in the simulator."
        ),
    ]


def split_sizes(episodes: pl.DataFrame) -> pl.DataFrame:
    """Return columns split, windows, episodes and decisions, a row per split."""
    return episodes.group_by("split", maintain_order=True).agg(
        pl.col("window").n_unique().alias("windows"),
        pl.len().alias("episodes"),
        pl.col("steps").sum().alias("decisions"),
    )


def _behaviours(manifest: mf.Manifest, episodes: pl.DataFrame) -> list[str]:
    headline = manifest.spec.outcomes[0]
    rows = behaviour_returns(episodes, headline)
    shares = episodes["behaviour"].value_counts()["count"].to_numpy()
    return [
        *behaviours_table(rows, headline),
        "",
        *_wrapped(
            "Means are over windows, with bootstrap intervals over windows. The number after "
            "`+eps` is the probability with which a behaviour chooses uniformly among the "
            "feasible candidates. The effective number of behaviours, exp(-sum s log s) with s "
            f"their shares of the episodes, is {effective(shares):.2f}."
        ),
    ]


def _coverage(coverage: Coverage, episodes: pl.DataFrame) -> list[str]:
    total = max(1, coverage.decisions)
    names = episodes["behaviour"].n_unique()
    text = (
        f"A decision had {coverage.candidates / total:.1f} candidates on average, of which "
        f"{coverage.feasible / total:.1f} were feasible; {coverage.forced / total:.1%} of the "
        "decisions had only one feasible candidate. A candidate's position is its index in the "
        f"list; {coverage.positions:,} positions were chosen at least once. The entropy of the "
        f"chosen position is {coverage.entropy:.2f} nats, as of {effective(coverage.chosen):.1f} "
        "positions that are chosen equally often."
    )
    lines = _wrapped(text)
    most = coverage.chosen.argsort(kind="stable")[::-1][:8]
    lines += ["", "| position | share of decisions |", "|---:|---:|"]
    lines += [f"| {c} | {coverage.chosen[c] / total:.1%} |" for c in most if coverage.chosen[c]]
    if coverage.support is None or coverage.smallest is None or coverage.spread is None:
        return [
            *lines,
            "",
            "The log has no propensities, so importance weights cannot be computed.",
        ]
    facts = [
        (
            f"mean support: {coverage.support:.1%} of the feasible candidates of a decision had a "
            "probability above 0"
        ),
        f"smallest propensity: {coverage.smallest:.3g}",
        f"mean entropy of a decision's probabilities: {coverage.spread:.2f} nats",
        (
            f"{coverage.certain / total:.1%} of the decisions had several feasible candidates and "
            "chose one with probability 1"
        ),
    ]
    if coverage.distinct is not None:
        facts.append(
            f"effective number of different behaviours: {coverage.distinct:.2f} of {names}. They "
            "are compared on the same observation, the first with a choice in an episode: exp of "
            "the mean over windows of H(sum w p) - sum w H(p), with p the probabilities of a "
            "behaviour, w its share and H the entropy"
        )
    return [*lines, "", *(f"- {fact}" for fact in facts)]
