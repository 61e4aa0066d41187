"""Results as one flat table: every policy against every baseline, on the headline metric.

    results.csv      one row per setting, metric, policy and baseline (COLUMNS)
    results.md       a page made from results.csv alone
    provenance.json  records of where the rows were computed, by the keys in the column `provenance`

A baseline is a policy that was not learned: a rule, `random`, or `behaviour`, which is the log
itself. The paired difference is policy - baseline on the same windows; wins are windows on which
the policy is better. The table has other metrics only if they were requested
(`hindcast report --metrics`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.errors import DatasetError, unknown_name
from hindcast.pipeline.evaluation.summary.evaluations import NO_BASELINE
from hindcast.pipeline.evaluation.summary.pairing import Pairing, Setting
from hindcast.pipeline.evaluation.summary.summarise import Rows, Summary
from hindcast.pipeline.pages.markdown import plain_text
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.pages.templates import render
from hindcast.pipeline.statistics.intervals import (
    difference_cells,
    estimate,
    tie_tolerance,
    win_tie_loss,
)
from hindcast.pipeline.storage.provenance import NOT_RECORDED

_TEMPLATE: Final = Path(__file__).with_name("results.md.jinja")
_DIGITS: Final = 6  # significant digits of a number in results.csv
DEGREES: Final = "degrees"
_NUMBERS: Final = (
    "mean", "low", "high", "paired_difference", "paired_low", "paired_high", DEGREES,
)  # fmt: skip
_STRONGEST: Final = 3  # baselines on a page; the table has all of them
_ALWAYS: Final = ("random", "behaviour")
EARLIER: Final = (
    "percentile bootstrap intervals of an earlier version, which hold the truth less often: 81 to "
    "96 % of simulated ones did"
)
_READING: Final = (
    "Policies are listed by mean, best first. A difference is policy - baseline, paired over the "
    "same test windows, with its 95 % interval; it is bold where the policy is better and the "
    "interval excludes zero. Wins, ties and losses count windows. The best policy is picked on the "
    "windows that it is judged by, which favours it. The tables show the strongest baselines, "
    "`random` and the log itself (`behaviour`); the CSV file has every baseline."
)
_WINS: Final = ("wins", "ties", "losses")
_COUNTS: Final = ("seeds", "windows", *_WINS)
PROVENANCE_COLUMN: Final = "provenance"
COLUMNS: Final = (
    "scenario", "recipe", "metric", "higher_is_better", "policy", "baseline", "seeds", "windows",
    "mean", "low", "high", "paired_difference", "paired_low", "paired_high", DEGREES,
    *_WINS, PROVENANCE_COLUMN, "command",
)  # fmt: skip
_SCHEMA: Final = pl.Schema(
    {
        name: pl.Int64() if name in _COUNTS
        else pl.Float64() if name in _NUMBERS
        else pl.Boolean() if name == "higher_is_better"
        else pl.String()
        for name in COLUMNS
    }
)  # fmt: skip


def results(summary: Summary, *, metrics: Sequence[str] = ()) -> pl.DataFrame:
    """Return the rows of all settings of a summary.

    The headline comes first, then the metrics of `metrics` that a setting has. A metric without a
    better direction has no rows. Raises UnknownName for a metric that no setting has.
    """
    known = {name for of in summary.settings for name in of.setting.pairings}
    for metric in metrics:
        if metric not in known:
            raise unknown_name("metric", metric, known)
    rows: Rows = []
    for of in summary.settings:
        for metric in dict.fromkeys([of.setting.first.headline, *metrics]):
            if metric in of.rows:
                rows += _rows(of.setting, of.setting.pairings[metric], of.rows[metric])
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _rows(setting: Setting, pairing: Pairing, means: Rows) -> Rows:
    """Return the rows of results.csv for an outcome: every policy, against every baseline.

    `means` are rows of the summary, one per policy, best first.
    """
    better = pairing.metric.better
    if better == "neither":
        return []
    baselines = [p for p in pairing.ranked if p.kind not in NO_BASELINE]
    command = " && ".join(dict.fromkeys(e.command for e in setting.evaluations if e.command))
    rows: Rows = []
    for policy, row in zip(pairing.ranked, means, strict=True):
        own = {
            "scenario": setting.key[0],
            "recipe": setting.first.recipe,
            "metric": pairing.metric.name,
            "higher_is_better": better == "higher",
            "policy": policy.name,
            "seeds": len(policy.runs),
            "windows": len(pairing.windows),
            PROVENANCE_COLUMN: setting.origin(policy),
            "command": command,
            **{name: _number(row[name]) for name in _NUMBERS[:3]},
        }
        others = [other for other in baselines if other.name != policy.name]
        if not others:  # the only baseline: a row with its mean alone
            rows.append(own | dict.fromkeys(("baseline", *_NUMBERS[3:], *_WINS)))
        for other in others:
            pair = (policy.values, other.values)
            cells = difference_cells(*pair, policy.trained, other.trained)
            found = estimate(cells, pairing.stretches)
            counts = win_tie_loss(*pair, better, tie_tolerance(*pair))
            numbers = zip(
                _NUMBERS[3:], map(_number, (*found.interval(), found.degrees)), strict=True
            )
            rows.append(own | {"baseline": other.name} | dict(numbers) | counts._asdict())
    return rows


def _number(value: float | None) -> float | None:
    return None if value is None or np.isnan(value) else float(f"{value:.{_DIGITS}g}")


def read_results(content: bytes, where: str) -> pl.DataFrame:
    """Return the rows of a results.csv; DatasetError for a wrong column or number.

    `where` is the name of the file in errors.
    """
    return read_csv(content, where, _SCHEMA)


def read_csv(content: bytes, where: str, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return the table of a CSV; DatasetError for other columns or a value of another type.

    Tables of 0.1.0 have no column `provenance`; their rows then say that it was not recorded.
    Tables whose intervals are those of the percentile bootstrap have no column `degrees`.
    """
    try:
        table = pl.read_csv(content, schema_overrides=dict(schema))
    except pl.exceptions.PolarsError as error:
        raise DatasetError(f"{where}: {str(error).splitlines()[0]}") from error
    older = {PROVENANCE_COLUMN: NOT_RECORDED, DEGREES: None}
    lacking = [name for name in schema if name in older and name not in table.columns]
    if table.columns == [name for name in schema if name not in lacking]:
        added = [pl.lit(older[name], dtype=schema[name]).alias(name) for name in lacking]
        table = table.with_columns(added).select(list(schema))
    if table.columns != list(schema):
        raise DatasetError(f"{where}: expected the columns {', '.join(schema)}")
    return table


def commands(part: pl.DataFrame) -> list[str]:
    """Return the commands that rows were made with, and where, as Markdown."""
    different = dict.fromkeys(part["command"].drop_nulls())
    lines = [line for c in different for line in ("```", c.replace("`", "'"), "```", "")]
    cells = part[PROVENANCE_COLUMN].drop_nulls().unique(maintain_order=True)
    keys = dict.fromkeys(key for cell in cells for key in cell.split())
    where = ", ".join(map(plain_text, keys))
    return [*lines, f"Computed by: {where} (keys of provenance.json).", ""]


def results_markdown(content: bytes, where: str) -> str:
    """Return the page of a results.csv.

    Each recipe begins with its headline result, followed by the policies by mean and their
    differences to the baselines.
    """
    parts = read_results(content, where).group_by(
        "scenario", "recipe", "metric", maintain_order=True
    )
    settings = [_setting(part) for _, part in parts]
    return render(_TEMPLATE, where=where, reading=_READING, settings=settings).rstrip() + "\n"


def _setting(part: pl.DataFrame) -> dict[str, Any]:
    """Return the values of the page about one recipe and outcome."""
    higher = part["higher_is_better"][0]
    once = part.unique("policy", keep="first", maintain_order=True)
    once = once.sort("mean", descending=higher, maintain_order=True)
    ordered = once.to_dicts()
    pairs = {(row["policy"], row["baseline"]): row for row in part.to_dicts()}
    baselines = list(dict.fromkeys(part["baseline"].drop_nulls()))
    shown = _shown([row["policy"] for row in ordered], baselines)
    compared = {
        baseline: [
            row
            for of in ordered
            if (row := pairs.get((of["policy"], baseline))) and row["paired_difference"] is not None
        ]
        for baseline in shown
    }
    learned = [row for row in ordered[1:] if row["policy"] not in baselines]
    pair = part.filter(pl.col("baseline").is_not_null() & pl.col("paired_low").is_not_null())
    return {
        "rows": ordered,
        "learned": learned[0] if learned and ordered[0]["policy"] in baselines else None,
        "baselines": baselines,
        "kind": interval_kind(pair[DEGREES].to_list()) if pair.height else "",
        "commands": commands(part),
        "compared": compared,
        "left": len(baselines) - len(shown),
    }


def interval_kind(degrees: Sequence[object], earlier: str = EARLIER) -> str:
    """Return which intervals rows have, from their column `degrees`, as a sentence.

    `earlier` are those of rows without degrees of freedom.
    """
    students = sum(each is not None and each != "" for each in degrees)
    if not students:
        return f"Intervals are {earlier}."
    if students == len(degrees):
        return "Intervals are Student's, corrected for skewness."
    return (
        f"Intervals of {students} of {count_of(len(degrees), 'row')} are Student's, those of the "
        f"others are {earlier}."
    )


def _shown(ordered: Sequence[str], baselines: Sequence[str]) -> list[str]:
    """Return the baselines that a page shows: the strongest, random, and the log itself.

    `ordered` are the policies, best first.
    """
    strongest = [name for name in ordered if name in baselines][:_STRONGEST]
    return [*strongest, *(n for n in _ALWAYS if n in baselines and n not in strongest)]
