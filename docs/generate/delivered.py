"""The strongest rule of each problem against what trainings deliver: the table of README.

    python -m docs.generate.delivered

prints it. The page of results has a second table, of selected checkpoints. Their numbers are rows
of docs/results/offline.csv and online.csv. The strongest rule is the one with the best mean of all
that were scored: on the test windows and on the fresh ones apart, so it may be another one there.
Each column of differences is one family of comparisons.
"""

import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from docs.generate.families import kind, marked, mde, verdicts
from docs.generate.results import FOLDER
from docs.generate.text import prose, table
from docs.generate.unlearned import COLUMN, NOTE, best_cell, best_of, is_below_best
from hindcast.pipeline.pages.numbers import write_number
from hindcast.policies.heuristics import heuristics

RowsOfRecipe = list[Mapping[str, str]]


@dataclass(frozen=True)
class Delivery:
    """A row of the table.

    Attributes:
        problem: Scenario, and its setting if there are several.
        source: "play" or "log", from which the agent learned.
        outcome: Headline outcome as the table calls it.
        decimals: Decimals of the numbers.
        recipe: Recipe of the rows on test windows.
        fresh: Recipe of the rows on windows that were looked at once; "" if a trace has no more.
        policy: The delivered policy.
        released: Recipe whose folder in datasets/ has the delivered checkpoints; "" for none.
        what: Name in the table for the delivered one, unless every seed kept the baseline.
        settings: Overrides of the released recipe with which the checkpoints play.
    """

    problem: str
    source: str
    outcome: str
    decimals: int
    recipe: str
    fresh: str
    policy: str
    released: str = ""
    what: str = "the agent"
    settings: tuple[str, ...] = ()


DELIVERIES: Final = (
    Delivery("`slots`, rate .7", "log", "slowdown", 3, "slots-deeprm-backfill-v1",
             "slots-deeprm-backfill-fresh-v1", "preference_ensemble-delivered",
             "slots-deeprm-v1"),
    Delivery("`slots`, rate 1.0", "log", "slowdown", 3, "slots-deeprm-rate10-backfill-v1",
             "slots-deeprm-rate10-backfill-fresh-v1", "preference_ensemble-delivered",
             "slots-deeprm-rate10-v1"),
    Delivery("`slots`, stream", "log", "slowdown", 3, "slots-stream-delivered-v1",
             "slots-stream-delivered-fresh-v1", "preference_ensemble-delivered", what="the rule"),
    Delivery("`thermal`", "log", "level per step", 3, "thermal-default-again-v1",
             "thermal-default-again-fresh-v1", "advantage_regression-delivered",
             "thermal-default-v1"),
    Delivery("`multicluster`", "log", "cost", 3, "multicluster-around-again-v1",
             "multicluster-around-again-fresh-v1", "response_surface-delivered",
             "multicluster-around-v1"),
    Delivery("`deferrable`", "log", "revenue", 1, "deferrable-prices-again-v1",
             "deferrable-prices-again-fresh-v1", "price_surface-delivered", "deferrable-prices-v1"),
    Delivery("`binpack`", "log", "makespan, s", 1, "binpack-alibaba2017-again-v1", "",
             "trajectory_preference-delivered", "binpack-alibaba2017-v1"),
    *(Delivery(f"`queue`, {log}", "log", "bounded slowdown", 1, f"queue-{name}-v1", "",
               "trajectory_preference-delivered", what="the rule")
      for log, name in (
          ("CTC SP2", "ctc-learned"), ("SDSC Blue", "sdsc-blue-delivered"),
          ("KTH SP2", "kth-learned"), ("SDSC SP2", "sdsc-sp2-learned"),
          ("HPC2N", "hpc2n-delivered"),
      )),
    Delivery("`slots`, rate .7", "play", "slowdown", 3, "slots-backfill-online",
             "slots-backfill-fresh-online", "counterfactual-delivered", "slots-online"),
    Delivery("`slots`, rate 1.0", "play", "slowdown", 3, "slots-rate10-again-online",
             "slots-rate10-again-fresh-online", "counterfactual-delivered", "slots-online-rate10",
             settings=("config.foresight=true",)),
    Delivery("`slots`, stream", "play", "slowdown", 3, "slots-stream-online-delivered",
             "slots-stream-online-fresh", "counterfactual-delivered",
             what="agent or rule, by seed,"),
    Delivery("`thermal`", "play", "level per step", 3, "thermal-again-online",
             "thermal-again-fresh-online", "ppo-delivered", "thermal-online"),
    Delivery("`multicluster`", "play", "cost", 3, "multicluster-foresight-again-online",
             "multicluster-foresight-again-fresh-online", "evolution-delivered",
             "multicluster-foresight-online"),
    Delivery("`deferrable`", "play", "revenue", 1, "deferrable-again-online",
             "deferrable-again-fresh-online", "price_evolution-delivered", "deferrable-online"),
    Delivery("`binpack`", "play", "makespan, s", 1, "binpack-again-online", "",
             "evolution-delivered", "binpack-online"),
    *(Delivery(f"`queue`, {log}", "play", "bounded slowdown", 1, f"queue-{name}-learned-online",
               "", "evolution-delivered", what=what)
      for log, name, what in (
          ("CTC SP2", "ctc", "agent or rule, by seed,"), ("SDSC Blue", "sdsc-blue", "the agent"),
          ("KTH SP2", "kth", "the rule"), ("SDSC SP2", "sdsc-sp2", "the rule"),
          ("HPC2N", "hpc2n", "the rule"),
      )),
)  # fmt: skip
SELECTED: Final = (  # they look ahead, which a delivery does not
    Delivery("`binpack`, looking ahead", "play", "makespan, s", 1,
             "binpack-rollout-again-online", "", "evolution-delivered@rollout"),
    Delivery("`multicluster`, looking ahead", "play", "cost", 3, "multicluster-rollout-online", "",
             "evolution-best@rollout"),
)  # fmt: skip
TABLES: Final = {"play": "online.csv", "log": "offline.csv"}


def delivered_table() -> str:
    """Return the table of deliveries as Markdown, and a sentence of what it shows."""
    head = ["problem", "learned from", "outcome", COLUMN, "strongest rule of the evaluation",
            "delivered", "difference from the rule on test windows", "MDE",
            "on fresh windows"]  # fmt: skip
    again = [one for one in DELIVERIES if one.fresh]
    fresh = [row_of(one, one.fresh) for one in again]
    cells = dict(zip(again, marked(fresh, [one.decimals for one in again]), strict=True))
    for one, row in zip(again, fresh, strict=True):
        if row["baseline"] != row_of(one)["baseline"]:
            cells[one] += f", against {prose(row['baseline'])}"
        best = best_of(row)
        if best is not None and best.policy != row["baseline"]:
            cells[one] += f"; {COLUMN}: {best_cell(row, one.decimals)}"
    rows = _rows_of(DELIVERIES)
    shown = table(
        head, [[*row, cells.get(one, "")] for one, row in zip(DELIVERIES, rows, strict=True)]
    )
    return f"{shown}\n{_found()} {kind([*map(row_of, DELIVERIES), *fresh])}\n\n{NOTE}\n"


def _found() -> str:
    """Return how many deliveries are better and worse than the strongest rule on test windows.

    With those that are better than it, but not than the best policy without learning.
    """
    rows = [row_of(one) for one in DELIVERIES]
    sides = verdicts(rows)
    worse = [
        f"{one.problem} ({one.source})" for one, s in zip(DELIVERIES, sides, strict=True) if s < 0
    ]
    text = f"Of {len(rows)} deliveries, {(sides > 0).sum()} are better on test windows"
    text += f" and {len(worse)} worse" if worse else " and none is worse"
    text += f" after Holm's adjustment{': ' + ', '.join(worse) if worse else ''}."
    again = [one for one in DELIVERIES if one.fresh]
    fresh = [row_of(one, one.fresh) for one in again]
    for windows, ones, found in (("test", DELIVERIES, rows), ("fresh", again, fresh)):
        below = [
            f"{one.problem} ({one.source})"
            for one, row, side in zip(ones, found, verdicts(found), strict=True)
            if side > 0 and is_below_best(row)
        ]
        if below:
            text += f" Better than the rule on {windows} windows, with a worse mean than the "
            text += f"{COLUMN}: {', '.join(below)}."
    stronger = []
    for one, row in zip(DELIVERIES, rows, strict=True):
        rule = best_of(row, here=True)
        if rule is not None and rule.policy != row["baseline"]:
            mean = prose(f"{rule.policy} {write_number(rule.mean, one.decimals)}")
            stronger.append(f"{one.problem} ({one.source}) {mean}")
    if stronger:
        text += " Another evaluation of the same windows has a stronger rule that does not look "
        text += f"ahead: {', '.join(stronger)}."
    return text


def selected_table() -> str:
    """Return the table of selected checkpoints as Markdown."""
    head = ["problem", "learned from", "outcome", COLUMN, "strongest rule of the evaluation",
            "agent", "difference from the rule"]  # fmt: skip
    shown = table([*head, "MDE"], _rows_of(SELECTED))
    return f"{shown}\n{kind([*map(row_of, SELECTED)])}\n\n{NOTE}\n"


def row_of(one: Delivery, recipe: str = "") -> Mapping[str, str]:
    """Return the row of a delivery against the strongest rule of a recipe; "" is that of test."""
    found = rows_of_recipe(TABLES[one.source], recipe or one.recipe)
    known = heuristics(found[0]["scenario"])
    own = [r for r in found if r["policy"] == one.policy and r["baseline"] in known]
    return max(own, key=baseline_mean)


def _rows_of(deliveries: Sequence[Delivery]) -> list[list[str]]:
    best = [row_of(one) for one in deliveries]
    return [
        [*_problem(one, row), cell, mde(row, one.decimals)]
        for one, row, cell in zip(
            deliveries, best, marked(best, [one.decimals for one in deliveries]), strict=True
        )
    ]


def _problem(one: Delivery, row: Mapping[str, str]) -> list[str]:
    mean, rule = float(row["mean"]), float(row["mean"]) - float(row["paired_difference"])
    kept = all(float(row[name]) == 0.0 for name in ("paired_low", "paired_high"))
    return [
        one.problem, one.source, one.outcome, best_cell(row, one.decimals),
        prose(f"{row['baseline']} {write_number(rule, one.decimals)}"),
        "the rule" if kept else f"{one.what} {write_number(mean, one.decimals)}",
    ]  # fmt: skip


def baseline_mean(row: Mapping[str, str]) -> float:
    """Return the mean of a row's baseline, in the direction in which more is better."""
    mean = float(row["mean"]) - float(row["paired_difference"])
    return mean if row["higher_is_better"] == "true" else -mean


def rows_of_recipe(table: str, recipe: str) -> RowsOfRecipe:
    """Return the rows of a recipe in a committed table, on its headline outcome."""
    return _rows(table)[recipe]


@cache
def _rows(name: str) -> Mapping[str, RowsOfRecipe]:
    """Return the rows of a table on the headline outcome, by recipe."""
    found: dict[str, RowsOfRecipe] = {}
    with (FOLDER / name).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            of_recipe = found.setdefault(row["recipe"], [])
            if not of_recipe or row["metric"] == of_recipe[0]["metric"]:
                of_recipe.append(row)
    return found


if __name__ == "__main__":
    sys.stdout.write(delivered_table())
