"""Tables and claims of Liu et al., from evaluations and `hindcast calibrate`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.flows.papers import cells
from hindcast.flows.papers.claims import difference_claim, order_claim
from hindcast.flows.papers.published import number, published
from hindcast.flows.papers.results import CLAIM, TABLE, TableText
from hindcast.flows.papers.tables import read_csv
from hindcast.flows.papers.timecritical.commands import (
    AGENT,
    BASELINE,
    BESIDE,
    LEADER,
    LOADS,
    OFFLINE,
    ONLINE,
    OURS,
    OWN_RULES,
    PATTERNS,
    PLAIN,
    PLAIN_PATTERN,
    PUBLISHED_RULES,
    RULES,
    STRONGEST,
)
from hindcast.flows.papers.timecritical.paper_scores import score_a, score_b, score_c, score_d
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.evaluation.summary.pairing import Pairing
from hindcast.pipeline.statistics.intervals import (
    Array,
    Interval,
    mean_interval,
    relative_difference,
)

PAPER: Final = "timecritical"
TMDL: Final = "tmdl"
AJDR: Final = "ajdr_percent"
COST: Final = "eval_cost"
BOUND: Final = "eval_cost_lower_bound"
BEST: Final = f"{AGENT}-best"
LED: Final = f"{BEST}@{LEADER}"
ENTRANTS: Final = (AGENT, BEST, LED)
ORDER: Final = (*RULES, *ENTRANTS)  # rows of tables
SCORES: Final = {
    "Score-A": score_a, "Score-B": score_b, "Score-C": score_c, "Score-D": score_d,
}  # fmt: skip
_METRICS: Final = {"TMDL": (TMDL, "runs"), "AJDR": (AJDR, "%")}
_EVEN: Final = 50.0  # points of a score if both policies win equally often
_SEED_COLUMNS: Final = {
    "tmdl": ("TMDL", "runs"), "tmdl_ratio": ("TMDL ratio", "times"),
    "ajdr_percent": ("AJDR", "%"), "score_a": ("Score-A", "points"),
}  # fmt: skip
DIFFERS: Final = (
    "Sizes, deadlines and periods of the applications, which the paper does not give, were fitted "
    "to the numbers of SF-E; step size and scale of the values are ours"
)
_NOT_TRAINED_AGAIN: Final = "; the agent of uniform arrivals, not trained again"


def tables(place: Path) -> tuple[pl.DataFrame, dict[str, TableText]]:
    """Return the rows and texts of all tables."""
    printed = published(PAPER)
    rows: list[dict[str, Any]] = []
    texts: dict[str, TableText] = {}
    for name, load in LOADS.items():
        rows += _load_rows(place, name, printed)
        again = _NOT_TRAINED_AGAIN if load.pattern != name else ""
        texts[load.item] = TableText(
            f"{load.item.partition(',')[0].capitalize()}, {load.title} arrivals",
            "Table II" if load.pattern == name else "Table III",
            f"{DIFFERS}{again}. Scores and ratios are against {BASELINE}; the scores of {BASELINE} "
            f"are against {AGENT}, the agent after its last episode. {BEST} is its best checkpoint "
            f"on validation windows; in {LED}, {LEADER} chooses the application and the network "
            "the cluster only.",
        )
    rows += _seed_rows(place)
    texts["seeds"] = TableText(
        f"Every training seed of {AGENT}",
        differs=f"After the last episode. Ratios and scores are against {BASELINE}, as "
        "`hindcast calibrate multicluster-scores` prints them.",
    )
    rows += _beside_rows(place)
    texts["beside"] = TableText(
        "Beside the paper's agent: uniform arrivals",
        differs="The cost is 1 / Eval = .02 TMDL + AJDR, lower is better. All policies play the "
        "same test windows. response_surface is trained on a log, once, since it draws nothing; "
        "evolution is trained by playing. Both read the columns of foresight, which the paper's "
        "agent does not have, and both are what their trainings delivered. bound is a lower bound "
        "of the cost of each window.",
    )
    return pl.DataFrame(rows, schema=TABLE), texts


def pair(place: Path, name: str) -> dict[str, Pairing]:
    """Return the scores of an evaluation on TMDL, AJDR and cost.

    Raises DatasetError for an evaluation of another scenario.
    """
    folder = place / "evaluations" / name
    return {metric: cells.pairing(folder, metric) for metric in (TMDL, AJDR, COST)}


def score(scores: dict[str, Pairing], policy: str, score_of: Any) -> Interval:
    """Return a score of a policy against BASELINE, with an interval over windows and seeds."""
    own, base = ([cells.runs(scores[metric], name) for metric in (TMDL, AJDR)]
                 for name in (policy, BASELINE))  # fmt: skip
    others = [one.window_means for one in base]
    shape = own[0].values.shape
    won = np.empty(shape)
    for run, window in np.ndindex(*shape):
        mine = [one.values[run, window : window + 1] for one in own]
        won[run, window] = score_of(*mine, *(other[window : window + 1] for other in others))
    return mean_interval(won, trained=own[0].trained)


def ratio(scores: Pairing, policy: str) -> Interval:
    """Return the mean of BASELINE divided by that of a policy, with an interval over windows."""
    above, below = cells.runs(scores, BASELINE), cells.runs(scores, policy)
    if not below.values.any():
        return Interval(float("inf"), float("nan"), float("nan"))
    return Interval(*(1.0 + each for each in relative_difference(above.values, below.values)))


def _load_rows(place: Path, name: str, printed: pl.DataFrame) -> Iterator[dict[str, Any]]:
    item, scores = LOADS[name].item, pair(place, name)
    for policy in ORDER:

        def row(column: str, unit: str, found: Interval, policy: str = policy) -> dict[str, Any]:
            told = number(printed, item, policy, column)
            return cells.cell(item, policy, column, unit, found, told)

        for column, (metric, unit) in _METRICS.items():
            yield row(column, unit, cells.mean(scores[metric], policy))
            if policy != BASELINE:
                yield row(f"{column} ratio", "times", ratio(scores[metric], policy))
        for column, score_of in SCORES.items():
            if policy == BASELINE:
                value, low, high = score(scores, AGENT, score_of)
                yield row(column, "points", Interval(100.0 - value, 100.0 - high, 100.0 - low))
            else:
                yield row(column, "points", score(scores, policy, score_of))


def _seed_rows(place: Path) -> Iterator[dict[str, Any]]:
    for name, load in LOADS.items():
        table = read_csv(place / "scores" / f"{name}.csv", ("policy", "other", *_SEED_COLUMNS))
        own = table.filter(other=BASELINE)
        seeds = own.filter(pl.col("policy").str.contains(f"^{AGENT}-seed\\d+$"))
        rows = seeds if not seeds.is_empty() else own.filter(policy=AGENT)
        for row in rows.to_dicts():
            for key, (column, unit) in _SEED_COLUMNS.items():
                column_name = f"{load.title}, {column}"
                yield cells.cell("seeds", row["policy"], column_name, unit, float(row[key]))


def _beside_rows(place: Path) -> Iterator[dict[str, Any]]:
    paper, ours = pair(place, BESIDE), pair(place, OURS)
    bound = cells.runs(cells.pairing(place / "evaluations" / BESIDE, BOUND), BASELINE)
    agent = cells.runs(paper[COST], AGENT)
    for name in ("random", BASELINE, *OWN_RULES, OFFLINE, ONLINE, "bound", AGENT):
        scores = ours if name in (OFFLINE, ONLINE) else paper
        own = bound if name == "bound" else cells.runs(scores[COST], name)
        mean = mean_interval(own.values, trained=own.trained)
        yield cells.cell("beside", name, "cost", "", mean)
        if name != AGENT:
            yield cells.cell("beside", name, f"cost - {AGENT}", "", cells.difference_of(own, agent))
        if name in (OFFLINE, ONLINE):
            best = cells.runs(ours[COST], STRONGEST)
            found = cells.difference_of(own, best)
            yield cells.cell("beside", name, f"cost - {STRONGEST}", "", found)
        if name != "bound":
            for column, (metric, unit) in _METRICS.items():
                yield cells.cell("beside", name, column, unit, cells.mean(scores[metric], name))


def claims(place: Path) -> pl.DataFrame:
    """Return the claims with their verdicts."""
    printed = published(PAPER)
    rows: list[dict[str, Any]] = []
    found = {name: pair(place, name) for name in LOADS}
    for name in LOADS:
        rows += _size_claims(name, found[name], printed)
    for name in PATTERNS:
        rows += _order_claims(name, found[name])
    rows.append(_plain_claim(place, found[PLAIN_PATTERN][COST]))
    return pl.DataFrame(rows, schema=CLAIM)


def _size_claims(
    name: str, scores: dict[str, Pairing], printed: pl.DataFrame
) -> Iterator[dict[str, Any]]:
    """Return claims of fewer missed deadlines, less delay and a high Score-A than BASELINE."""
    load = LOADS[name]
    differs = DIFFERS + (_NOT_TRAINED_AGAIN if load.pattern != name else "")
    words = {"TMDL": "missed deadlines", "AJDR": "mean delay"}
    for column, (metric, _) in _METRICS.items():
        told = [number(printed, load.item, policy, column) for policy in (AGENT, BASELINE)]
        yield difference_claim(
            f"{name} {column}", load.item,
            f"{load.title} arrivals: {words[column]} of {AGENT}, relative to {BASELINE}", "%",
            100.0 * (_given(told[0]) / _given(told[1]) - 1.0),
            reduction(scores[metric], AGENT, BASELINE), differs,
        )  # fmt: skip
    value, low, high = score(scores, AGENT, score_a)
    yield difference_claim(
        f"{name} Score-A", load.item,
        f"{load.title} arrivals: {AGENT} is better than {BASELINE} on both measures "
        "(Score-A, above 50)", "points",
        _given(number(printed, load.item, AGENT, "Score-A")) - _EVEN,
        Interval(value - _EVEN, low - _EVEN, high - _EVEN), differs,
    )  # fmt: skip


def reduction(scores: Pairing, policy: str, other: str) -> Interval:
    """Return 100 (mean(policy) / mean(other) - 1), with an interval over windows and seeds.

    The interval is that of the mean of 100 ((policy - R other) / mean(other) + R - 1), with R the
    ratio of the means of each run. To first order this is the ratio of the resampled means, and its
    windows and seeds are resampled as those of a difference.
    """
    first, second = cells.runs(scores, policy), cells.runs(scores, other)
    base = second.window_means
    shares = first.values.mean(axis=1, keepdims=True) / base.mean()  # (runs, 1)
    values: Array = 100.0 * ((first.values - shares * base) / base.mean() + shares - 1.0)
    return mean_interval(values, trained=first.trained)


def _given(told: float | None) -> float:
    if told is None:
        raise DatasetError(f"published.csv lacks a number of {PAPER} that a claim needs")
    return told


def _order_claims(name: str, scores: dict[str, Pairing]) -> Iterator[dict[str, Any]]:
    title, panel = LOADS[name].title, f"figure 4{'abc'[PATTERNS.index(name)]}"
    costs = scores[COST]
    against = "On test windows, after the last episode. " + DIFFERS
    yield order_claim(
        f"{name} all", panel, f"{title} arrivals: {AGENT} has a lower cost (1 / Eval) than all "
        "five published rules",
        [cells.difference(costs, rule, AGENT) for rule in PUBLISHED_RULES], against,
    )  # fmt: skip
    yield order_claim(
        f"{name} random", panel, f"{title} arrivals: random is the worst of the five baselines",
        [cells.difference(costs, "random", rule) for rule in PUBLISHED_RULES[1:]], DIFFERS,
    )  # fmt: skip
    yield order_claim(
        f"{name} best", panel, f"{title} arrivals: sf_e is the best of the five baselines",
        [cells.difference(costs, rule, BASELINE) for rule in PUBLISHED_RULES if rule != BASELINE],
        DIFFERS,
    )  # fmt: skip


def _plain_claim(place: Path, costs: Pairing) -> dict[str, Any]:
    """Return the claim of Figure 4d."""
    plain = cells.pairing(place / "evaluations" / PLAIN, COST)
    if plain.windows != costs.windows:
        raise DatasetError(
            f"{place / 'evaluations'}: {PLAIN} and {PLAIN_PATTERN} have different windows"
        )
    gap = cells.difference_of(cells.runs(plain, AGENT), cells.runs(costs, AGENT))
    return order_claim(
        "guided", "figure 4d", "Bernoulli arrivals: exploration guided by sf_e ends with a lower "
        "cost (1 / Eval) than plain exploration", [gap],
        "On test windows, after the last episode. Plain exploration has a step size of .002, not "
        ".005, with which it diverges. " + DIFFERS,
    )  # fmt: skip
