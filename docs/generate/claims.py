"""The table of claims: rows of deliveries that README speaks of, with p-values and tables."""

from collections.abc import Mapping, Sequence
from typing import Final

from docs.generate.delivered import DELIVERIES, TABLES, row_of
from docs.generate.families import adjusted, kind, marked, mde
from docs.generate.text import prose, table
from docs.generate.unlearned import COLUMN, NOTE, best_cell
from hindcast.pipeline.pages.numbers import write_number, write_p_value

NAMED: Final = (("`slots`, rate 1.0", "play"), ("`multicluster`", "play"), ("`binpack`", "play"))


def claim_pages() -> Mapping[str, str]:
    """Return the parts of docs/claims.md: the claimed gains, and the rows without a gain."""
    none = [
        (one.problem, one.source) for one in DELIVERIES
        if "queue" in one.problem or "stream" in one.problem
        or (one.problem, one.source) == ("`thermal`", "log")
    ]  # fmt: skip
    return {"parts/claims-gains.md": _table(NAMED), "parts/claims-none.md": _table(none)}


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
