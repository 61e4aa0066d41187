"""Agents and rules on windows that were drawn after all of these were made, with times.

    python -m docs.generate.fresh > docs/results/fresh_times.csv

measures the times: CPU milliseconds per decision of one thread, as an evaluation plays a policy on
train windows; names of recipes after it measure the rows of these alone. It prints the record of
the machine on standard error. The other numbers are rows of docs/results/fresh.csv.

Where rules can look ahead (`RULE@rollout`), agents that do not look ahead are compared with the
best rule that does not, and those that do with the best policy that did not learn. All differences
of the table are one family of comparisons.
"""

import csv
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
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
from hindcast.pipeline.storage.provenance import key_of, provenance

AHEAD: Final = "@rollout"
SECOND: Final = "second draw"
TIMED: Final = 5  # windows of a policy that looks ahead
TIMED_RULES: Final = 150
REPEATS: Final = 3


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
        ahead: How the agent looks ahead: what its name has behind the checkpoint's.
        second: Whether its windows are a second draw, with rules that have the agent's time.
        checkpoint: Folder below that of `released` that is timed; by default the first seed.
    """

    problem: str
    outcome: str
    decimals: int
    recipe: str
    released: str
    agent: str
    reused: bool = False
    settings: tuple[str, ...] = ()
    ahead: str = AHEAD
    second: bool = False
    checkpoint: str = ""


FRESH: Final = (
    Fresh("`slots`, rate .7", "slowdown", 3, "slots-second-fresh-online", "slots-online",
          "counterfactual-delivered"),
    Fresh("`slots`, rate 1.0", "slowdown", 3, "slots-rate10-second-fresh-online",
          "slots-online-rate10", "counterfactual-delivered",
          settings=("config.foresight=true",)),
    Fresh("`slots`, rate 1.0", "slowdown", 3, "slots-rate10-third-fresh-online",
          "slots-online-rate10", "counterfactual-delivered",
          settings=("config.foresight=true",), ahead="@rollout+errors=2", second=True),
    Fresh("`thermal`", "level per step", 3, "thermal-second-fresh-online", "thermal-online",
          "ppo-delivered"),
    Fresh("`multicluster`", "cost", 3, "multicluster-second-fresh-online",
          "multicluster-foresight-online", "evolution-delivered"),
    Fresh("`multicluster`", "cost", 3, "multicluster-third-fresh-online",
          "multicluster-foresight-online", "evolution-delivered", second=True,
          ahead="@rollout+futures=16", checkpoint="ensemble"),
    Fresh("`deferrable`", "revenue", 1, "deferrable-second-fresh-online", "deferrable-online",
          "price_evolution-delivered"),
    Fresh("`binpack`", "makespan, s", 1, "binpack-rollout-online", "binpack-online",
          "evolution-best", reused=True),
    Fresh("`binpack`, generated", "makespan, s", 1, "binpack-generated-fresh-online",
          "binpack-online", "evolution-delivered", second=True,
          settings=('trace.format="synthetic"', 'trace.path=""', "trace.settings={n_jobs=3600}",
                    "seed=62000")),
)  # fmt: skip

Row = Mapping[str, str]
Shown = tuple[Fresh, bool, Row]  # a problem, whether policies look ahead, and the agent's row


def shown_rows() -> list[Shown]:
    """Return the rows of the table."""
    pairs = [(one, ahead, _row(one, ahead)) for one in FRESH for ahead in (False, True)]
    return [(one, ahead, row) for one, ahead, row in pairs if row is not None]


def fresh_table() -> str:
    """Return the table as Markdown, and a sentence of what it shows."""
    found = shown_rows()
    notes = {one.problem: " (windows read before)" for one in FRESH if one.reused}
    better, others = (
        [problem + notes.get(problem, "") for problem in problems]
        for problems in better_and_others(found)
    )
    text = "In the last row of each problem, agents are better after Holm's adjustment on "
    text += f"{_and(better)}, and not on {_and(others)}."
    return f"{_table(found)}\n{text}\n"


def equal_time_table() -> str:
    """Return the rows in which a rule that looks ahead has the agent's time."""
    return _table(shown_rows(), lambda one, ahead: one.second and ahead)


def share_of_time(one: Fresh) -> float:
    """Return the time of a decision of the agent that looks ahead, divided by the rule's."""
    row, times = _row(one, ahead=True), _times()
    assert row is not None
    return times[one.recipe, row["policy"]] / times[one.recipe, row["baseline"]]


def _table(found: Sequence[Shown], wanted: Callable[[Fresh, bool], bool] | None = None) -> str:
    """Return the rows that are wanted; all rows are one family of comparisons."""
    cells = marked([row for *_, row in found], [one.decimals for one, *_ in found])
    times, lines = _times(), []
    for (one, ahead, row), cell in zip(found, cells, strict=True):
        if wanted is not None and not wanted(one, ahead):
            continue
        other = float(row["mean"]) - float(row["paired_difference"])
        lines.append([
            one.problem, ", ".join([row["windows"], *_note(one)]),
            one.outcome, "yes" if ahead else "no",
            _policy(one, row["baseline"], other, times),
            _policy(one, row["policy"], float(row["mean"]), times), cell, mde(row, one.decimals),
        ])  # fmt: skip
    head = ["problem", "windows", "outcome", "looking ahead", "best without learning, of its kind",
            "agent", "difference", "MDE"]  # fmt: skip
    return table(head, lines)


def better_and_others(found: Sequence[Shown]) -> tuple[list[str], list[str]]:
    """Return the problems in whose last row the agent is better, and the others."""
    last = {
        one.problem: side
        for (one, *_), side in zip(found, verdicts([row for *_, row in found]), strict=True)
    }
    better = [problem for problem, side in last.items() if side > 0]
    return better, [problem for problem in last if problem not in better]


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _note(one: Fresh) -> list[str]:
    """Return remarks on the windows of a row."""
    return ["read before"] if one.reused else [SECOND] if one.second else []


def _row(one: Fresh, ahead: bool) -> Row | None:
    """Return the agents' row against the best policy that did not learn; None if they have none.

    Without looking ahead, the best is that of the rules that do not look ahead either.
    """
    agent = one.agent + one.ahead * ahead
    own = [
        row
        for row in rows_of_recipe("online.csv" if one.reused else "fresh.csv", one.recipe)
        if row["policy"] == agent
        and row["baseline"] != "random"
        and (ahead or not looks_ahead(row["baseline"]))
    ]
    return max(own, key=baseline_mean) if own else None


def looks_ahead(policy: str) -> bool:
    """Return whether a policy of this name looks ahead: `rollout`, or `@rollout` with settings."""
    return AHEAD[1:] in (policy, policy.rpartition("@")[2].partition("+")[0])


def _policy(one: Fresh, name: str, mean: float, times: Mapping[tuple[str, str], float]) -> str:
    """Return a policy with its mean and its time per decision."""
    shown, ms = prose(f"{name} {write_number(mean, one.decimals)}"), times[one.recipe, name]
    return f"{shown} ({f'{ms:.2g} ms' if ms >= 0.1 else f'{1e3 * ms:.2g} µs'})"


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
        [first] = Path("datasets", one.released).glob(one.checkpoint or "agents/*-seed0")
        for name, policy in (
            (row["baseline"], row["baseline"]),
            (row["policy"], f"{first}{one.ahead * ahead}"),
        ):
            found.append((one.recipe, name, *milliseconds(one, policy)))
    return found


def milliseconds(one: Fresh, policy: str) -> tuple[int, float]:
    """Return decisions of the timed windows and the CPU milliseconds of one of them.

    The start of an evaluation is that of one window; the shortest of REPEATS counts.
    """
    windows = load_recipe(one.released).windows("train")
    count = min(TIMED if looks_ahead(policy) else TIMED_RULES, len(windows) - 1)
    begin = min(_evaluated(one, policy, windows[:1]) for _ in range(REPEATS + 1))
    end = min(_evaluated(one, policy, windows[: count + 1]) for _ in range(REPEATS))
    decisions = end[1] - begin[1]
    return decisions, 1e3 * (end[0] - begin[0]) / decisions


def _evaluated(one: Fresh, policy: str, windows: Sequence[int]) -> tuple[float, int]:
    """Return CPU seconds and decisions of an evaluation of the windows."""
    played = [*one.settings, f'split.train="{windows[0]}..{windows[-1]}"', "evaluate.seeds=1"]
    with tempfile.TemporaryDirectory() as folder:
        out, begin = Path(folder) / "e", time.process_time()
        hindcast.evaluate(one.released, [policy], out=out, split="train", overrides=played)
        seconds = time.process_time() - begin
        scores = pl.read_parquet(out / "scores.parquet")
    return seconds, int(scores.filter(metric="decisions")["value"].sum())


if __name__ == "__main__":
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["recipe", "policy", "decisions", "ms_per_decision", "provenance"])
    record = provenance()
    sys.stderr.write(json.dumps({key_of(record): record}, indent=2))
    for each in (one for one in FRESH if one.recipe in (sys.argv[1:] or one.recipe)):
        writer.writerows([*row, f"{ms:.4g}", key_of(record)] for *row, ms in measure(each))
