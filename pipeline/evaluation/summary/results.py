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
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.errors import DatasetError, unknown_name
from hindcast.pipeline.evaluation.summary.pairing import PolicyRuns, Setting
from hindcast.pipeline.evaluation.summary.rows import NO_BASELINE, best_first, tie_tolerance
from hindcast.pipeline.evaluation.summary.summarise import Summary
from hindcast.pipeline.pages.markdown import plain_text, text_table
from hindcast.pipeline.pages.numbers import (
    count_of,
    decimals_for,
    write_interval,
    write_number,
)
from hindcast.pipeline.statistics.intervals import (
    Interval,
    difference_cells,
    estimate,
    mean_interval,
    win_tie_loss,
)
from hindcast.pipeline.storage.provenance import NOT_RECORDED

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
    known = {name for _, name in summary.pairings}
    for metric in metrics:
        if metric not in known:
            raise unknown_name("metric", metric, known)
    rows = [
        row
        for s in summary.settings
        for metric in dict.fromkeys([s.first.headline, *metrics])
        if (s.label, metric) in summary.pairings
        for row in _rows(summary, s, metric)
    ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _rows(summary: Summary, setting: Setting, metric: str) -> list[dict[str, Any]]:
    """Return the rows of results.csv for an outcome: every policy, against every baseline."""
    pairing = summary.pairings[setting.label, metric]
    better = pairing.metric.better
    if better == "neither":
        return []
    ordered = best_first(pairing)
    baselines = [p for p in ordered if p.kind not in NO_BASELINE]
    stretches = pairing.stretches
    differences = {
        (p.name, b.name): estimate(
            difference_cells(p.values, b.values, p.trained, b.trained), stretches
        )
        for p in ordered for b in baselines if b.name != p.name
    }  # fmt: skip
    command = " && ".join(dict.fromkeys(e.command for e in setting.evaluations if e.command))
    rows: list[dict[str, Any]] = []
    for policy in ordered:
        own = {
            "scenario": setting.key[0],
            "recipe": setting.first.recipe,
            "metric": pairing.metric.name,
            "higher_is_better": better == "higher",
            "policy": policy.name,
            "seeds": len(policy.runs),
            "windows": len(pairing.windows),
            PROVENANCE_COLUMN: origin(setting, policy),
            "command": command,
            **_interval(
                _NUMBERS[:3],
                mean_interval(policy.values, trained=policy.trained, stretches=stretches),
            ),
        }
        others = [other for other in baselines if other.name != policy.name]
        if not others:  # the only baseline: a row with its mean alone
            rows.append(own | dict.fromkeys(("baseline", *_NUMBERS[3:], *_WINS)))
        for other in others:
            found = differences[policy.name, other.name]
            tolerance = tie_tolerance(policy.values, other.values)
            counts = win_tie_loss(policy.values, other.values, better, tolerance)
            rows.append(
                own
                | {"baseline": other.name}
                | _interval(_NUMBERS[3:6], found.interval())
                | {DEGREES: _number(found.degrees)}
                | dict(zip(_WINS, counts, strict=True))
            )
    return rows


def origin(setting: Setting, policy: PolicyRuns) -> str:
    """Return the keys of where a policy was scored and, if it was learned, trained."""
    names = policy.runs if policy.trained else (policy.name,)
    entries = [p for p in setting.entries.values() if p.name in names or p.group == policy.name]
    keys = [k for e in setting.evaluations for k in e.sessions or (NOT_RECORDED,)]
    if policy.kind == "learned":
        keys += [key for entry in entries for key in entry.trained or (NOT_RECORDED,)]
    return " ".join(dict.fromkeys(keys))


def records(settings: Sequence[Setting]) -> dict[str, Any]:
    """Return the records of where everything in some settings was computed, by key."""
    evaluations = [e for setting in settings for e in setting.evaluations]
    return {key: record for e in evaluations for key, record in e.records.items()}


def _interval(columns: Sequence[str], interval: Interval) -> dict[str, float | None]:
    return dict(zip(columns, map(_number, interval), strict=True))


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(f"{value:.{_DIGITS}g}")


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
    table = read_results(content, where)
    lines = ["# Results", ""]
    lines += [f"This page is made from {where} alone: change the table, then make the page again."]
    lines += ["", _READING, ""]
    for _, part in table.group_by("scenario", "recipe", "metric", maintain_order=True):
        lines += _setting_page(part)
    return "\n".join(lines).rstrip() + "\n"


def _setting_page(part: pl.DataFrame) -> list[str]:
    """Return the Markdown of the rows of one recipe and outcome."""
    first = part.row(0, named=True)
    side = "higher" if first["higher_is_better"] else "lower"
    about = (
        f"Scenario {plain_text(first['scenario'])}; {plain_text(first['metric'])}, {side} is better"
    )
    baselines = list(dict.fromkeys(part["baseline"].drop_nulls()))
    decimals = decimals_for(part["mean"].to_list())
    once = part.unique("policy", keep="first", maintain_order=True)
    once = once.sort("mean", descending=first["higher_is_better"], maintain_order=True)
    pairs = {(row["policy"], row["baseline"]): row for row in part.iter_rows(named=True)}
    lines = [f"## {plain_text(first['recipe'])}", "", _headline(once, baselines, decimals), ""]
    pair = part.filter(pl.col("baseline").is_not_null() & pl.col("paired_low").is_not_null())
    kind = [interval_kind(pair[DEGREES].to_list())] if pair.height else []
    about = " ".join([f"{about}; {first['windows']:,} windows.", *kind])
    lines += [about, "", *commands(part)]
    head = ["policy", "seeds", "mean", "95 % interval"]
    body = [
        [
            plain_text(row["policy"]), str(row["seeds"]), write_number(row["mean"], decimals),
            write_interval(row["low"], row["high"], decimals),
        ]
        for row in once.iter_rows(named=True)
    ]  # fmt: skip
    shown = _shown(once["policy"].to_list(), baselines)
    compared = {
        baseline: [
            _against(row, decimals)
            for policy in once["policy"]
            if (row := pairs.get((policy, baseline))) and row["paired_difference"] is not None
        ]
        for baseline in shown
    }
    lines += text_table(head, body, left=1)
    if len(shown) < len(baselines):
        left = len(baselines) - len(shown)
        lines += [f"The CSV file has {count_of(left, 'more baseline')} than these tables.", ""]
    for baseline, rows in compared.items():
        lines += [f"Against {plain_text(baseline)}:", ""]
        lines += text_table(
            ["policy", "difference", "95 % interval", "wins / ties / losses"], rows, left=1
        )
    return lines


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


def _headline(once: pl.DataFrame, baselines: Sequence[str], decimals: int) -> str:
    """Return the best policy, and the best learned one, against the strongest baseline."""

    def apart(row: Mapping[str, Any]) -> str:
        other = "other " if row["policy"] in baselines else ""
        difference = write_number(row["paired_difference"], decimals, signed=True)
        interval = write_interval(row["paired_low"], row["paired_high"], decimals, signed=True)
        return (
            f"{write_number(row['mean'], decimals)}; its difference to "
            f"{plain_text(row['baseline'])}, the strongest {other}baseline, is {difference} (95 % "
            f"interval {interval})."
        )

    rows = once.to_dicts()
    learned = [row for row in rows[1:] if row["policy"] not in baselines]
    name, extreme = rows[0]["policy"], "highest" if rows[0]["higher_is_better"] else "lowest"
    mean = write_number(rows[0]["mean"], decimals)
    found = f"{mean}." if rows[0]["baseline"] is None else apart(rows[0])
    text = f"**{plain_text(name)}** has the {extreme} mean of {len(rows)} policies, {found}"
    if learned and name in baselines:
        best = plain_text(learned[0]["policy"])
        text += f" The best learned policy, {best}, has {apart(learned[0])}"
    return text


def _against(row: dict[str, Any], decimals: int) -> list[str]:
    difference = write_number(row["paired_difference"], decimals, signed=True)
    ends = (row["paired_low"], row["paired_high"])
    if None not in ends:
        proven = ends[0] > 0 if row["higher_is_better"] else ends[1] < 0
        difference = f"**{difference}**" if proven else difference
    return [
        plain_text(row["policy"]), difference, write_interval(*ends, decimals, signed=True),
        f"{row['wins']} / {row['ties']} / {row['losses']}",
    ]  # fmt: skip
