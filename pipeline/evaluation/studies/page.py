"""Table of a study as CSV, and the Markdown page made from that CSV alone."""

from io import BytesIO
from typing import Any

import polars as pl

from hindcast.pipeline.evaluation.studies.study import COLUMNS
from hindcast.pipeline.evaluation.summary.results import commands, read_csv
from hindcast.pipeline.pages.markdown import plain_text, text_table
from hindcast.pipeline.pages.numbers import decimals_for, write_estimate

INTRODUCTION = {
    "level": "The level of the logged behaviours varies.",
    "windows": "The number of windows that were logged for training varies.",
    "epsilon": "The probability with which every behaviour chose uniformly varies.",
}


_READING = (
    "The same agents are trained on different logs of one problem and scored on the same test "
    "windows, to show how much the log matters. A column is one log. `behaviour` is the log "
    "itself, played on the test windows; rules do not depend on the log."
)


def study_csv(table: pl.DataFrame) -> bytes:
    """Return the table as CSV, numbers with six significant digits."""
    numbers = pl.col("mean", "low", "high").round_sig_figs(6)
    buffer = BytesIO()
    table.with_columns(numbers).write_csv(buffer)
    return buffer.getvalue()


def study_markdown(content: bytes, where: str) -> str:
    """Return the page of a study's CSV: one table per varied setting, policies by points."""
    table = read_csv(content, where, COLUMNS)
    lines = ["# Data quality", "", _READING, ""]
    lines += [f"This page is made from {where} alone.", ""]
    for (recipe, vary), part in table.group_by("recipe", "vary", maintain_order=True):
        first = part.row(0, named=True)
        side = "higher" if first["higher_is_better"] else "lower"
        lines += [f"## {plain_text(str(recipe))}: {vary}", "", _best(part), ""]
        what = f"{plain_text(first['metric'])} over {first['windows']:,} test windows"
        shown = ", with 95 % intervals" if part["low"].count() else ""
        means = f"Cells are means of {what}{shown}; {side} is better."
        lines += [f"{INTRODUCTION.get(str(vary), '')} {means}", ""]
        lines += [*commands(part), *study_table(part)]
    return "\n".join(lines).rstrip() + "\n"


def _best(part: pl.DataFrame) -> str:
    """Return the learned policy with the best mean, and the best rule beside it, as a sentence."""
    decimals = decimals_for(part["mean"].to_list())
    ordered = part.sort("mean", descending=part["higher_is_better"][0], maintain_order=True)
    found = []
    for kinds, who in (
        (["learned"], "Best learned policy"),
        (["heuristic", "random"], "best rule"),
    ):
        for row in ordered.filter(pl.col("kind").is_in(kinds)).head(1).iter_rows(named=True):
            at = f" at {row['vary']} {plain_text(row['value'])}" if row["kind"] == "learned" else ""
            found.append(f"{who}: {plain_text(row['policy'])}{at}, {_cell(row, decimals)}")
    return "; ".join(found) + "."


def study_table(part: pl.DataFrame) -> list[str]:
    """Return one study as a Markdown table: a row per policy, a column per point."""
    values, names, cells = by_point(part)
    decimals = decimals_for(part["mean"].to_list())
    counts = dict(part.select("value", "train_decisions").iter_rows())
    body = [["train decisions", "", *(f"{counts[v]:,}" for v in values)]]
    for name in names:
        row = next(cells[name, v] for v in values if (name, v) in cells)
        shown = [_cell(cells.get((name, value)), decimals) for value in values]
        body.append([plain_text(name), str(row["seeds"]), *shown])
    return text_table(["policy", "seeds", *map(plain_text, values)], body, left=1)


def by_point(
    part: pl.DataFrame,
) -> tuple[list[str], list[str], dict[tuple[str, str], dict[str, Any]]]:
    """Return values in order, policies (learned first), and rows by (policy, value)."""
    values = list(dict.fromkeys(part["value"]))
    order = sorted(dict(part.select("policy", "kind").iter_rows()).items(), key=_learned_first)
    cells = {(row["policy"], row["value"]): row for row in part.iter_rows(named=True)}
    return values, [name for name, _ in order], cells


def _learned_first(entry: tuple[str, str]) -> tuple[int, str]:
    name, kind = entry
    return ("learned", "mixture").index(kind) if kind in {"learned", "mixture"} else 2, name


def _cell(row: dict[str, Any] | None, decimals: int) -> str:
    if row is None:
        return "n/a"
    return write_estimate(row["mean"], row["low"], row["high"], decimals)
