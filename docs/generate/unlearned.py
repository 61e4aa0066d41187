"""The best policy without learning on the windows of a row, rules that look ahead included.

    python -m docs.generate.unlearned >> docs/results/rule_times.csv

measures the times of those RULES that no committed table has, as `docs.generate.fresh` does; with
`>` in place of `>>`, the table is made anew. A time is that of one recipe of the scenario.
"""

import csv
import json
import sys
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from docs.generate.anchors import played_windows, scored
from docs.generate.results import COMMANDS, FOLDER, FRESH_TIMES, RULE_TIMES
from docs.generate.text import prose
from hindcast.pipeline.pages.numbers import write_number
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.shipped import known_recipes
from hindcast.pipeline.scenarios import load_scenario

COLUMN: Final = "best without learning"
NOTE: Final = (
    f"*{COLUMN[0].upper()}{COLUMN[1:]}* is the best of the policies without learning that "
    "`offline.csv`, `online.csv`, `looking_ahead.csv` and `queue_rules.csv` have on these windows, "
    "rules that look ahead included, without those that know run times; with its CPU time per "
    "decision on one recipe of the scenario. *Cannot look ahead* says that none can: the "
    "simulator of the problem offers no copy of an episode, without its future or with a drawn "
    "one, in which a rule could try a choice. Differences, bold and stars are against the rule "
    "beside them, not against this policy where it is another one."
)
# (recipe, policy): what can be the best of a row, beside policies of the table of fresh windows
RULES: Final = (
    ("slots-online", "hold_8"), ("slots-online", "hold_8_backfill"),
    ("slots-stream-online", "backfill"), ("multicluster-online", "urgent_first"),
    ("multicluster-online", "least_slack"), ("queue-kth-v1", "aged_expected_easy"),
    ("queue-kth-v1", "wsept_easy"), ("queue-kth-v1", "similar_area_easy"),
    ("slots-online", "hold_8@rollout"), ("queue-kth-v1", "aged_expected_easy@rollout"),
    ("slots-online", "random"), ("multicluster-online", "random"), ("binpack-online", "random"),
    ("thermal-online", "random"), ("deferrable-online", "random"), ("queue-kth-v1", "random"),
    ("queue-kth-v1", "aged_similar_easy"), ("queue-kth-v1", "aged_expected_conservative"),
    ("queue-kth-v1", "wsept_conservative"), ("slots-stream-online", "backfill@rollout"),
    ("multicluster-online", "least_slack@rollout"),
    ("queue-kth-v1", "wsept_easy@rollout"), ("queue-kth-v1", "similar_area_easy@rollout"),
    ("slots-online", "hold_8_backfill@rollout"), ("slots-online", "hold_5_backfill@rollout"),
)  # fmt: skip


class Best(NamedTuple):
    """The best policy without learning on some windows.

    Attributes:
        policy: Its name.
        mean: Its mean.
        ahead: Whether a policy that looks ahead was scored on the windows; None if the simulator of
            the problem lets none look ahead.
    """

    policy: str
    mean: float
    ahead: bool | None


def best_of(row: Mapping[str, str], *, here: bool = False) -> Best | None:
    """Return the best policy on the windows and the metric of a row; None if they are unknown.

    With `here`, it is the best of those that do not look ahead.
    """
    windows, _ = played_windows(_commands()[row["command"]])
    found = scored().get((windows, row["metric"]), {})
    if not windows or not found:
        return None
    pick = max if row["higher_is_better"] == "true" else min
    looking = {name for name in found if "rollout" in name or "@" in name}
    best = pick(found.keys() - looking if here else found, key=lambda name: found[name])
    ahead = bool(looking)
    able = ahead or load_scenario(row["scenario"]).can_look_ahead
    return Best(best, found[best], ahead if able else None)


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
    ms = times().get((row["scenario"], best.policy))
    took = "time not measured"
    if ms is not None:
        took = f"{ms:.2g} ms" if ms >= 0.1 else f"{1e3 * ms:.2g} µs"
    mark = ", cannot look ahead" if best.ahead is None else ""
    return f"{prose(f'{best.policy} {write_number(best.mean, decimals)}')} ({took}){mark}"


@cache
def _commands() -> Mapping[str, str]:
    commands: dict[str, str] = json.loads((FOLDER / COMMANDS).read_text(encoding="utf-8"))
    return commands


@cache
def times() -> Mapping[tuple[str, str], float]:
    """Return milliseconds per decision by scenario and policy."""
    found = dict[tuple[str, str], float]()
    for name in (RULE_TIMES, FRESH_TIMES):
        with (FOLDER / name).open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                key = scenario_of(row["recipe"]), row["policy"]
                found.setdefault(key, float(row["ms_per_decision"]))
    return found


def scenario_of(recipe: str) -> str:
    """Return the scenario of a recipe, which may be one that results alone name."""
    known = recipe in known_recipes()
    return load_recipe(recipe).scenario if known else recipe.partition("-")[0]


if __name__ == "__main__":
    from docs.generate.fresh import Fresh, milliseconds
    from hindcast.pipeline.storage.provenance import key_of, provenance

    writer = csv.writer(sys.stdout, lineterminator="\n")
    if not (FOLDER / RULE_TIMES).read_bytes():  # the shell has emptied it
        writer.writerow(["recipe", "policy", "decisions", "ms_per_decision", "provenance"])
    record = provenance()
    sys.stderr.write(json.dumps({key_of(record): record}, indent=2))
    for recipe, policy in RULES:
        if (scenario_of(recipe), policy) in times():
            continue
        count, ms = milliseconds(Fresh("", "", 0, "", recipe, ""), policy)
        writer.writerow([recipe, policy, count, f"{ms:.4g}", key_of(record)])
        sys.stdout.flush()
