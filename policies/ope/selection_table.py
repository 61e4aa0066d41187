"""Tables of the rankings of policies by estimators, over several folders of `hindcast ope`.

hindcast report FOLDER... --ranking TABLE.csv    the table, and its page
hindcast report TABLE.csv --pages                the page of a table
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.estimators import ESTIMATORS
from hindcast.pipeline.estimators.selection import assess
from hindcast.pipeline.estimators.verdicts import ANSWERS, ROUGHLY, holds
from hindcast.pipeline.evaluation.summary.results import read_csv
from hindcast.pipeline.storage.files import read_json, read_parquet
from hindcast.pipeline.storage.provenance import NOT_RECORDED
from hindcast.policies.ope.consensus import CONSENSUS, consensus_scores, members_of
from hindcast.policies.ope.ope import new_rank_correlation, reference_of
from hindcast.policies.ope.results import DESCRIPTION, ESTIMATES

_K: Final = 4
_HEAD: Final = (
    "| estimator | answers | roughly | percentiles alone | left out | rank correlation | "
    f"of new policies | regret@1 | SharpeRatio@{_K} | type I | type II | median ESS |"
)
_NUMBERS: Final = (
    "rank_correlation", "rank_correlation_new", "regret_at_1", f"sharpe_ratio_at_{_K}", "type_1",
    "type_2", "median_ess",
)  # fmt: skip
_LEFT: Final = ("left_out", "left_out_held")
_HELD: Final = (
    "answers", "answers_hold", "roughly", "roughly_hold", "resampled_hold", *_LEFT,
)  # fmt: skip
COLUMNS: Final[Mapping[str, type[pl.DataType]]] = {
    "scenario": pl.String, "recipe": pl.String, "policies": pl.Int64, "new_policies": pl.Int64,
    "estimator": pl.String, **dict.fromkeys(_HELD, pl.Int64),
    **dict.fromkeys(_NUMBERS, pl.Float64),
    "windows": pl.Int64, "episodes": pl.Int64, "provenance": pl.String,
    "command": pl.String,
}  # fmt: skip
_ENOUGH: Final = 0.8  # rank correlation from which the tables mark a cell
_ABOUT: Final = (
    "The policies are rules and briefly trained agents, most of them not in the log. The truth is "
    "the mean return of episodes in the simulator on the same validation windows. A cell holds the "
    "rank correlation (Spearman) over all policies / over those that are not in the log; cells of "
    f"at least {_ENOUGH} are bold. An estimator that ranks well may still have large errors in its "
    "values: see the type I and type II errors, and the warnings that `hindcast ope` prints."
)
_OF_INTERVALS: Final = (
    "Intervals of 95 %: of so many policies, the interval of the return holds the true return, and "
    "that of the difference to the log the true difference. `answers`: estimates with the verdict "
    "`answers`; `roughly`: those with a warning. Others have no interval: too few episodes have "
    "weight, or the estimator may be biased. `percentiles alone` counts all policies, as if every "
    "estimate had its interval, by that of the return alone. `left out`: the log's own "
    "behaviours, each estimated from the others' episodes; a biased estimator has intervals if "
    "these show a coverage of 90 %, which takes at least 29 of them. Estimators without a bias "
    "stand first."
)


def selection_table(folders: Sequence[Path]) -> pl.DataFrame:
    """Return a row per folder and estimator, in the order of ESTIMATORS, and of the consensus.

    Raises DatasetError for a folder without truths or verdicts.
    """
    rows: list[dict[str, Any]] = []
    for folder in folders:
        about, estimates = read_json(folder / DESCRIPTION), read_parquet(folder / ESTIMATES)
        if not isinstance(about, dict) or estimates["truth"].null_count():
            raise DatasetError(
                f"{folder}: expected estimates with truths; run `hindcast ope` without --no-truth"
            )
        if "verdict" not in estimates.columns:
            raise DatasetError(
                f"{folder}: expected estimates with verdicts; they were made by an earlier version "
                "of `hindcast ope`: run it again"
            )
        command = about["command"]
        rows += [_row(about, table, command) for table in _estimators(estimates)]
    return pl.DataFrame(rows, schema=COLUMNS)


def _estimators(estimates: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the rows of each estimator, and those of the consensus with its scores as values."""
    asked = estimates["estimator"].unique().to_list()
    names = [name for name in ESTIMATORS if name in asked]
    tables = [estimates.filter(pl.col("estimator") == name) for name in names]
    if members_of(names):
        scores = pl.Series("value", consensus_scores(estimates))
        unknown = [pl.lit(None, estimates.schema[c]).alias(c) for c in ("ess", "verdict", *_LEFT)]
        tables.append(
            tables[0].with_columns(scores, pl.lit(CONSENSUS).alias("estimator"), *unknown)
        )
    return tables


def _row(about: Mapping[str, Any], estimates: pl.DataFrame, command: str) -> dict[str, Any]:
    """Return the row of an estimator: how well it orders the policies of one dataset."""
    name, reference = str(estimates["estimator"][0]), reference_of(estimates)
    policies = estimates["policy"].to_list()
    metrics = assess(
        estimates["value"].fill_null(np.nan).to_numpy(),
        estimates["truth"].to_numpy(),
        behaviour=about["logged_return"],
        reference=None if reference is None else policies.index(reference),
        ks=(1, _K),
    )
    ess = estimates["ess"].drop_nulls().to_numpy()
    numbers = (
        metrics.rank_correlation, new_rank_correlation(estimates, name), metrics.regret[1],
        metrics.sharpe.get(_K, np.nan), metrics.type_1, metrics.type_2,
        float(np.median(ess)) if len(ess) else np.nan,
    )  # fmt: skip
    rounded = [round(float(v), 4) if np.isfinite(v) else None for v in numbers]
    return {
        "scenario": about["scenario"],
        "recipe": about["dataset"],
        "policies": len(policies),
        "new_policies": int((~estimates["logged"]).sum()),
        "estimator": name,
        **_held(estimates, about["logged_return"]),
        **dict(zip(_NUMBERS, rounded, strict=True)),
        "windows": about["windows"],
        "episodes": about["episodes"],
        "provenance": _computed(about),
        "command": command,
    }


def _held(estimates: pl.DataFrame, logged: float) -> dict[str, int | None]:
    """Return how many policies have each verdict with an interval, and in how many it holds."""
    rows = estimates.to_dicts()
    if rows[0]["verdict"] is None:
        return dict.fromkeys(_HELD)
    found: dict[str, int | None] = {name: rows[0][name] for name in _LEFT}
    for name, verdict in (("answers", ANSWERS), ("roughly", ROUGHLY)):
        own = [row for row in rows if row["verdict"] == verdict]
        found |= {name: len(own), f"{name}_hold": sum(_holds(row, logged) for row in own)}
    ends = "resampled_low", "resampled_high"
    found["resampled_hold"] = sum(
        holds(row[ends[0]], row[ends[1]], row["truth"])
        for row in rows if row[ends[0]] is not None
    )  # fmt: skip
    return found


def _holds(row: Mapping[str, Any], logged: float) -> bool:
    """Return whether both intervals of an estimate hold the truth; False without intervals."""
    if row["low"] is None or row["difference_low"] is None:
        return False
    gained = row["truth"] - logged
    return holds(row["low"], row["high"], row["truth"]) and holds(
        row["difference_low"], row["difference_high"], gained
    )


def selection_markdown(content: bytes, name: str) -> str:
    """Return the page of a table: which estimators rank well in each scenario, then every number.

    `content` is the content of the CSV file `name`. Raises DatasetError if it is no such table.
    """
    table = read_csv(content, name, COLUMNS)
    runs = [run for _, run in table.group_by("scenario", "recipe", "windows", maintain_order=True)]
    names = table["estimator"].unique(maintain_order=True).sort().to_list()
    lines = [
        "# How well estimators rank policies", "",
        f"This page is made from {name} alone: to change the page, change the table.", "",
        _ABOUT, "", _OF_INTERVALS, "",
        *_kept(table), "",
        *_verdict(runs), "",
        f"Mean over the scenarios: {_means(table) or 'unknown'}.", "",
        "| scenario | windows | " + " | ".join(names) + " |",
        "|---|" + "---:|" * (len(names) + 1),
    ]  # fmt: skip
    for run in runs:
        by = {row["estimator"]: row for row in run.to_dicts()}
        cells = [_pair(by.get(name)) for name in names]
        lines.append(f"| {run['scenario'][0]} | {run['windows'][0]} | " + " | ".join(cells) + " |")
    for run in runs:
        first = run.row(0, named=True)
        lines += ["", f"### {first['scenario']}: `{first['recipe']}`", ""]
        lines.append(
            f"{first['policies']} policies, {first['new_policies']} of them not in the log; "
            f"{first['episodes']} episodes of {first['windows']} windows."
        )
        lines += ["", "```", first["command"], "```", "", _HEAD, "|---|" + "---:|" * 11]
        for row in run.to_dicts():
            values = [_of(row, "answers_hold", "answers"), _of(row, "roughly_hold", "roughly"),
                      _of(row, "resampled_hold", "policies"),
                      _of(row, "left_out_held", "left_out")]  # fmt: skip
            values += [_number(row[name]) for name in _NUMBERS]
            lines.append(f"| {row['estimator']} | " + " | ".join(values) + " |")
    return "\n".join(lines) + "\n"


def _computed(about: Mapping[str, Any]) -> str:
    """Return the keys of where the estimates were computed."""
    provenance = about.get("provenance")
    keys = provenance.get("sessions") if isinstance(provenance, dict) else None
    return " ".join(map(str, keys)) if isinstance(keys, list) else NOT_RECORDED


def _kept(table: pl.DataFrame) -> list[str]:
    """Return the lines of a table of how often intervals hold, over all scenarios."""
    lines = ["| estimator | answers | roughly | percentiles alone | left out |",
             "|---|" + "---:|" * 4]  # fmt: skip
    known = table.filter(pl.col("answers").is_not_null())
    total = known.group_by("estimator", maintain_order=True).agg(pl.col("policies", *_HELD).sum())
    every = total.sum().with_columns(pl.lit("all").alias("estimator"))
    for row in [*total.to_dicts(), *every.to_dicts()]:
        cells = [_share(row, "answers_hold", "answers"), _share(row, "roughly_hold", "roughly"),
                 _share(row, "resampled_hold", "policies"),
                 _share(row, "left_out_held", "left_out")]  # fmt: skip
        lines.append(f"| {row['estimator']} | " + " | ".join(cells) + " |")
    return lines


def _of(row: Mapping[str, Any], held: str, number: str) -> str:
    return f"{row[held]} of {row[number]}" if row[held] is not None and row[number] else "-"


def _share(row: Mapping[str, Any], held: str, number: str) -> str:
    share = f" ({row[held] / row[number]:.0%})" if row[number] else ""
    return _of(row, held, number) + share


def _verdict(runs: Sequence[pl.DataFrame]) -> list[str]:
    """Return a line per scenario: the estimators that rank well, or the best one."""
    lines = []
    for run in runs:
        rows = run.drop_nulls("rank_correlation").sort("rank_correlation", descending=True)
        if rows.is_empty():
            lines.append(f"- {run['scenario'][0]}: no estimator ranks these policies")
            continue
        good = rows.filter(pl.col("rank_correlation") >= _ENOUGH)["estimator"].to_list()
        best, value = rows["estimator"][0], rows["rank_correlation"][0]
        answer = ", ".join(good) if good else f"none; the best is {best} with {value:.2f}"
        lines.append(f"- {run['scenario'][0]}, at least {_ENOUGH}: {answer}")
    return lines


def _means(table: pl.DataFrame) -> str:
    """Return every estimator with its mean rank correlation, best first, as text."""
    ranked = table.drop_nulls("rank_correlation")
    means = ranked.group_by("estimator").agg(pl.col("rank_correlation").mean())
    ordered = means.sort("rank_correlation", "estimator", descending=[True, False])
    return ", ".join(f"{name} {value:.2f}" for name, value in ordered.iter_rows())


def _pair(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "-"
    text = f"{_number(row['rank_correlation'])} / {_number(row['rank_correlation_new'])}"
    return f"**{text}**" if _known(row["rank_correlation"]) >= _ENOUGH else text


def _known(value: float | None) -> float:
    return -2.0 if value is None else value


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3g}"
