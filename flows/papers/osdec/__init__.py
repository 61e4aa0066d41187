"""OSDEC: seven variants of a network that scores jobs, in six settings of jobs and capacity.

Tables 1, 2 and 4, and Figure 4. The paper does not say how its jobs and its capacity were made from
the Azure trace; the setting is that of `hindcast calibrate deferrable`.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import polars as pl

from flows.papers import Setting
from flows.papers.osdec.commands import BASE, CASES, RULES, VARIANTS, stages, variants_of
from pipeline.evaluation.summary.pairing import PolicyRuns
from pipeline.papers.cells import (
    beside,
    bound,
    cell,
    difference_of,
    mean_of,
    pairing,
    runs,
    strongest_rule,
)
from pipeline.papers.claims import difference_claim, order_claim
from pipeline.papers.published import number, published
from pipeline.papers.results import CLAIM, FIGURE, TABLE, FigureText, Results, TableText
from pipeline.storage.files import read_parquet

__all__ = ["SOURCE", "TITLE", "results", "stages"]
TITLE: Final = "OSDEC"
SOURCE: Final = (
    'Dong, Zhu, Shan et al., "An Advanced Reinforcement Learning Framework for Online Scheduling '
    'of Deferrable Workloads in Cloud Computing"'
)
AGENT: Final = "score_ppo-best"
OFFLINE: Final = "advantage_cloning"
ONLINE: Final = "price_evolution-best"
REWARD: Final = "total_reward"
UTILISATION: Final = "utilisation"
UNIT: Final = "core slots"
METRICS: Final = {UTILISATION: "utilisation", "delay_penalty": "delay", REWARD: "total reward"}
CURVE: Final = "validation_total_reward"
# Rules of the paper -> rows of its tables; the other rules stand under their own names.
PAPERS_RULES: Final = {"fifo": "FIFO", "sjf": "SJF", "tetris": "Tetris"}
NAMES: Final = {"best offline agent": OFFLINE, "best online agent": ONLINE}


def results(place: Path, setting: Setting) -> Results:
    """Return Tables 1, 2 and 4, Figure 4 and the claims."""
    printed = published("osdec")
    cells = []
    for metric, column in METRICS.items():
        cells += _column("table 1", column, scores_of(place, BASE, metric, setting), printed)
    for case, column in ((BASE, "deferrable"), ("realtime", "real-time")):
        cells += _column("table 2", column, scores_of(place, case, UTILISATION, setting), printed)
    for column, case in _columns_of_table_4().items():
        cells += _column("table 4", column, scores_of(place, case, UTILISATION, setting), printed)
    cells += _beside(place)
    return Results(
        pl.DataFrame(cells, schema=TABLE), _table_texts(setting),
        pl.DataFrame(_curves(place, setting), schema=FIGURE, orient="row"), _FIGURES,
        pl.DataFrame(_claims(place, setting, printed), schema=CLAIM),
    )  # fmt: skip


def scores_of(place: Path, case: str, metric: str, setting: Setting) -> dict[str, PolicyRuns]:
    """Return the scores of rules and variants in a case, by row of the tables."""
    rules = pairing(place / case / "rules", metric)
    found = {PAPERS_RULES.get(rule, rule): runs(rules, rule) for rule in RULES}
    for name in variants_of(case, setting):
        folder = place / case / f"{VARIANTS[name].folder}-scores"
        found[name] = runs(pairing(folder, metric), AGENT)
    return found


def _column(
    table: str, column: str, scores: dict[str, PolicyRuns], printed: pl.DataFrame
) -> list[dict[str, Any]]:
    return [
        cell(table, row, column, UNIT, mean_of(found), number(printed, table, row, column))
        for row, found in scores.items()
    ]


def _columns_of_table_4() -> dict[str, str]:
    """Return the case of each column; the paper prints the base case twice."""
    own = {case: case for case in CASES if case not in {BASE, "realtime"}}
    return {"core case 1": BASE, **own, "duration case 3": BASE}


def _beside(place: Path) -> list[dict[str, Any]]:
    rules = pairing(place / BASE / "rules", REWARD)
    own = pairing(place / BASE / "ours", REWARD)
    agent = runs(pairing(place / BASE / "osdec-scores", REWARD), AGENT)
    rule = strongest_rule(rules)
    found = {
        "random": runs(rules, "random"), f"strongest rule: {rule}": runs(rules, rule),
        **{f"{what}: {name}": runs(own, name) for what, name in NAMES.items()},
    }  # fmt: skip
    return beside(found, agent, "total reward", UNIT, bound(place / BASE / "rules"))


def _curves(place: Path, setting: Setting) -> list[tuple[Any, ...]]:
    """Return the reward on validation windows over the training, mean over the seeds."""
    rows: list[tuple[Any, ...]] = []
    for name, variant in VARIANTS.items():
        each = [
            read_parquet(place / BASE / f"{variant.folder}-seed{seed}" / "metrics.parquet")
            .filter(metric=CURVE)
            .select("step", "value")
            for seed in setting.seeds
        ]
        whole = pl.concat(each).group_by("step").agg(
            mean=pl.col("value").mean(), low=pl.col("value").min(), high=pl.col("value").max(),
        ).sort("step")  # fmt: skip
        rows += [
            ("figure 4", "", name, str(r["step"]), r["mean"], r["low"], r["high"])
            for r in whole.to_dicts()
        ]
    return rows


def _claims(place: Path, setting: Setting, printed: pl.DataFrame) -> list[dict[str, Any]]:
    reward = scores_of(place, BASE, REWARD, setting)
    claims = []

    def gap(table: str, column: str, one: str, other: str) -> float:
        values = [number(printed, table, row, column) for row in (one, other)]
        assert values[0] is not None
        assert values[1] is not None
        return values[0] - values[1]

    def claim(name: str, text: str, one: str, other: str, differs: str = "") -> None:
        claims.append(difference_claim(
            name, "table 1", text, UNIT, gap("table 1", "total reward", one, other),
            difference_of(reward[one], reward[other]), differs,
        ))  # fmt: skip

    best = max(PAPERS_RULES.values(), key=lambda row: mean_of(reward[row]).value)
    claim("best-rule", f"OSDEC is above {best}, the best of FIFO, SJF and Tetris", "OSDEC", best)
    names = list(VARIANTS)
    neighbours = [difference_of(reward[after], reward[before]) for before, after in pairwise(names)]
    claims.append(order_claim(
        "order", "table 1", f"order of the variants: {', '.join(names)}", neighbours
    ))  # fmt: skip
    for other in ("REINFORCE", "PPO", "PointerNet", "PPO+Att"):
        claim(f"osdec-{other}", f"OSDEC is above {other}", "OSDEC", other)
    used = {case: scores_of(place, case, UTILISATION, setting) for case in CASES}
    deferrable, realtime = used[BASE]["OSDEC"], used["realtime"]["OSDEC"]
    printed_gap = (number(printed, "table 2", "OSDEC", "deferrable") or 0.0) - (
        number(printed, "table 2", "OSDEC", "real-time") or 0.0
    )
    claims.append(difference_claim(
        "deferrable", "table 2", "OSDEC uses more of the capacity if jobs can wait", UNIT,
        printed_gap, difference_of(deferrable, realtime), _FEWER,
    ))  # fmt: skip
    for column, case in _columns_of_table_4().items():
        claims.append(difference_claim(
            f"tetris-{column}", "table 4", f"{column}: utilisation, OSDEC minus Tetris", UNIT,
            gap("table 4", column, "OSDEC", "Tetris"),
            difference_of(used[case]["OSDEC"], used[case]["Tetris"]),
            "" if case == BASE else _FEWER,
        ))  # fmt: skip
    return claims


_FEWER: Final = "one seed and fewer iterations in the cases other than the base case"


def _table_texts(setting: Setting) -> dict[str, TableText]:
    few = " Only some variants are trained in the other cases." if setting.quick else ""
    own = "Jobs and capacity are generated; the paper's are of the Azure trace, and not public."
    return {
        "table 1": TableText("Table 1: scheduling performance", "Table 1", own),
        "table 2": TableText(
            "Table 2: utilisation if jobs can wait, and if they cannot", "Table 2",
            f"In real time: {_FEWER}.{few}",
        ),
        "table 4": TableText(
            "Table 4: utilisation by distribution of cores and durations", "Table 4",
            f"The base case stands in two columns of the paper, with different numbers; {_FEWER}. "
            "The capacity of a case grows with the mean work of a job, since no fixed capacity "
            f"gives the printed totals.{few}",
        ),
        "beside": TableText("Beside the paper's columns"),
    }  # fmt: skip


_FIGURES: Final = {
    "figure 4": FigureText(
        "Figure 4: training", "lines", "iterations", "total reward on validation windows",
        "Figure 4", "Mean over training seeds; the band reaches from the least to the largest.",
    ),
}  # fmt: skip
