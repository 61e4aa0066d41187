"""OSDEC: seven variants of a network that scores jobs, in six settings of jobs and capacity.

Tables 1, 2 and 4, and Figure 4. The paper does not say how its jobs and its capacity were made from
the Azure trace; the setting is that of `hindcast calibrate deferrable`.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.flows.papers.cells import (
    beside,
    bound,
    cell,
    difference_of,
    mean_of,
    pairing,
    runs,
    strongest_rule,
)
from hindcast.flows.papers.claims import difference_claim, order_claim
from hindcast.flows.papers.osdec.commands import (
    BASE,
    CASES,
    FREE_DELAY,
    ITERATIONS,
    ITERATIONS_OF_OTHERS,
    QUICK_WINDOWS,
    QUICK_WINDOWS_OF_OTHERS,
    REALTIME,
    RULES,
    VARIANTS,
    stages,
)
from hindcast.flows.papers.published import number, published
from hindcast.flows.papers.publishing import protocol_of
from hindcast.flows.papers.results import CLAIM, FIGURE, TABLE, FigureText, Results, TableText
from hindcast.flows.protocols import Setting
from hindcast.pipeline.evaluation.summary.pairing import PolicyRuns
from hindcast.pipeline.storage.files import read_parquet

TITLE: Final = "OSDEC"
SOURCE: Final = (
    'Dong, Zhu, Shan et al., "An Advanced Reinforcement Learning Framework for Online Scheduling '
    'of Deferrable Workloads in Cloud Computing"'
)
AGENT: Final = "score_ppo-best"
OFFLINE: Final = "price_surface-delivered"
ONLINE: Final = "price_evolution-delivered"
REWARD: Final = "total_reward"
UTILISATION: Final = "utilisation"
UNIT: Final = "core slots"
METRICS: Final = {UTILISATION: "utilisation", "delay_penalty": "delay", REWARD: "total reward"}
DEVIATIONS: Final = "table 1, deviations"
CURVE: Final = "validation_total_reward"
# Rules of the paper -> rows of its tables; the other rules stand under their own names.
PAPERS_RULES: Final = {"fifo": "FIFO", "sjf": "SJF", "tetris": "Tetris"}
NAMES: Final = {"best offline agent": OFFLINE, "best online agent": ONLINE}


def results(place: Path, setting: Setting) -> Results:
    """Return Tables 1, 2 and 4, Figure 4 and the claims."""
    printed = published("osdec")
    cells = []
    for metric, column in METRICS.items():
        cells += _column("table 1", column, scores_of(place, BASE, metric), printed)
    cells += _bound("table 1", METRICS[UTILISATION], place / BASE / "bound")
    cells += _bound("table 1", METRICS[REWARD], place / BASE / "rules")
    for metric, column in METRICS.items() if len(setting.seeds) > 1 else ():
        cells += _deviations(column, scores_of(place, BASE, metric), printed)
    for case, column in ((FREE_DELAY, "deferrable"), (REALTIME, "real-time")):
        cells += _column("table 2", column, scores_of(place, case, UTILISATION), printed)
        cells += _bound("table 2", column, place / case / "rules")
    for column, case in _columns_of_table_4().items():
        cells += _column("table 4", column, scores_of(place, case, UTILISATION), printed)
        cells += _bound("table 4", column, place / case / "bound")
    cells += _beside(place)
    return Results(
        pl.DataFrame(cells, schema=TABLE), _table_texts(setting),
        pl.DataFrame(_curves(place, setting), schema=FIGURE, orient="row"), _FIGURES,
        pl.DataFrame(_claims(place, setting, printed), schema=CLAIM),
    )  # fmt: skip


def scores_of(place: Path, case: str, metric: str) -> dict[str, PolicyRuns]:
    """Return the scores of rules and variants in a case, by row of the tables."""
    rules = pairing(place / case / "rules", metric)
    found = {PAPERS_RULES.get(rule, rule): runs(rules, rule) for rule in RULES}
    for name, variant in VARIANTS.items():
        folder = place / case / f"{variant.folder}-scores"
        found[name] = runs(pairing(folder, metric), AGENT)
    return found


def _column(
    table: str, column: str, scores: Mapping[str, PolicyRuns], printed: pl.DataFrame
) -> list[dict[str, Any]]:
    return [
        cell(table, row, column, UNIT, mean_of(found), number(printed, table, row, column))
        for row, found in scores.items()
    ]


def _deviations(
    column: str, scores: Mapping[str, PolicyRuns], printed: pl.DataFrame
) -> list[dict[str, Any]]:
    """Return the standard deviations of the means of training seeds; rules have none."""
    return [
        cell(
            DEVIATIONS, row, column, UNIT, float(np.std(found.values.mean(axis=1), ddof=1)),
            number(printed, "table 1", row, f"deviation of {column}"),
        )
        for row, found in scores.items() if found.trained
    ]  # fmt: skip


def _bound(table: str, column: str, folder: Path) -> list[dict[str, Any]]:
    found = bound(folder)
    return [] if found is None else [cell(table, "bound", column, UNIT, found)]


def _columns_of_table_4() -> dict[str, str]:
    """Return the case of each column; the paper prints the base case twice."""
    own = {case: case for case in CASES if case not in {BASE, FREE_DELAY, REALTIME}}
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
    reward = scores_of(place, BASE, REWARD)
    used = {case: scores_of(place, case, UTILISATION) for case in CASES}
    short = _remark(setting)
    claims = []

    def claim(
        name: str, text: str, item: str, first: PolicyRuns, second: PolicyRuns,
        cells: Sequence[tuple[str, str]], differs: str,
    ) -> None:  # fmt: skip
        values = [number(printed, item, row, column) for row, column in cells]
        assert values[0] is not None
        assert values[1] is not None
        claims.append(difference_claim(
            name, item, text, UNIT, values[0] - values[1], difference_of(first, second), differs
        ))  # fmt: skip

    def above(name: str, text: str, row: str, other: str) -> None:
        cells = [(each, "total reward") for each in (row, other)]
        claim(name, text, "table 1", reward[row], reward[other], cells, _OWN)

    best = max(PAPERS_RULES.values(), key=lambda row: mean_of(reward[row]).value)
    above("best-rule", f"OSDEC is above {best}, the best of FIFO, SJF and Tetris", "OSDEC", best)
    neighbours = [difference_of(reward[after], reward[row]) for row, after in pairwise(VARIANTS)]
    claims.append(order_claim(
        "order", "table 1", f"order of the variants: {', '.join(VARIANTS)}", neighbours, _OWN
    ))  # fmt: skip
    for other in VARIANTS:
        if other != "OSDEC":
            above(f"osdec-{other}", f"OSDEC is above {other}", "OSDEC", other)
    for row, other in _MODULES:
        above(f"{row}-{other}", f"{row} is above {other}", row, other)
    claim(
        "most-used", "OSDEC uses more than Tetris, which uses most of the rules", "table 1",
        used[BASE]["OSDEC"], used[BASE]["Tetris"],
        [("OSDEC", "utilisation"), ("Tetris", "utilisation")], _OWN,
    )  # fmt: skip
    for row in (*PAPERS_RULES.values(), "OSDEC"):
        claim(
            f"deferrable-{row}", f"{row} uses more of the capacity if jobs can wait", "table 2",
            used[FREE_DELAY][row], used[REALTIME][row],
            [(row, "deferrable"), (row, "real-time")], short if row in VARIANTS else _OWN,
        )  # fmt: skip
    for column, case in _columns_of_table_4().items():
        claim(
            f"tetris-{column}", f"{column}: utilisation, OSDEC minus Tetris", "table 4",
            used[case]["OSDEC"], used[case]["Tetris"], [("OSDEC", column), ("Tetris", column)],
            _OWN if case == BASE else short,
        )  # fmt: skip
    return claims


# Differences of Table 1 that the paper ascribes to an algorithm or a module.
_MODULES: Final = (
    ("PPO", "REINFORCE"), ("PPO+Att", "PPO"), ("PPO+Att+AuxH", "PPO+Att"),
    ("PPO+Att+AuxL", "PPO+Att"),
)  # fmt: skip
_OWN: Final = "generated jobs and capacity; the paper's are of the Azure trace, and not public"


def _remark(setting: Setting) -> str:
    """Return how a case other than the base case differs from the paper's."""
    return f"{_OWN}; one training seed and {_others(setting)} in this case"


def _others(setting: Setting) -> str:
    """Return the length of a training in a case other than the base case."""
    number = ITERATIONS_OF_OTHERS[setting.quick]
    return f"{number} iteration{'s' * (number != 1)}"


def _table_texts(setting: Setting) -> dict[str, TableText]:
    base = f"{len(setting.seeds)} training seeds, {ITERATIONS[setting.quick]} iterations"
    few = f"one training seed, {_others(setting)}"
    windows = (
        f" The base case has {QUICK_WINDOWS} test windows, the others {QUICK_WINDOWS_OF_OTHERS}."
        if setting.quick else ""
    )  # fmt: skip
    return {
        "table 1": TableText(
            "Table 1: scheduling performance", "Table 1",
            "Jobs and capacity are generated; the paper's are of the Azure trace, and not public. "
            "The paper does not say how long it trains; its step sizes are a tenth of those here, "
            f"its minibatches a quarter. Here: {base}, and the best iteration on validation "
            "windows.",
        ),
        **({DEVIATIONS: TableText(
            "Table 1: standard deviations", "Table 1",
            "Of the means of the training seeds; rules have none.",
        )} if len(setting.seeds) > 1 else {}),
        "table 2": TableText(
            "Table 2: utilisation if jobs can wait, and if they cannot", "Table 2",
            "The goal is the utilisation, so a delay costs nothing. Both columns have "
            f"{few} here; capacity above the limit still costs.{windows}",
        ),
        "table 4": TableText(
            "Table 4: utilisation by distribution of cores and durations", "Table 4, appendix B",
            "The paper does not say which quantity this table has; here it is the "
            "utilisation. Variants are trained in each case for the total reward: "
            f"{base} in the base case, {few} in the others. The base case stands in two columns "
            "of the paper (core case 1 and duration case 3) with different numbers. The capacity "
            "of a case grows with the mean work of a job, since no fixed capacity gives the "
            f"printed totals; only the growth of FIFO can be expected here.{windows}",
        ),
        "beside": TableText(
            "Beside the paper's columns", "",
            "The best offline agent is trained on the log of deferrable-base-v1, the best online "
            "agent in deferrable-online; all are scored on the test windows of Table 1.",
        ),
    }  # fmt: skip


_FIGURES: Final = {
    "figure 4": FigureText(
        "Figure 4: training", "lines", "iterations",
        f"total reward on validation windows ({UNIT})", "Figure 4",
        "Mean over training seeds; the band reaches from the least to the largest.",
    ),
}  # fmt: skip


PROTOCOL: Final = protocol_of(TITLE, SOURCE, stages, results)
