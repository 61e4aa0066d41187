"""DeepRM and its reproduction: slowdown over load, training curves, other objectives.

Neither paper prints a number of its results; both show figures. What is beside measured numbers as
published was measured with the programs that the authors released (flows/papers/published.csv).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl

from hindcast.flows.papers.cells import (
    beside,
    cell,
    difference,
    mean,
    ours,
    runs,
    strongest_rule,
)
from hindcast.flows.papers.deeprm.claims import claims
from hindcast.flows.papers.deeprm.commands import (
    COMPAT_RATES,
    COMPAT_RULES,
    OBJECTIVES,
    PAPER_RATE,
    RATES,
    RECIPE_RATE,
    REPORT_JOBS,
    RULES,
    few,
    folder_of,
    iterations_at,
    seeds_of,
    stages,
)
from hindcast.flows.papers.deeprm.files import (
    AGENT,
    COLUMNS,
    COMPLETION,
    DRAWING,
    FIGURE_3,
    FIGURE_4,
    IMAGE,
    NATURAL,
    NETWORK,
    OBJECTIVES_PLACE,
    OFFLINE,
    ONLINE,
    RETURN,
    SJF,
    SLOWDOWN,
    UNITS,
    UTILISATION,
    Curve,
    Measured,
    name_of,
    over_seeds,
    read,
    tenths,
    trained_text,
)
from hindcast.flows.papers.published import number, published
from hindcast.flows.papers.publishing import protocol_of
from hindcast.flows.papers.results import CLAIM, FIGURE, TABLE, FigureText, Results, TableText
from hindcast.flows.protocols import Setting
from hindcast.pipeline.evaluation.summary.pairing import Pairing
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.statistics.intervals import Interval, mean_interval

Rows: TypeAlias = list[dict[str, Any]]

TITLE: Final = "DeepRM and its reproduction"
SOURCE: Final = (
    "Mao, Alizadeh, Menache & Kandula, Resource Management with Deep Reinforcement Learning, "
    "HotNets 2016; its reproduction under the same title, St. Kliment Ohridski University of "
    "Sofia, 2021"
)

# Column of a table of the published simulator -> outcome
_COMPAT: Final = {"jobs": "jobs", "time steps": "time_steps", "actions": "actions"}


def results(place: Path, setting: Setting) -> Results:
    """Return tables, figures and claims, from what the stages wrote below `place`.

    Raises DatasetError if a file of a stage is missing or is not valid.
    """
    measured = read(place, setting)
    tables = [
        *_beside(measured), *_figure_4_table(measured), *_sweep_table(measured),
        *_loads(measured), *_training_table(measured), *_networks(measured),
        *_objectives(measured), *_report_table(measured), *_released(measured),
        *_simulator(measured),
    ]  # fmt: skip
    figures = [
        *_training_figures(measured), *_figure_4(measured), *_sweep(measured),
        *_curves_figure(measured),
    ]  # fmt: skip
    return Results(
        tables=pl.DataFrame(tables, schema=TABLE),
        table_texts=table_texts(measured),
        figures=pl.DataFrame(figures, schema=FIGURE),
        figure_texts=figure_texts(measured),
        claims=pl.DataFrame(claims(measured), schema=CLAIM),
    )


def _load(rate: float) -> str:
    """Return the load of an arrival rate as words."""
    return f"rate {rate}"


# ------------------------------------------------------------------------------------------ tables


def _beside(measured: Measured) -> Rows:
    """Return mean and difference to the papers' agent, of the policies beside it."""
    at = measured.recipe
    rule = strongest_rule(at)
    others = {name: runs(at, name) for name in RULES if name not in {"random", rule}}
    found = {**ours(at, OFFLINE, ONLINE), **others, name_of(NATURAL): runs(at, NATURAL)}
    return beside(found, runs(at, AGENT), "slowdown", "1")


def _against_sjf(table: str, scores: Pairing, policies: Iterable[str]) -> Rows:
    """Return means, and differences from SJF."""
    rows = []
    for policy in policies:
        rows.append(cell(table, name_of(policy), "slowdown", "1", mean(scores, policy)))
        if policy != SJF:
            less = difference(scores, policy, SJF)
            rows.append(cell(table, name_of(policy), f"less {SJF}", "1", less))
    return rows


def _figure_4_table(measured: Measured) -> Rows:
    rows = _against_sjf("figure 4", measured.paper, (*RULES, AGENT))
    unfinished = measured.scored(f"{folder_of(PAPER_RATE)}/scores", "unfinished")
    for policy in (*RULES, AGENT):
        left = float(runs(unfinished, policy).values.mean())
        rows.append(cell("figure 4", name_of(policy), COLUMNS["unfinished"], "jobs", left))
    return rows


def _sweep_table(measured: Measured) -> Rows:
    return [
        cell("load sweep", _load(rate), name_of(policy), "1", mean(scores, policy))
        for rate, scores in measured.scores.items()
        for policy in (AGENT, *RULES)
    ]


def _loads(measured: Measured) -> Rows:
    """Return the load that was expected, offered, and by the formula of the report."""
    rows = []
    for rate in RATES:
        for column, metric, policy in (
            ("expected load", "expected_load", SJF),
            ("offered load", "offered_load", SJF),
            (f"queue + machine, {SJF}", "report_load", SJF),
            (f"queue + machine, {name_of(AGENT)}", "report_load", AGENT),
        ):
            found = measured.scored(f"{folder_of(rate)}/scores", metric)
            percent = 100.0 * runs(found, policy).window_means
            load = mean_interval(percent) if metric != "expected_load" else float(percent[0])
            rows.append(cell("loads", _load(rate), column, "%", load))
    return rows


def _training_table(measured: Measured) -> Rows:
    """Return slowdowns and rewards in training by tenth of the iterations."""
    rows = []
    columns = {
        f"{name_of(AGENT)}, rate {PAPER_RATE}": (measured.curve[SLOWDOWN], "1"),
        f"reward, rate {PAPER_RATE}": (measured.curve[RETURN], "1"),
        **{f"{name}, rate {RECIPE_RATE}": (c, "1") for name, c in measured.curves.items()},
    }
    for column, (curve, unit) in columns.items():
        for part, values in enumerate(tenths(curve).T, start=1):
            rows.append(cell("training", f"tenth {part}", column, unit, over_seeds(values)))
    return rows


def _networks(measured: Measured) -> Rows:
    rows = _against_sjf("networks", measured.recipe, (*RULES, AGENT))
    for policy, label in ((AGENT, IMAGE), (DRAWING, f"{IMAGE}, drawing")):
        rows.append(cell("networks", label, "slowdown", "1", mean(measured.image, policy)))
        less = difference(measured.image, policy, SJF)
        rows.append(cell("networks", label, f"less {SJF}", "1", less))
    return rows


def _objectives(measured: Measured) -> Rows:
    rows = []
    for metric in (SLOWDOWN, COMPLETION, UTILISATION):
        column, unit = COLUMNS[metric], UNITS[metric]
        at = measured.objective("slowdown", metric)
        rows += [cell("objectives", rule, column, unit, mean(at, rule)) for rule in RULES]
        for objective in ("slowdown", *OBJECTIVES):
            trained = measured.objective(objective, metric)
            row = f"{name_of(AGENT)} for {objective}"
            rows.append(cell("objectives", row, column, unit, mean(trained, AGENT)))
    return rows


def _report_table(measured: Measured) -> Rows:
    return _against_sjf("report's sizes", measured.report, (*RULES, AGENT))


def _released(measured: Measured) -> Rows:
    """Return slowdowns and finished jobs of the agent and the rules at the report's sizes.

    Measured are agents trained here, on test windows. Published are the report's program and its
    released model on the job set that comes with them.
    """
    published_cells, rows = published("deeprm"), []
    unfinished = measured.scored("report/scores", "unfinished")
    for policy in (*RULES, AGENT):
        row = name_of(policy)
        for column, unit, value in (
            ("slowdown", "1", mean(measured.report, policy)),
            ("finished", "jobs",
             REPORT_JOBS - float(runs(unfinished, policy).values.mean())),
        ):  # fmt: skip
            theirs = number(published_cells, "released model", row, column)
            rows.append(cell("released model", row, column, unit, value, theirs))
    return rows


def _simulator(measured: Measured) -> Rows:
    """Return what heuristics do in the published simulator's mode, summed over its examples."""
    published_cells, rows = published("deeprm"), []
    for rate in COMPAT_RATES:
        folder = f"compat/{folder_of(rate)}"
        for policy in COMPAT_RULES:
            row = f"rate {rate}, {policy}"
            sums = {
                metric: float(runs(measured.scored(folder, metric), policy).values[0].sum())
                for metric in ("slowdown_sum", *_COMPAT.values())
            }
            values = {
                "slowdown": sums["slowdown_sum"] / sums["jobs"],
                **{column: sums[metric] for column, metric in _COMPAT.items()},
            }
            for column, value in values.items():
                theirs = number(published_cells, "published simulator", row, column)
                rows.append(cell("published simulator", row, column, "1", value, theirs))
    return rows


def table_texts(measured: Measured) -> dict[str, TableText]:
    """Return headings and remarks of the tables."""
    trained, windows = trained_text(measured), len(measured.recipe.windows)
    setting = measured.setting
    seeds, fewer = (count_of(len(each), "seed") for each in (seeds_of(setting), few(setting)))
    sizes = "The sizes of DeepRM (10 slots, horizon 20), not those of the report (50, 60)."
    return {
        "beside": TableText(
            f"The papers' agent beside ours, arrival rate {RECIPE_RATE}", "",
            f"{windows} test windows. The strongest rule is the one with the smallest mean on "
            "them, which favours it. slots has no bound. "
            f"advantage_cloning: {seeds}; counterfactual: {fewer}. {trained}",
        ),
        "figure 4": TableText(
            "Fig. 4: slowdown at a load of 74 %", f"{FIGURE_4}, which prints no numbers",
            f"{sizes} {windows} unseen windows of 50 time steps. {trained} {NETWORK}",
        ),
        "load sweep": TableText(
            "Slowdown over the load", "Mao et al., loads of 10 to 190 %; no numbers are printed",
            f"One agent for each rate. {trained}",
        ),
        "loads": TableText(
            "Loads of the sweep", "Section III of the report has the formula queue + machine",
            "Expected: 1.845 x rate, the work that is offered per time step over the capacity. "
            "Offered: the same of the arrivals that were drawn. Queue + machine: the report's own "
            "formula, mean over time steps.",
        ),
        "training": TableText(
            "Training by tenth of the iterations", f"{FIGURE_3}, which prints no numbers",
            "Slowdowns of drawn choices on train windows; mean over seeds, with an interval over "
            f"seeds where there are several. {trained}",
        ),
        "networks": TableText(
            f"The papers' own network, arrival rate {RECIPE_RATE}", "",
            f"{IMAGE} is the report's layer of 20 units over the image, one seed. Its greedy "
            "choices can wait for ever, so choices that are drawn are scored too.",
        ),
        "objectives": TableText(
            f"Other objectives, arrival rate {PAPER_RATE}",
            f"{OBJECTIVES_PLACE}, which prints no numbers",
            "The sum of utilisations over an episode is the same for every policy that finishes "
            "all jobs, since the reward has no discount: it does not tell policies apart. "
            f"{iterations_at(setting, RATES[0])} iterations, {fewer}.",
        ),
        "report's sizes": TableText(
            "Slowdown at the report's sizes", "",
            f"50 slots, horizon 60, lengths 3 to 9 and 30 to 45; {REPORT_JOBS} jobs that all wait "
            f"from the start, {len(measured.report.windows)} windows. {fewer}.",
        ),
        "released model": TableText(
            "The model that the report released", "Not printed; measured with its program",
            "Published: one job set, and the mean over finished jobs alone. Measured: "
            f"{len(measured.report.windows)} job sets of as many jobs, and all jobs.",
        ),
        "published simulator": TableText(
            "The published simulator of DeepRM", "Not printed; measured with its program",
            'config.compat = "deeprm": the same 100 examples, with all deviations of that program.',
        ),
    }  # fmt: skip


# ----------------------------------------------------------------------------------------- figures


def _point(
    figure: str, panel: str, series: str, x: str, measured: Interval
) -> dict[str, Any]:  # fmt: skip
    """Return a row of FIGURE."""
    low, high = (None if np.isnan(end) else end for end in measured[1:])
    return {
        "figure": figure, "panel": panel, "series": series, "x": x, "y": measured.value,
        "low": low, "high": high,
    }  # fmt: skip


def _curve(figure: str, series: str, curve: Curve) -> Rows:
    """Return a training curve: mean over seeds, lowest, highest."""
    rows = []
    for iteration, each in zip(curve.iterations, curve.values.T, strict=True):
        spread = (each.min(), each.max()) if len(each) > 1 else (np.nan, np.nan)
        rows.append(_point(figure, "", series, str(iteration), Interval(each.mean(), *spread)))
    return rows


def _training_figures(measured: Measured) -> Rows:
    rows = []
    sums = measured.scored(f"{folder_of(PAPER_RATE)}/training", "slowdown_sum")
    for figure, metric, scores, sign in (
        ("figure 3a", SLOWDOWN, measured.training, 1.0),
        ("figure 3b", RETURN, sums, -1.0),
    ):
        curve = measured.curve[metric]
        rows += _curve(figure, name_of(AGENT), curve)
        for policy in RULES:
            value = Interval(sign * mean(scores, policy).value, np.nan, np.nan)
            rows += [_point(figure, "", policy, str(x), value) for x in curve.iterations[[0, -1]]]
    return rows


def _figure_4(measured: Measured) -> Rows:
    return [
        _point("figure 4", "", name_of(policy), panel, mean(scores, policy))
        for panel, scores in (
            ("deeprm sizes, load 74 %", measured.paper), ("report's sizes", measured.report),
        )
        for policy in (AGENT, *RULES)
    ]  # fmt: skip


def _sweep(measured: Measured) -> Rows:
    rows = []
    for rate, scores in measured.scores.items():
        load = measured.scored(f"{folder_of(rate)}/scores", "expected_load")
        x = f"{100.0 * float(runs(load, SJF).values.mean()):.4g}"
        rows += [
            _point("load sweep", "", name_of(policy), x, mean(scores, policy))
            for policy in (AGENT, *RULES)
        ]
    return rows


def _curves_figure(measured: Measured) -> Rows:
    return [row for n, curve in measured.curves.items() for row in _curve("training", n, curve)]


def figure_texts(measured: Measured) -> dict[str, FigureText]:
    """Return kinds, headings and labels of the figures."""
    trained = trained_text(measured)
    band = "The band is from the lowest to the highest seed."
    flat = "Lines of rules are their means on all train windows."
    return {
        "figure 3a": FigureText(
            "Slowdown in training", "lines", "iteration", "mean slowdown (1)", FIGURE_3,
            f"Load 74 %, drawn choices. {band} {flat} {trained}", log=True,
        ),
        "figure 3b": FigureText(
            "Reward in training", "lines", "iteration", "mean reward of an episode (1)",
            FIGURE_3, f"{band} {flat} The report shows the variance of the reward.",
        ),
        "figure 4": FigureText(
            "Slowdown of the agent and of heuristics", "bars", "setting", "mean slowdown (1)",
            FIGURE_4,
            f"Unseen windows. At the report's sizes, {REPORT_JOBS} jobs wait from the start.",
        ),
        "load sweep": FigureText(
            "Slowdown over the load", "lines", "expected load (%)", "mean slowdown (1)",
            "Mao et al., loads of 10 to 190 %", f"One agent for each load. {trained}", log=True,
        ),
        "training": FigureText(
            f"Training at rate {RECIPE_RATE}", "lines", "iteration", "mean slowdown (1)", "",
            f"{IMAGE}: the papers' own network. natural_gradient: the rows of candidates, with "
            f"natural gradients. {band}", log=True,
        ),
    }  # fmt: skip


PROTOCOL: Final = protocol_of(TITLE, SOURCE, stages, results)
