"""DeepJS: the published network on the Alibaba trace, chunk after chunk.

Every training seed goes through chunks 0 to 199, ten iterations of twelve trajectories on each, and
is tested on chunks 200 to 519. Figure 4 is the first 99 chunks of the first seed, each played
before it is trained on.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.flows.papers.cells import beside, bound, cell, difference, ours, pairing, runs
from hindcast.flows.papers.claims import difference_claim, direction_claim
from hindcast.flows.papers.deepjs.commands import AGENT, SLID, stages
from hindcast.flows.papers.published import number, published
from hindcast.flows.papers.publishing import protocol_of
from hindcast.flows.papers.results import CLAIM, FIGURE, TABLE, FigureText, Results, TableText
from hindcast.flows.papers.tables import read_csv
from hindcast.flows.protocols import Setting
from hindcast.pipeline.statistics.intervals import Interval, mean_interval

TITLE: Final = "DeepJS"
SOURCE: Final = (
    'Li & Hu, "DeepJS: Job Scheduling Based on Deep Reinforcement Learning in Cloud Data Center", '
    "ICBDC 2019"
)
OTHERS: Final = {"first_fit": "First-fit", "tetris_reference": "Tetris"}  # the paper's two
RESAMPLES: Final = 2000


def results(place: Path, setting: Setting) -> Results:
    """Return Figures 4 to 7, Table 2 and the claims."""
    printed = published("deepjs")
    scores = pairing(place / "evaluation")
    agent = runs(scores, AGENT).values  # (seeds, chunks)
    gaps = {other: runs(scores, other).window_means - agent for other in OTHERS}
    cells = _table_2(gaps, printed)
    cells += [
        cell("figure 7", name, "mean reduction", "s", difference(scores, other, AGENT),
             number(printed, "figure 7", name, "mean reduction"))
        for other, name in OTHERS.items()
    ]  # fmt: skip
    cells += _quartiles(gaps)
    alike = {name: read_csv(place / f"{name}-correlation.csv") for name in ("machines", "chunks")}
    points = {name: read_csv(place / f"{name}-points.csv") for name in alike}
    agreement = {
        "machines": "5 and 10 machines", "chunks": "chunk 5 and chunk 6"
    }  # fmt: skip
    correlations: dict[str, Interval] = {}
    for name, row in agreement.items():
        correlations[name] = _correlation(alike[name], points[name])
        printed_r = number(printed, "figure 5", row, "correlation")
        cells.append(cell("figure 5", row, "correlation", "-", correlations[name], printed_r))
        for column, title in (("within", "within a decision"), ("agreement", "same choice")):
            value = alike[name][column][0]
            if value is not None:
                cells.append(cell("figure 5", row, title, "-", float(value)))
    cells += beside(
        ours(scores, "trajectory_preference", "evolution-best"), runs(scores, AGENT),
        "makespan_s", "s", bound(place / "evaluation"),
    )  # fmt: skip
    slid = read_csv(place / "sliding.csv")
    figures = [*_sliding(slid), *_scatter(points), *_chunks(gaps, scores.windows)]
    texts = _figure_texts()
    return Results(
        pl.DataFrame(cells, schema=TABLE), _table_texts(setting),
        pl.DataFrame(figures, schema=FIGURE, orient="row"), texts,
        pl.DataFrame(_claims(scores, gaps, slid, correlations, printed), schema=CLAIM),
    )  # fmt: skip


def _table_2(gaps: dict[str, Any], printed: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the numbers of chunks with less, equal and more makespan, mean over the seeds."""
    cells = []
    for other, name in OTHERS.items():
        for column, counts in (("< 0", gaps[other] < 0), ("= 0", gaps[other] == 0),
                               ("> 0", gaps[other] > 0)):  # fmt: skip
            chunks = counts.shape[1]
            share = mean_interval(counts.astype(float), trained=len(counts) > 1)
            cells.append(cell(
                "table 2", name, column, "chunks", Interval(*(chunks * each for each in share)),
                number(printed, "table 2", name, column),
            ))  # fmt: skip
    return cells


def _quartiles(gaps: dict[str, Any]) -> list[dict[str, Any]]:
    names = ("minimum", "lower quartile", "median", "upper quartile", "maximum")
    return [
        cell("figure 7b", OTHERS[other], name, "s", float(value))
        for other, gap in gaps.items()
        for name, value in zip(names, np.quantile(gap.mean(axis=0), (0, 0.25, 0.5, 0.75, 1)),
                               strict=True)
    ]  # fmt: skip


def _correlation(alike: pl.DataFrame, points: pl.DataFrame) -> Interval:
    """Return the correlation over all candidates, with an interval over the drawn ones."""
    x, y = points["first"].to_numpy(), points["second"].to_numpy()
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(x), (RESAMPLES, len(x)))
    with np.errstate(invalid="ignore"):
        found = [np.corrcoef(x[rows], y[rows])[0, 1] for rows in drawn]
    low, high = np.nanquantile(found, (0.025, 0.975))
    value = alike["pearson"][0]
    return Interval(float("nan") if value is None else float(value), float(low), float(high))


def _sliding(slid: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Return makespan(rule) - makespan(agent) of every chunk, before the training on it."""
    own = slid.filter(policy=AGENT).select("window", own="value")
    rows = slid.filter(pl.col("policy").is_in(SLID)).join(own, on="window")
    return [
        ("figure 4", "", row["policy"], str(row["window"]), row["value"] - row["own"], None, None)
        for row in rows.to_dicts()
    ]


def _scatter(points: dict[str, pl.DataFrame]) -> list[tuple[Any, ...]]:
    titles = {"machines": "a: 5 and 10 machines", "chunks": "b: chunk 5 and chunk 6"}
    return [
        ("figure 5", titles[name], AGENT, repr(row["first"]), row["second"], None, None)
        for name, table in points.items()
        for row in table.to_dicts()
    ]


def _chunks(gaps: dict[str, Any], windows: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """Return the rows of Figures 6 and 7: makespan less that of the agent, mean over seeds, in s.

    `gaps` has the differences (seeds, chunks) by rule; `windows` are the numbers of the chunks.
    Figure 7 is drawn of the same values, sorted.
    """
    rows = []
    for other, gap in gaps.items():
        for window, value in zip(windows, gap.mean(axis=0), strict=True):
            x = str(window)
            rows.append(("figure 6", f"minus {OTHERS[other]}", other, x, value, None, None))
            rows.append(("figure 7", "", other, x, value, None, None))
    return rows


def _claims(
    scores: Any, gaps: dict[str, Any], slid: pl.DataFrame, correlations: dict[str, Interval],
    printed: pl.DataFrame,
) -> list[dict[str, Any]]:  # fmt: skip
    claims = []
    for other, name in OTHERS.items():
        wanted = number(printed, "figure 7", name, "mean reduction")
        assert wanted is not None
        claims.append(difference_claim(
            f"mean-{other}", "figure 7", f"shorter makespan than {name}, mean over chunks", "s",
            wanted, difference(scores, other, AGENT),
        ))  # fmt: skip
        less, equal, more = (
            number(printed, "table 2", name, column) or 0.0 for column in ("< 0", "= 0", "> 0")
        )
        signs = np.sign(gaps[other])
        claims.append(difference_claim(
            f"share-{other}", "table 2",
            f"shorter than {name} on more chunks than longer: difference of the shares", "-",
            (more - less) / (more + equal + less),
            mean_interval(signs, trained=len(signs) > 1),
        ))  # fmt: skip
    second_half = slid.filter(pl.col("window") > pl.col("window").max() // 2)
    for other, name in OTHERS.items():
        later = [row[4] for row in _sliding(second_half) if row[2] == other]
        claims.append(direction_claim(
            f"sliding-{other}", "figure 4",
            f"sliding over chunks, shorter than {name} in their second half", "s",
            mean_interval([later]),
        ))  # fmt: skip
    texts = {
        "machines": "agents of 5 and 10 machines judge alike: correlation of fitness",
        "chunks": "agents of chunk 5 and chunk 6 judge alike: correlation of fitness",
    }
    rows = {"machines": "5 and 10 machines", "chunks": "chunk 5 and chunk 6"}
    for name, text in texts.items():
        wanted = number(printed, "figure 5", rows[name], "correlation")
        assert wanted is not None
        claims.append(difference_claim(
            f"alike-{name}", "figure 5", text, "-", wanted, correlations[name],
            "the interval is over 500 candidates",
        ))  # fmt: skip
    return claims


def _table_texts(setting: Setting) -> dict[str, TableText]:
    few = "Fewer chunks than in the paper." if setting.quick else ""
    return {
        "table 2": TableText(
            "Table 2: chunks by the sign of makespan(other) - makespan(DeepJS)", "Table 2, p. 5",
            f"Means over training seeds. {few}".strip(),
        ),
        "figure 7": TableText(
            "Figure 7a: mean reduction of the makespan", "Figure 7, p. 5",
            "Published means are read from the figure.",
        ),
        "figure 7b": TableText("Figure 7b: quartiles of the reduction", "Figure 7, p. 5"),
        "figure 5": TableText("Figure 5: do two agents judge alike?", "Figure 5, p. 4"),
        "beside": TableText("Beside the paper's columns"),
    }  # fmt: skip


def _figure_texts() -> dict[str, FigureText]:
    difference_s = "rule minus DeepJS (s)"
    return {
        "figure 4": FigureText(
            "Figure 4: sliding over chunks", "lines", "chunk", difference_s, "Figure 4, p. 4",
            "Each chunk is played before the agent is trained on it. Above 0, DeepJS is shorter.",
        ),
        "figure 5": FigureText(
            "Figure 5: fitness of the same candidates", "scatter", "fitness, first agent",
            "fitness, second agent", "Figure 5, p. 4", "500 candidates, drawn at random.",
        ),
        "figure 6": FigureText(
            "Figure 6: makespan difference on test chunks", "lines", "chunk", difference_s,
            "Figure 6, p. 5", "Mean over training seeds. Above 0, DeepJS is shorter.",
        ),
        "figure 7": FigureText(
            "Figure 7: the same differences, sorted", "sorted", "test chunks, sorted",
            difference_s, "Figure 7, p. 5", "The paper draws the quartiles as boxes.",
        ),
    }  # fmt: skip


PROTOCOL: Final = protocol_of(TITLE, SOURCE, stages, results)
