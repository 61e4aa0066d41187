"""Summary as Markdown: the finding, a table per metric, and the data that were left out."""

from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.evaluation.summary.cautions import cautions
from hindcast.pipeline.evaluation.summary.finding import state_finding
from hindcast.pipeline.evaluation.summary.pairing import Setting
from hindcast.pipeline.evaluation.summary.rules import described
from hindcast.pipeline.evaluation.summary.summarise import Summary
from hindcast.pipeline.pages.numbers import decimals_for, decimals_telling, with_unit
from hindcast.pipeline.pages.templates import render

_TEMPLATE: Final = Path(__file__).with_name("summary.md.jinja")


def render_markdown(summary: Summary) -> str:
    """Return all rows of a summary as Markdown text.

    Names come from users and are escaped. Numbers are rounded; summary.parquet has all digits.
    """
    settings = [_setting(summary, setting) for setting in summary.settings]
    return render(_TEMPLATE, settings=settings, level=f"{summary.level * 100:g} %").rstrip() + "\n"


def _setting(summary: Summary, setting: Setting) -> dict[str, Any]:
    seeds, rules = summary.seed_rows(setting), described(setting.entries.values())
    notes = [note for evaluation in setting.evaluations for note in evaluation.notes]
    return {
        "label": setting.label,
        "cautions": [c.text for c in cautions(setting.entries.values(), setting.scores)],
        "finding": state_finding(summary, setting).sentence,
        "recipe": setting.first.recipe,
        "split": setting.first.split,
        "headline": setting.first.headline,
        "metrics": [_metric(summary.rows(setting, m.name)) for m in summary.metrics(setting)],
        "seeds": seeds,
        "decimals": decimals_for(row["mean"] for row in seeds),
        "remarks": [*summary.left_out[setting.label], *dict.fromkeys(notes)],
        "rules": rules,
    }


def _metric(table: pl.DataFrame) -> dict[str, Any]:
    rows = table.to_dicts()
    decimals = decimals_for(row["mean"] for row in rows)
    once = table.unique("policy", keep="first", maintain_order=True).to_dicts()
    order = list(dict.fromkeys(row["reference"] for row in rows))
    compared = [row for row in rows if row["paired_difference"] is not None]
    compared.sort(key=lambda row: order.index(row["reference"]))
    largest = max((abs(row["paired_difference"]) for row in compared), default=1.0)
    finer = min(decimals_telling([largest], decimals) + 1, 8) if largest < 1 else decimals
    return {
        "policies": once,
        "decimals": decimals,
        "unit": with_unit("", rows[0]["unit"]).strip(),
        "bounded": any(row["bound"] is not None for row in once),
        "compared": compared,
        "finer": finer,
    }
