"""The tables of the results page: deliveries, and selected rows of the committed tables."""

import csv
from collections.abc import Mapping, Sequence
from typing import Final

from docs.generate.delivered import delivered_table, selected_table
from docs.generate.families import kind, marked, mde
from docs.generate.fresh import equal_time_table, fresh_table
from docs.generate.looking_ahead import looking_ahead_table
from docs.generate.results import FOLDER
from docs.generate.text import code, prose, table
from docs.generate.unlearned import COLUMN, NOTE, best_cell
from hindcast.pipeline.pages.numbers import write_number

# (recipe, metric, decimals, the agent that validation windows selected, rules beside it)
OFFLINE: Final = (
    ("binpack-alibaba2017-v1", "makespan_s", 1, "trajectory_preference", ("longest_spread",)),
    ("thermal-default-v1", "level_per_step", 3, "advantage_regression",
     ("window_greedy", "window_short")),
    ("deferrable-base-v1", "total_reward", 1, "advantage_cloning",
     ("knapsack", "knapsack_patient")),
    ("multicluster-uniform-v1", "eval_cost", 2, "advantage_cloning",
     ("most_free_now", "urgent_first")),
    ("slots-deeprm-v1", "mean_slowdown", 3, "advantage_cloning", ("hold_8", "hold_5")),
    ("slots-deeprm-rate10-v1", "mean_slowdown", 3, "preference_ensemble-best", ("hold_5",)),
    ("slots-deeprm-rate10-backfill-v1", "mean_slowdown", 3, "preference_ensemble-delivered",
     ("hold_5",)),
    ("slots-stream-v1", "mean_slowdown", 3, "advantage_cloning", ("no_short_visible",)),
)  # fmt: skip
ONLINE: Final = (
    ("binpack-deepjs", "makespan_s", 1, "reinforce", ("longest_spread", "first_fit")),
    ("binpack-again-online", "makespan_s", 1, "evolution-delivered",
     ("longest_spread", "longest_first")),
    ("binpack-rollout-again-online", "makespan_s", 1, "evolution-delivered@rollout",
     ("longest_spread", "longest_first", "rollout")),
    ("slots-backfill-online", "mean_slowdown", 3, "counterfactual-delivered",
     ("hold_8_backfill", "hold_8")),
    ("slots-rate10-again-online", "mean_slowdown", 3, "counterfactual-delivered", ("hold_5",)),
    ("slots-deeprm-rate04-online", "mean_slowdown", 3, "reinforce-best", ("hold_8", "sjf_now")),
    ("slots-deeprm-rate05-online", "mean_slowdown", 3, "reinforce-best", ("hold_8", "sjf_now")),
    ("slots-deeprm-rate06-online", "mean_slowdown", 3, "reinforce-best", ("hold_8", "sjf_now")),
    ("slots-deeprm-rate07-online", "mean_slowdown", 3, "reinforce-best", ("hold_8", "sjf_now")),
    ("slots-deeprm-image-online", "mean_slowdown", 3, "reinforce-best", ("hold_8", "sjf_now")),
    ("slots-deeprm-alone-online", "mean_slowdown", 3, "reinforce-best", ("hold_8", "sjf_now")),
    ("slots-deeprm-natural", "mean_slowdown", 3, "natural_gradient-best", ("hold_8",)),
    ("slots-stream-online", "mean_slowdown", 3, "counterfactual-best",
     ("no_short_visible", "backfill")),
    ("thermal-again-online", "level_per_step", 3, "ppo-delivered", ("window_short",)),
    ("deferrable-again-online", "total_reward", 1, "price_evolution-delivered",
     ("knapsack", "knapsack_patient")),
    ("deferrable-osdec-both-online", "total_reward", 1, "score_ppo-best", ("fifo", "knapsack")),
    ("multicluster-foresight-again-online", "eval_cost", 3, "evolution-delivered",
     ("urgent_shortest", "urgent_first")),
    ("multicluster-foresight-bernoulli-again-online", "eval_cost", 3, "evolution-delivered",
     ("urgent_shortest", "urgent_first")),
    ("multicluster-foresight-beta-again-online", "eval_cost", 3, "evolution-delivered",
     ("urgent_shortest", "urgent_first")),
    ("multicluster-foresight-eased-again-online", "eval_cost", 3, "evolution-delivered",
     ("urgent_shortest", "urgent_first")),
    ("multicluster-foresight-stressed-again-online", "eval_cost", 3, "evolution-delivered",
     ("urgent_shortest", "urgent_first")),
    ("multicluster-evolution-online", "tmdl", 1, "evolution-best",
     ("most_free_now", "urgent_first")),
    ("multicluster-evolution-online", "ajdr_percent", 2, "evolution-best",
     ("most_free_now", "urgent_first")),
    ("multicluster-evolution-bernoulli-online", "tmdl", 1, "evolution-best",
     ("most_free_now", "urgent_first")),
    ("multicluster-evolution-beta-online", "tmdl", 1, "evolution-best",
     ("most_free_now", "urgent_first")),
    ("multicluster-liu-step01-online", "tmdl", 1, "monte_carlo_value-best",
     ("sf_e", "most_free_now")),
    ("multicluster-liu-bernoulli-online", "tmdl", 1, "monte_carlo_value-best",
     ("sf_e", "most_free_now")),
    ("multicluster-liu-beta-online", "tmdl", 1, "monte_carlo_value-best",
     ("sf_e", "most_free_now")),
)  # fmt: skip

Row = tuple[str, str, int, str, tuple[str, ...]]


def headline_pages() -> Mapping[str, str]:
    """Return the parts of the page: deliveries, selected checkpoints, and headlines."""
    return {
        "parts/fresh.md": fresh_table(),
        "parts/fresh-equal.md": equal_time_table(),
        "parts/deliveries.md": delivered_table(),
        "parts/looking-ahead.md": looking_ahead_table(),
        "parts/selected.md": selected_table(),
        "parts/headlines-offline.md": _headlines("offline.csv", OFFLINE),
        "parts/headlines-online.md": _headlines("online.csv", ONLINE),
    }


def _headlines(name: str, chosen: Sequence[Row]) -> str:
    with (FOLDER / name).open(newline="", encoding="utf-8") as file:
        found = {
            (r["recipe"], r["metric"], r["policy"], r["baseline"]): r for r in csv.DictReader(file)
        }
    pairs = [(one, rule) for one in chosen for rule in one[-1]]
    compared = [
        found[recipe, metric, policy, rule] for (recipe, metric, _, policy, _), rule in pairs
    ]
    cells = marked(compared, [one[2] for one, _ in pairs])
    rows = []
    for (one, rule), row, cell in zip(pairs, compared, cells, strict=True):
        recipe, metric, decimals, policy, rules = one
        mean = _mean_of(found, recipe, metric, rule)
        first = rule == rules[0]
        rows.append([
            code(recipe) if first else "", code(metric) if first else "",
            prose(f"{policy} {write_number(float(row['mean']), decimals)}") if first else "",
            best_cell(row, decimals) if first else "",
            prose(f"{rule} {write_number(mean, decimals)}"),
            cell, mde(row, decimals), f"{row['wins']} / {row['ties']} / {row['losses']}",
        ])  # fmt: skip
    head = [
        "recipe",
        "metric",
        "agent, mean",
        COLUMN,
        "rule, mean",
        "difference from the rule",
        "MDE",
    ]
    return f"{table([*head, 'wins / ties / losses'], rows)}\n{kind(compared)}\n\n{NOTE}\n"


def _mean_of(
    found: Mapping[tuple[str, str, str, str], Mapping[str, str]],
    recipe: str, metric: str, policy: str,
) -> float:  # fmt: skip
    """Return the mean of a policy, which stands in every row of that policy."""
    return float(next(r["mean"] for k, r in found.items() if k[:3] == (recipe, metric, policy)))
