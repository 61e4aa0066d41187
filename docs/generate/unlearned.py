"""The best policy without learning on the windows of a row, rules that look ahead included.

    python -m docs.generate.unlearned > docs/results/rule_times.csv

measures the times of RULES as `docs.generate.fresh` does; the table of fresh windows has others. A
time is that of one recipe of the scenario.
"""

import csv
import json
import sys
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from docs.generate.anchors import played_windows, scored_policies
from docs.generate.results import COMMANDS, FOLDER, FRESH_TIMES, RULE_TIMES
from docs.generate.text import prose
from hindcast.pipeline.pages.numbers import write_number
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.shipped import known_recipes

COLUMN: Final = "best without learning"
NOTE: Final = (
    f"*{COLUMN[0].upper()}{COLUMN[1:]}* is the best of all policies without learning that the "
    "committed tables have on these windows, with its CPU time per decision on one recipe of the "
    "scenario; a dagger says that no rule that looks ahead was scored on them. Differences, bold "
    "and stars are against the rule beside them, not against this policy where it is another one."
)
# (recipe, policy), the slowest last
RULES: Final = (
    ("slots-online", "hold_8"), ("slots-online", "hold_8_backfill"),
    ("slots-stream-online", "backfill"), ("multicluster-online", "urgent_first"),
    ("multicluster-online", "least_slack"), ("queue-kth-v1", "aged_expected_easy"),
    ("queue-kth-v1", "wsept_easy"), ("queue-kth-v1", "similar_area_easy"),
    ("slots-online", "hold_8@rollout"), ("queue-kth-v1", "aged_expected_easy@rollout"),
)  # fmt: skip


class Best(NamedTuple):
    """The best policy without learning on some windows, and whether one looked ahead there."""

    policy: str
    mean: float
    ahead: bool


def best_of(row: Mapping[str, str]) -> Best | None:
    """Return the best policy on the windows and the metric of a row; None if they are unknown."""
    windows, _ = played_windows(_commands()[row["command"]])
    found = _scored().get((windows, row["metric"]), {})
    if not windows or not found:
        return None
    pick = max if row["higher_is_better"] == "true" else min
    best = pick(found, key=lambda name: found[name])
    return Best(best, found[best], any("rollout" in name or "@" in name for name in found))


def is_below_best(row: Mapping[str, str]) -> bool:
    """Return whether the mean of a row's policy is worse than that of the best one."""
    best = best_of(row)
    if best is None:
        return False
    behind = best.mean - float(row["mean"])
    return behind > 0.0 if row["higher_is_better"] == "true" else behind < 0.0


def best_cell(row: Mapping[str, str], decimals: int) -> str:
    """Return the policy with its mean and its time per decision."""
    best = best_of(row)
    if best is None:
        return "not known"
    ms = _times().get((row["scenario"], best.policy))
    took = "time not measured"
    if ms is not None:
        took = f"{ms:.2g} ms" if ms >= 0.1 else f"{1e3 * ms:.2g} µs"
    dagger = "" if best.ahead else " †"
    return f"{prose(f'{best.policy} {write_number(best.mean, decimals)}')} ({took}){dagger}"


@cache
def _scored() -> Mapping[tuple[str, str], Mapping[str, float]]:
    """Return the means of all policies without learning, by windows and metric."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for windows, one in scored_policies():
        found.setdefault((windows, one.metric), {})[one.policy] = one.mean
    return found


@cache
def _commands() -> Mapping[str, str]:
    commands: dict[str, str] = json.loads((FOLDER / COMMANDS).read_text(encoding="utf-8"))
    return commands


@cache
def _times() -> Mapping[tuple[str, str], float]:
    """Return milliseconds per decision by scenario and policy."""
    known, found = known_recipes(), dict[tuple[str, str], float]()
    for name in (RULE_TIMES, FRESH_TIMES):
        with (FOLDER / name).open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                recipe = row["recipe"]
                scenario = (
                    load_recipe(recipe).scenario if recipe in known else recipe.partition("-")[0]
                )
                found.setdefault((scenario, row["policy"]), float(row["ms_per_decision"]))
    return found


if __name__ == "__main__":
    from docs.generate.fresh import Fresh, milliseconds
    from hindcast.pipeline.storage.provenance import key_of, provenance

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["recipe", "policy", "decisions", "ms_per_decision", "provenance"])
    record = provenance()
    sys.stderr.write(json.dumps({key_of(record): record}, indent=2))
    for recipe, policy in RULES:
        count, ms = milliseconds(Fresh("", "", 0, "", recipe, ""), policy)
        writer.writerow([recipe, policy, count, f"{ms:.4g}", key_of(record)])
        sys.stdout.flush()
