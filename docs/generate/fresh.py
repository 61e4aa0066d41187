"""Agents and rules on windows that were drawn after all of these were made, with times.

    python -m docs.generate.fresh > docs/results/fresh_times.csv

measures the times: CPU milliseconds per decision of one thread, as an evaluation plays a policy on
TIMED windows. The other numbers are rows of docs/results/fresh.csv. Where rules can look ahead
(`RULE@rollout`), agents that do not look ahead are compared with the best rule that does not, and
those that do with the best policy that did not learn. All differences of the table are one family
of comparisons.
"""

import csv
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

import hindcast
from docs.generate.delivered import baseline_mean, rows_of_recipe
from docs.generate.families import marked, mde, verdicts
from docs.generate.results import FOLDER, FRESH_TIMES
from docs.generate.text import prose, table
from hindcast.pipeline.pages.numbers import write_number
from hindcast.pipeline.recipes.loading import load_recipe

AHEAD: Final = "@rollout"
TIMED: Final = 10


@dataclass(frozen=True)
class Fresh:
    """A row of the table.

    Attributes:
        problem: Scenario, and its setting if there are several.
        outcome: Headline outcome as the table calls it.
        decimals: Decimals of the numbers.
        recipe: Recipe of the rows.
        released: Recipe whose folder in datasets/ has the checkpoints.
        agent: Name of the delivered agent.
        reused: Whether its windows had been read before; its rows are those of online.csv.
        settings: Overrides of the released recipe with which the checkpoints play.
    """

    problem: str
    outcome: str
    decimals: int
    recipe: str
    released: str
    agent: str
    reused: bool = False
    settings: tuple[str, ...] = ()


FRESH: Final = (
    Fresh("`slots`, rate .7", "slowdown", 3, "slots-second-fresh-online", "slots-online",
          "counterfactual-delivered"),
    Fresh("`slots`, rate 1.0", "slowdown", 3, "slots-rate10-second-fresh-online",
          "slots-online-rate10", "counterfactual-delivered",
          settings=("config.foresight=true",)),
    Fresh("`thermal`", "level per step", 3, "thermal-second-fresh-online", "thermal-online",
          "ppo-delivered"),
    Fresh("`multicluster`", "cost", 3, "multicluster-second-fresh-online",
          "multicluster-foresight-online", "evolution-delivered"),
    Fresh("`deferrable`", "revenue", 1, "deferrable-second-fresh-online", "deferrable-online",
          "price_evolution-delivered"),
    Fresh("`binpack`", "makespan, s", 1, "binpack-rollout-online", "binpack-online",
          "evolution-best", reused=True),
)  # fmt: skip

Row = Mapping[str, str]


def fresh_table() -> str:
    """Return the table as Markdown, and a sentence of what it shows."""
    pairs = [(one, ahead, _row(one, ahead)) for one in FRESH for ahead in (False, True)]
    found = [(one, ahead, row) for one, ahead, row in pairs if row is not None]
    rows = [row for *_, row in found]
    cells = marked(rows, [one.decimals for one, *_ in found])
    sides = verdicts(rows)
    times = _times()
    lines = []
    for (one, ahead, row), cell in zip(found, cells, strict=True):
        other = float(row["mean"]) - float(row["paired_difference"])
        lines.append([
            one.problem, f"{row['windows']}, read before" if one.reused else row["windows"],
            one.outcome, "yes" if ahead else "no",
            _policy(one, row["baseline"], other, times),
            _policy(one, row["policy"], float(row["mean"]), times), cell, mde(row, one.decimals),
        ])  # fmt: skip
    head = ["problem", "windows", "outcome", "looking ahead", "best without learning", "agent",
            "difference", "MDE"]  # fmt: skip
    return f"{table(head, lines)}\n{_found(found, sides.tolist())}\n"


def _found(found: Sequence[tuple[Fresh, bool, Row]], sides: Sequence[int]) -> str:
    """Return in which problems the agent of the last row is better, and in which it is not."""
    last = {one.problem: side for (one, *_), side in zip(found, sides, strict=True)}
    better = [problem for problem, side in last.items() if side > 0]
    others = [problem for problem, side in last.items() if side <= 0]
    text = "In the last row of each problem, agents are better after Holm's adjustment on "
    text += _and(better)
    return f"{text}, and not on {_and(others)}." if others else f"{text}."


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _row(one: Fresh, ahead: bool) -> Row | None:
    """Return the agents' row against the best policy that did not learn; None if they have none.

    Without looking ahead, the best is that of the rules that do not look ahead either.
    """
    agent = one.agent + AHEAD * ahead
    own = [
        row
        for row in rows_of_recipe("online.csv" if one.reused else "fresh.csv", one.recipe)
        if row["policy"] == agent
        and row["baseline"] != "random"
        and (ahead or not _looks_ahead(row["baseline"]))
    ]
    return max(own, key=baseline_mean) if own else None


def _looks_ahead(policy: str) -> bool:
    return policy.endswith(AHEAD) or policy == AHEAD[1:]


def _policy(one: Fresh, name: str, mean: float, times: Mapping[tuple[str, str], float]) -> str:
    """Return a policy with its mean and its milliseconds per decision."""
    shown = prose(f"{name} {write_number(mean, one.decimals)}")
    return f"{shown} ({write_number(times[one.recipe, name], 2)} ms)"


def _times() -> Mapping[tuple[str, str], float]:
    with (FOLDER / FRESH_TIMES).open(newline="", encoding="utf-8") as file:
        return {
            (row["recipe"], row["policy"]): float(row["ms_per_decision"])
            for row in csv.DictReader(file)
        }


def measure(one: Fresh) -> list[tuple[str, str, int, float]]:
    """Return recipe, policy, decisions and milliseconds of a decision of the row's policies."""
    found = []
    for ahead in (False, True):
        row = _row(one, ahead)
        if row is None:
            continue
        folder = f"datasets/{one.released}/agents"
        [first] = sorted(Path(folder).glob("*-seed0"))
        for name, policy in (
            (row["baseline"], row["baseline"]),
            (row["policy"], f"{first}{AHEAD * ahead}"),
        ):
            found.append((one.recipe, name, *_milliseconds(one, policy)))
    return found


def _milliseconds(one: Fresh, policy: str) -> tuple[int, float]:
    """Return decisions of the timed windows and the CPU milliseconds of one of them."""
    recipe = load_recipe(one.released)
    first = recipe.windows("validation")[0]
    taken, decisions = [], []
    for count in (1, 1 + TIMED):  # the shorter one has the start, and the compilation before it
        for _ in range(2 if count == 1 else 1):
            with tempfile.TemporaryDirectory() as out:
                begin = time.process_time()
                hindcast.evaluate(
                    one.released, [policy], out=Path(out) / "e", split="validation",
                    overrides=[*one.settings, f'split.validation="{first}..{first + count - 1}"',
                               "evaluate.seeds=1"],
                )  # fmt: skip
                seconds = time.process_time() - begin
                scores = pl.read_parquet(Path(out) / "e" / "scores.parquet")
        taken.append(seconds)
        decisions.append(int(scores.filter(metric="decisions")["value"].sum()))
    more = decisions[1] - decisions[0]
    return more, 1e3 * max(taken[1] - taken[0], 0.0) / more


if __name__ == "__main__":
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["recipe", "policy", "decisions", "ms_per_decision"])
    for each in FRESH:
        for recipe, policy, decisions, ms in measure(each):
            writer.writerow([recipe, policy, decisions, f"{ms:.4g}"])
