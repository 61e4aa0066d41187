"""Summary as Markdown: the finding, a table per metric, and the data that were left out."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from hindcast.pipeline.errors import printable
from hindcast.pipeline.evaluation.summary.finding import state_finding
from hindcast.pipeline.evaluation.summary.pairing import Setting
from hindcast.pipeline.evaluation.summary.rules import described
from hindcast.pipeline.evaluation.summary.summarise import Summary
from hindcast.pipeline.statistics.numbers import (
    count_of,
    decimals_for,
    decimals_telling,
    with_unit,
    write_interval,
    write_number,
)

# Markdown ignores an underscore inside a word, so names stay readable without an escape.
_SPECIAL = re.compile(r"[\\`*{}\[\]<>|#]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")


def render_markdown(summary: Summary) -> str:
    """Return all rows of a summary as Markdown text.

    Names come from users and are escaped. Numbers are rounded; summary.parquet has all digits.
    """
    lines = ["# Summary", ""]
    for setting in summary.settings:
        evaluation = setting.first
        split = f", {evaluation.split} windows" if evaluation.split else ""
        lines += [f"## {plain_text(setting.label)}", ""]
        lines += [plain_text(state_finding(summary, setting).sentence), ""]
        lines += [f"Recipe {plain_text(evaluation.recipe) or 'unnamed'}{split}.", ""]
        for metric in summary.metrics(setting):
            lines += _metric(summary.rows(setting, metric.name), summary.level)
        lines += _seeds(summary, setting)
        lines += _remarks(summary, setting)
        lines += ["### Rules and agents", ""]
        rules = described(setting.entries.values())
        lines += [f"- {plain_text(name)}: {plain_text(text)}" for name, text in rules.items()]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _metric(table: pl.DataFrame, level: float) -> list[str]:
    rows = table.to_dicts()
    first = rows[0]
    unit = plain_text(with_unit("", first["unit"]))
    unit = f" ({unit})" if unit else ""
    better = "" if first["better"] == "neither" else f", {first['better']} is better"
    decimals = decimals_for(row["mean"] for row in rows)
    once = table.unique("policy", keep="first", maintain_order=True).to_dicts()
    bounded = any(row["bound"] is not None for row in once)
    head = ["policy", "kind", "seeds", "mean", f"{level * 100:g} % interval", "IQM", "median"]
    body = []
    for row in once:
        cells = [plain_text(row["policy"]), row["kind"], str(row["seeds"])]
        cells += [write_number(row["mean"], decimals)]
        cells += [write_interval(row["low"], row["high"], decimals)]
        cells += [write_number(row["iqm"], decimals), write_number(row["median"], decimals)]
        body.append(cells + ([write_number(row["bound_ratio"], 4)] if bounded else []))
    lines = [f"### {plain_text(first['metric'])}{unit}{better}", ""]
    lines += [f"{count_of(first['windows'], 'window')}.", ""]
    if bounded:
        head.append("ratio to bound")
        lines += [f"Mean bound {write_number(once[0]['bound'], decimals)}.", ""]
    lines += text_table(head, body, left=2)
    compared = [row for row in rows if row["paired_difference"] is not None]
    order = list(dict.fromkeys(row["reference"] for row in rows))
    compared.sort(key=lambda row: order.index(row["reference"]))
    if compared:
        lines += _compared(compared, level, decimals)
    return lines


def _compared(rows: Sequence[Mapping[str, Any]], level: float, decimals: int) -> list[str]:
    largest = max(abs(row["paired_difference"]) for row in rows)
    decimals = min(decimals_telling([largest], decimals) + 1, 8) if largest < 1 else decimals
    head = ["policy", "reference", "policy - reference", f"{level * 100:g} % interval"]
    head += ["wins", "ties", "losses", "chance of improvement"]
    body = [
        [
            plain_text(row["policy"]),
            plain_text(row["reference"]),
            write_number(row["paired_difference"], decimals, signed=True),
            write_interval(row["paired_low"], row["paired_high"], decimals, signed=True),
            *(_count(row[name]) for name in ("wins", "ties", "losses")),
            write_number(row["probability_of_improvement"], 3),
        ]
        for row in rows
    ]
    return text_table(head, body, left=2)


def _seeds(summary: Summary, setting: Setting) -> list[str]:
    rows = summary.seed_rows(setting)
    if not rows:
        return []
    decimals = decimals_for(row["mean"] for row in rows)
    head = ["policy", "seed", "mean", f"{summary.level * 100:g} % interval", "IQM"]
    body = [
        [
            plain_text(row["policy"]),
            plain_text(row["run"]),
            write_number(row["mean"], decimals),
            write_interval(row["low"], row["high"], decimals),
            write_number(row["iqm"], decimals),
        ]
        for row in rows
    ]
    return [
        f"### Seeds one by one: {plain_text(setting.first.headline)}",
        "",
        *text_table(head, body, 2),
    ]


def _remarks(summary: Summary, setting: Setting) -> list[str]:
    notes = dict.fromkeys(note for e in setting.evaluations for note in e.notes)
    remarks = [*summary.left_out[setting.label], *notes]
    if not remarks:
        return []
    return [
        "### Data left out, and notes",
        "",
        *(f"- {plain_text(remark)}" for remark in remarks),
        "",
    ]


def text_table(head: Sequence[str], body: Iterable[Sequence[str]], left: int) -> list[str]:
    """Return a Markdown table; its first `left` columns are text, the others are numbers."""
    rules = ["---" if i < left else "---:" for i in range(len(head))]
    return [*(f"| {' | '.join(cells)} |" for cells in (head, rules, *body)), ""]


def _count(number: int | None) -> str:
    return "n/a" if number is None else str(number)


def plain_text(text: str) -> str:
    """Return text with the characters escaped that Markdown or a terminal would obey."""
    return _SPECIAL.sub(r"\\\g<0>", printable(" ".join(text.split())))
