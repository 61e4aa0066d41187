"""The tables of claims: rows of deliveries that README speaks of, with p-values and tables.

A further table has agents that do not look ahead beside the best rule that does.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from docs.generate.delivered import DELIVERIES, TABLES, baseline_mean, row_of, rows_of_recipe
from docs.generate.families import adjusted, kind, marked, mde, verdicts
from docs.generate.fresh import FRESH, SECOND, looks_ahead
from docs.generate.text import prose, table
from docs.generate.unlearned import COLUMN, NOTE, best_cell
from hindcast.pipeline.pages.numbers import write_number, write_p_value

NAMED: Final = (("`slots`, rate 1.0", "play"), ("`multicluster`", "play"), ("`binpack`", "play"))
# (problem, decimals, table, recipe, agent): rows on test windows; the others are those of FRESH
_BESIDE: Final = (
    ("`slots`, rate .7", 3, "online.csv", "slots-rollout-again-online", "counterfactual-delivered"),
    ("`slots`, rate 1.0", 3, "online.csv", "slots-rollout-rate10-again-online",
     "counterfactual-delivered"),
    ("`multicluster`", 3, "looking_ahead.csv", "multicluster-lookahead-online",
     "evolution-delivered"),
)  # fmt: skip


def claim_pages() -> Mapping[str, str]:
    """Return the parts of docs/claims.md: gains, rules that look ahead, and rows without a gain."""
    none = [
        (one.problem, one.source) for one in DELIVERIES
        if "queue" in one.problem or "stream" in one.problem
        or (one.problem, one.source) == ("`thermal`", "log")
    ]  # fmt: skip
    return {
        "parts/claims-gains.md": _table(NAMED), "parts/claims-none.md": _table(none),
        "parts/claims-ahead.md": _ahead_table(),
    }  # fmt: skip


def _table(chosen: Sequence[tuple[str, str]]) -> str:
    """Return the rows of the chosen deliveries; p-values are adjusted over all of them."""
    every = [row_of(one) for one in DELIVERIES]
    columns = zip(
        DELIVERIES, every, marked(every, [one.decimals for one in DELIVERIES]),
        adjusted(every), strict=True,
    )  # fmt: skip
    rows = []
    for one, row, difference, p in columns:
        if (one.problem, one.source) not in chosen:
            continue
        folder = TABLES[one.source].removesuffix(".csv")
        rule = float(row["mean"]) - float(row["paired_difference"])
        digits = one.decimals
        rows.append([
            f"{one.problem}, from {one.source}",
            f"[{one.recipe}](../results/{folder}/{one.recipe}.md)",
            f"{row['windows']} x {row['seeds']}", write_number(float(row["mean"]), digits),
            prose(f"{row['baseline']} {write_number(rule, digits)}"), difference,
            write_p_value(p), mde(row, digits), best_cell(row, digits),
        ])  # fmt: skip
    head = ["problem", "table and command", "windows x seeds", "delivered", "strongest rule",
            "difference from the rule", "p, Holm", "MDE", COLUMN]  # fmt: skip
    return f"{table(head, rows)}\n{kind(every)}\n\n{NOTE}\n"


def beside_rules_ahead() -> list[tuple[str, int, str, Mapping[str, str]]]:
    """Return rows of agents that do not look ahead against the best rule that does.

    Each has its problem, its decimals, and what its windows are.
    """
    named = [(*one, "test") for one in _BESIDE]
    for one in FRESH:
        windows = "test" if one.reused else SECOND if one.second else "first draw"
        source = "online.csv" if one.reused else "fresh.csv"
        named.append((one.problem, one.decimals, source, one.recipe, one.agent, windows))
    found = []
    for problem, decimals, source, recipe, agent, windows in named:
        own = [row for row in rows_of_recipe(source, recipe)
               if row["policy"] == agent and looks_ahead(row["baseline"])]  # fmt: skip
        if own:  # some simulators let no rule look ahead
            found.append((problem, decimals, windows, max(own, key=baseline_mean)))
    return found


def _ahead_table() -> str:
    """Return these rows as one family of comparisons, and a sentence of what they show."""
    found = beside_rules_ahead()
    rows = [row for *_, row in found]
    digits = [decimals for _, decimals, *_ in found]
    sides: dict[int, list[str]] = {1: [], 0: [], -1: []}
    lines = []
    columns = zip(found, marked(rows, digits), verdicts(rows), strict=True)
    for (problem, decimals, windows, row), cell, side in columns:
        rule = float(row["mean"]) - float(row["paired_difference"])
        sides[int(side)].append(f"{problem} ({windows})")
        lines.append([
            problem, f"{row['windows']} x {row['seeds']}, {windows}", prose(row["policy"]),
            write_number(float(row["mean"]), decimals),
            prose(f"{row['baseline']} {write_number(rule, decimals)}"), cell, mde(row, decimals),
        ])  # fmt: skip
    words = [f"{word} on {', '.join(sides[side]) or 'none'}"
             for side, word in ((1, "better"), (-1, "worse"), (0, "neither is shown"))]  # fmt: skip
    head = ["problem", "windows x seeds", "agent", "mean", "best rule that looks ahead",
            "difference", "MDE"]  # fmt: skip
    said = f"After Holm's adjustment over these rows, agents are {'; '.join(words)}."
    return f"{table(head, lines)}\n{said}\n"
