"""A study's table as CSV, and the Markdown page that is made of that CSV alone."""

from io import BytesIO
from typing import Any

import polars as pl

from pipeline.evaluation.summary.markdown import plain_text, text_table
from pipeline.evaluation.summary.results import commands, read_csv
from pipeline.statistics.numbers import decimals_for, write_estimate
from pipeline.studies.study import COLUMNS

INTRODUCTION = {
    "level": "Level of the behaviours that were logged.",
    "windows": "Number of windows that were logged for training, the first ones.",
    "epsilon": "How often every behaviour chose uniformly.",
}


def study_csv(table: pl.DataFrame) -> bytes:
    """The table as CSV, numbers with six significant digits."""
    numbers = pl.col("mean", "low", "high").round_sig_figs(6)
    buffer = BytesIO()
    table.with_columns(numbers).write_csv(buffer)
    return buffer.getvalue()


def study_markdown(content: bytes, where: str) -> str:
    """The page of a study's CSV: per varied thing one table, policies by points."""
    table = read_csv(content, where, COLUMNS)
    lines = ["# Data quality", "", f"Made of {where} alone.", ""]
    for (recipe, vary), part in table.group_by("recipe", "vary", maintain_order=True):
        first = part.row(0, named=True)
        side = "higher" if first["higher_is_better"] else "lower"
        lines += [f"## {plain_text(str(recipe))}: {vary}", ""]
        lines += [
            (
                f"{INTRODUCTION.get(str(vary), '')} Mean {plain_text(first['metric'])} on the same "
                f"{first['windows']:,} test windows with its 95 % interval; {side} is better."
            ),
            "",
        ]
        lines += [*commands(part), *study_table(part)]
    return "\n".join(lines).rstrip() + "\n"


def study_table(part: pl.DataFrame) -> list[str]:
    """One study as a Markdown table: a row per policy, a column per point."""
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
    """Values in order, policies (learned first), and rows by policy and value."""
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
