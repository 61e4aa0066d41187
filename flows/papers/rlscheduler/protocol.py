"""RLScheduler: its two tables, the rules that they leave out, and its agent, trained again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl

from hindcast.flows.papers.cells import beside, cell, mean, ours, runs
from hindcast.flows.papers.published import number
from hindcast.flows.papers.publishing import protocol_of
from hindcast.flows.papers.results import CLAIM, FIGURE, TABLE, FigureText, Results, TableText
from hindcast.flows.papers.rlscheduler.calibration import LEFT_OUT
from hindcast.flows.papers.rlscheduler.claims import claims
from hindcast.flows.papers.rlscheduler.commands import RULES, TABLE_RULES, stages
from hindcast.flows.papers.rlscheduler.files import (
    AGENT,
    HEADLINE,
    OFFLINE,
    ONLINE,
    PAPER_AGENT,
    Measured,
    read,
)
from hindcast.flows.papers.rlscheduler.published_tables import (
    BOUNDED_SLOWDOWN,
    SETTINGS,
    TRACES,
    UTILISATION,
)
from hindcast.flows.protocols import Setting
from hindcast.pipeline.evaluation.summary.pairing import Pairing

Rows: TypeAlias = list[dict[str, Any]]

TITLE: Final = "RLScheduler"
SOURCE: Final = (
    "Zhang, Dai, He, Bao & Xie, RLScheduler: An Automated HPC Batch Job Scheduler Using "
    "Reinforcement Learning, SC 2020"
)

_UNIT: Final = "1"
_PANELS: Final = ("without backfilling", "with backfilling")

# Metric of calibrate -> (table of the paper, scale to the printed unit, printed decimals)
_METRICS: Final = {
    HEADLINE: (BOUNDED_SLOWDOWN, 1.0, 2),
    "utilisation_percent": (UTILISATION, 0.01, 3),
}


def results(place: Path, setting: Setting) -> Results:
    """Return tables, figures and claims, from what the stages wrote below `place`.

    Raises DatasetError or InputError if a file of a stage is missing or is not valid.
    """
    return results_of(read(place, setting))


def results_of(measured: Measured) -> Results:
    """Return tables, figures and claims."""
    tables = [
        *_printed_table(measured, BOUNDED_SLOWDOWN, measured.sequences, _UNIT),
        *_printed_table(measured, UTILISATION, measured.used, "fraction"),
        *_agreement(measured),
        *_errors(measured),
        *_left_out(measured),
        *_unseen(measured),
        *_beside(measured),
    ]
    figures = [
        *_bars("bounded-slowdown", tables, BOUNDED_SLOWDOWN),
        *_bars("utilisation", tables, UTILISATION),
        *_bars("left-out", tables, "left out"),
        *_bars("unseen", tables, "unseen windows"),
        *_curves(measured),
    ]
    return Results(
        tables=pl.DataFrame(tables, schema=TABLE),
        table_texts=table_texts(measured),
        figures=pl.DataFrame(figures, schema=FIGURE),
        figure_texts=figure_texts(),
        claims=pl.DataFrame(claims(measured), schema=CLAIM),
    )


# ------------------------------------------------------------------------------------------ tables


def _printed_table(measured: Measured, item: str, scores: Mapping[str, Pairing], unit: str) -> Rows:
    """Return the cells of a table of the paper.

    The agent was trained again for bounded slowdown, so its utilisation is not compared.
    """
    rows = []
    for name, at in scores.items():
        for policy in TABLE_RULES:
            printed = number(measured.printed, item, name, policy)
            rows.append(cell(item, name, policy, unit, mean(at, policy), printed))
        printed = number(measured.printed, item, name, PAPER_AGENT)
        if item == BOUNDED_SLOWDOWN:
            rows.append(cell(item, name, PAPER_AGENT, unit, mean(at, AGENT), printed))
        else:
            rows.append(_only_printed(item, name, PAPER_AGENT, unit, printed))
    return rows


def _only_printed(
    table: str, row: str, column: str, unit: str, printed: float | None
) -> dict[str, Any]:
    """Return a cell that was not measured."""
    found = cell(table, row, column, unit, 0.0, printed)
    return found | {"measured": None}


def _agreement(measured: Measured) -> Rows:
    """Return how many numbers of rules are equal as printed."""
    rows = []
    for metric, (item, scale, decimals) in _METRICS.items():
        both = measured.calibrated.filter(metric=metric).drop_nulls(["ours", "paper"])
        ours, paper = (
            np.round(scale * both[name].to_numpy(), decimals) for name in ("ours", "paper")
        )
        gaps = np.abs(ours - paper)
        equal, farthest = int((gaps < 0.1**decimals / 2).sum()), float(gaps.max(initial=0.0))
        rows.append(cell("agreement", item, "numbers", "cells", both.height))
        rows.append(cell("agreement", item, "equal as printed", "cells", equal))
        rows.append(cell("agreement", item, "largest difference", "as in the table", farthest))
    return rows


def _errors(measured: Measured) -> Rows:
    """Return standard errors of bounded slowdowns, in percent of the mean."""
    table = measured.calibrated.filter(metric=HEADLINE).drop_nulls(["ours", "standard_error"])
    return [
        cell("standard errors", setting, policy, "%", 100.0 * error / ours)
        for setting, policy, ours, error in table.select(
            "setting", "policy", "ours", "standard_error"
        ).iter_rows()
    ]


def _left_out(measured: Measured) -> Rows:
    """Return the rules that the tables leave out, on the same sequences."""
    rows = []
    for table, item, scores, unit in (
        ("left out", BOUNDED_SLOWDOWN, measured.sequences, _UNIT),
        ("left out, utilisation", UTILISATION, measured.used, "fraction"),
    ):
        for name, at in scores.items():
            printed = number(measured.printed, item, name, PAPER_AGENT)
            rows.append(_only_printed(table, name, PAPER_AGENT, unit, printed))
            rows += [cell(table, name, rule, unit, mean(at, rule)) for rule in LEFT_OUT]
    return rows


def _unseen(measured: Measured) -> Rows:
    """Return all policies on unseen windows."""
    return [
        cell("unseen windows", policy, name, _UNIT, mean(at, policy))
        for policy in ("random", *RULES, OFFLINE, ONLINE, AGENT)
        for name, at in measured.unseen.items()
    ]


def _beside(measured: Measured) -> Rows:
    """Return mean and difference to the paper's agent, of the policies beside it."""
    rows = []
    for name, at in measured.unseen.items():
        found = ours(at, OFFLINE, ONLINE)
        rows += beside(found, runs(at, AGENT), "mean", _UNIT, setting=f"{name}: ")
    return rows


def table_texts(measured: Measured) -> dict[str, TableText]:
    """Return headings and remarks of the tables."""
    windows = ", ".join(
        f"{len(measured.unseen[name].windows)} on {name}" for name in TRACES.values()
    )
    signs = "wfp and uni are WFP3 and UNI of the paper, with the signs that its program gives them."
    trained = (
        f"{AGENT} is the agent of the paper, trained again by PPO with a kernel network on windows "
        f"of the first 60 % of each log, without backfilling, {measured.seeds} seeds, and selected "
        "on the windows up to 70 %."
    )
    after = f"Windows of 256 jobs after 70 % of the log ({windows}), the last of which drain."
    return {
        BOUNDED_SLOWDOWN: TableText(
            "Table V: bounded slowdown", "Table V, as printed in the repository",
            f"{signs} The measured numbers of {PAPER_AGENT} are those of {AGENT}, which has all "
            "waiting jobs in sight. The sequences overlap its training windows, as in the paper. "
            f"{trained}",
        ),
        UTILISATION: TableText(
            "Table VI: utilisation until the last start", "Table VI, as printed in the repository",
            f"{signs} The agent of this table was trained for utilisation, which was not repeated.",
        ),
        "agreement": TableText(
            "Numbers of rules that are equal as printed", "",
            "The cells of the five rules. Numbers are rounded as printed.",
        ),
        "standard errors": TableText(
            "Standard errors of the bounded slowdowns over the ten sequences, percent of the mean"
        ),
        "left out": TableText(
            "Bounded slowdown of rules that Table V leaves out", "",
            "f2, f3, f4 and smallest are in the published program. wfp3 and unicef have the right "
            "signs, saf is the smallest area first. The same sequences as in Table V.",
        ),
        "left out, utilisation": TableText(
            "Utilisation of rules that Table VI leaves out", "", "The sequences of Table VI."
        ),
        "unseen windows": TableText(
            "Bounded slowdown on unseen windows", "",
            f"{after} {trained} Agents are trained on 128 rows and scored, as the rules are, with "
            "all waiting jobs in sight.",
        ),
        "beside": TableText(
            "The paper's agent beside ours, unseen windows", "",
            "The strongest rule is the one with the smallest mean on these windows, which favours "
            "it. The scenario has no bound. No released offline agent exists for this simulator: "
            f"{OFFLINE} was trained on a log of random linear scores on the same windows.",
        ),
    }  # fmt: skip


# ----------------------------------------------------------------------------------------- figures


def _bars(figure: str, cells: Rows, table: str) -> Rows:
    """Return a bar of each policy and setting of a table, and the printed number beside it."""
    places = {
        name: (_PANELS[backfill], TRACES[trace]) for (trace, backfill), name in SETTINGS.items()
    }
    rows = []
    for one in cells:
        if one["table"] != table:
            continue
        by_row = one["row"] in places
        name, policy = (one["row"], one["column"]) if by_row else (one["column"], one["row"])
        panel, trace = places[name]
        if one["measured"] is not None:
            series = AGENT if policy == PAPER_AGENT else policy
            value, low, high = one["measured"], one["low"], one["high"]
            rows.append(_point(figure, panel, series, trace, value, low, high))
        if one["published"] is not None:
            series = f"{policy} (paper)"
            rows.append(_point(figure, panel, series, trace, one["published"]))
    return rows


def _curves(measured: Measured) -> Rows:
    """Return mean, lowest and highest of the seeds' validation at each iteration."""
    rows = []
    for name, curve in measured.curves.items():
        steps = curve.group_by("step", maintain_order=True).agg(
            pl.col("value").mean().alias("mean"),
            pl.col("value").min().alias("low"),
            pl.col("value").max().alias("high"),
        )
        for step, value, low, high in steps.iter_rows():
            rows.append(_point("learning", name, "ppo", str(step), value, low, high))
    return rows


def _point(
    figure: str, panel: str, series: str, x: str, y: float,
    low: float | None = None, high: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return a row of FIGURE."""
    return {
        "figure": figure, "panel": panel, "series": series, "x": x, "y": y, "low": low,
        "high": high,
    }  # fmt: skip


def figure_texts() -> dict[str, FigureText]:
    """Return kinds, headings and labels of the figures."""
    slowdown = "mean bounded slowdown (1)"
    return {
        "bounded-slowdown": FigureText(
            "Bounded slowdown, Table V", "bars", "log", slowdown,
            "Table V, as printed in the repository",
            f"Ten sequences of 1,024 jobs. {AGENT} is the agent trained again; {PAPER_AGENT} the "
            "published one.",
            log=True,
        ),
        "utilisation": FigureText(
            "Utilisation, Table VI", "bars", "log", "utilisation (fraction)",
            "Table VI, as printed in the repository", "Ten sequences of 1,024 jobs.",
        ),
        "left-out": FigureText(
            "Rules that Table V leaves out", "bars", "log", slowdown, "",
            "The sequences of Table V. wfp3 and unicef have the right signs.", log=True,
        ),
        "unseen": FigureText(
            "Unseen windows", "bars", "log", slowdown, "",
            "Windows of 256 jobs after 70 % of each log. Agents were trained on the first 60 %.",
            log=True,
        ),
        "learning": FigureText(
            "Training of the paper's agent", "lines", "iteration", slowdown, "",
            "Validation windows, greedy choices. Mean of the seeds; the band is from the lowest "
            "to the highest seed.",
            log=True,
        ),
    }  # fmt: skip


PROTOCOL: Final = protocol_of(TITLE, SOURCE, stages, results)
