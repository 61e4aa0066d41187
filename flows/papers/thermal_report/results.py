"""Tables, figures and claims of the 2018 report, from what the stages of its protocol wrote.

The report's Figures 7 and 8 show the servers that its network chooses, at logged decisions, over
the training. The same quantities are shown for every policy that is played. Efficiency of a server
that is off counts as 1, so usage stands beside it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.flows.papers.cells import beside, bound, cell, ours, pairing, runs
from hindcast.flows.papers.claims import direction_claim
from hindcast.flows.papers.published import number, published
from hindcast.flows.papers.results import CLAIM, FIGURE, TABLE, Results
from hindcast.flows.papers.styles import PAPER
from hindcast.flows.papers.tables import read_csv
from hindcast.flows.papers.thermal_report.texts import (
    AGENT,
    DRAWN,
    ESTIMATORS,
    FIGURES,
    MEASURED,
    OFFLINE,
    ONLINE,
    QUANTITIES,
    RANKED,
    RULES,
    SERIES,
    SETTINGS,
    WHICH,
    figure_texts,
    table_texts,
)
from hindcast.flows.protocols import Setting
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.evaluation.summary.pairing import Pairing, PolicyRuns, read_settings
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.scenarios.thermal.config import HEAT_CONSTANT, settled
from hindcast.pipeline.scenarios.thermal.instances import POSITIONS
from hindcast.pipeline.statistics.intervals import (
    Interval,
    difference_cells,
    estimate,
    mean_cells,
    mean_interval,
)
from hindcast.pipeline.storage.files import read_json, read_parquet

TINY: Final = 1e-17  # the heat of the far server in the printed record

Point = tuple[str, str, str, str, float, float | None, float | None]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Played:
    """Scores of an evaluation.

    Attributes:
        pairings: Scores of all policies by metric.
        behaviours: Names of the behaviours that make the log.
        scores: The table of scores, which has behaviours apart.
    """

    pairings: Mapping[str, Pairing]
    behaviours: tuple[str, ...]
    scores: pl.DataFrame


def read(place: Path, setting: Setting) -> Results:
    """Return the results of a finished protocol; DatasetError if a file is missing or damaged."""
    printed = published("thermal")
    choices = {name: _choices(place, name, setting) for name in SETTINGS}
    scored = {name: _played(place / name / "evaluation") for name in SETTINGS}
    estimates = read_parquet(place / "ope" / "estimates.parquet")
    estimates = estimates.filter(pl.col("estimator").is_in(ESTIMATORS))
    about = read_json(place / "ope" / "ope.json")
    cells = [*_configuration(printed), *_record(read_csv(place / "record.csv"), printed)]
    cells += _extremes(choices["sizes"], printed)
    cells += _gaps(choices, scored)
    for name in SETTINGS:
        cells += _simulated(name, scored[name])
    cells += [*_ranks(about), *_estimated(estimates)]
    tight = pairing(place / "tight" / "evaluation")
    cells += beside(
        ours(tight, OFFLINE, f"{ONLINE}-best"), runs(tight, AGENT), tight.metric.name, "-",
        bound(place / "tight" / "evaluation"),
    )  # fmt: skip
    points: list[Point] = []
    for what, figure in FIGURES.items():
        points += _over_training(figure, what, choices, printed)
    for what, figure in FIGURES.items():
        points += _in_episodes(figure, what, scored)
    points += [*_measured(scored), *_estimates_and_truths(estimates)]
    return Results(
        pl.DataFrame(cells, schema=TABLE), table_texts(setting),
        pl.DataFrame(points, schema=FIGURE, orient="row"), figure_texts(),
        pl.DataFrame(_claims(choices, scored), schema=CLAIM),
    )  # fmt: skip


def _choices(place: Path, name: str, setting: Setting) -> dict[str, Floats]:
    """Return the columns of the choices of all seeds, (seeds, steps, minibatches), and `step`."""
    files = [place / name / f"choices-seed{seed}.csv" for seed in setting.seeds]
    tables = [read_csv(file) for file in files]
    wanted = ("step", "minibatch", *(f"{which}_{what}" for which in WHICH for what in QUANTITIES))
    for file, table in zip(files, tables, strict=True):
        if missing := [column for column in wanted if column not in table.columns]:
            raise DatasetError(f"{file}: there is no column {missing[0]!r}")
        if not table.select("step", "minibatch").equals(tables[0].select("step", "minibatch")):
            raise DatasetError(f"{file}: steps and minibatches are not those of {files[0]}")
    steps = tables[0]["step"].unique().sort().to_numpy().astype(np.float64)
    shape = (len(tables), len(steps), -1)
    found = {
        column: np.stack([table[column].to_numpy() for table in tables]).reshape(shape)
        for column in wanted[2:]
    }
    return {"step": steps, **found}


def _played(folder: Path) -> Played:
    """Return the scores of an evaluation."""
    setting = read_settings([folder])[0]
    metrics = (*MEASURED, *(f"{which}_{what}" for which in WHICH for what in QUANTITIES))
    behaviours = tuple(name for name, entry in setting.entries.items() if entry.kind == "mixture")
    return Played({metric: setting.pair(metric) for metric in metrics}, behaviours, setting.scores)


def _over(values: Floats) -> Interval:
    """Return the mean of (seeds, minibatches) or (seeds, windows)."""
    return mean_interval(values, trained=len(values) > 1)


def _configuration(printed: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the sizes of the report beside those of the recipe."""
    config = settled(load_recipe("thermal-paper-v1").config)
    values = {
        "steps": config.steps, "jobs": config.jobs, "servers": len(POSITIONS),
        "capacity of a server": config.capacity, "heat constant": HEAT_CONSTANT,
    }  # fmt: skip
    return [
        cell("configuration", row, "value", "-", float(value),
             number(printed, "configuration", row, "value"))
        for row, value in values.items()
    ]  # fmt: skip


def _record(record: pl.DataFrame, printed: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the numbers of the printed record beside ours, as cells.

    Heats are so small that they are in units of TINY.
    """
    cells = []
    for row in record.to_dicts():
        heat = row["metric"].startswith("total heat")
        value = row["ours"] / TINY if heat else row["ours"]
        column = "1e-17 heat" if heat else "reward"
        published = number(printed, "figure 4", row["metric"], column)
        cells.append(cell("figure 4", row["metric"], column, "-", value, published))
    return cells


def _extremes(choices: dict[str, Floats], printed: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the lowest, highest and mean point of the lines of Figures 7 and 8."""
    cells = []
    for what, figure in FIGURES.items():
        for which in WHICH:
            values = choices[f"{which}_{what}"]
            lines = values.mean(axis=(0, 2))  # (steps,)
            rows = {
                "lowest": values[:, lines.argmin()], "mean": values.mean(axis=1),
                "highest": values[:, lines.argmax()],
            }  # fmt: skip
            for column, each in rows.items():
                value = number(printed, figure, which, column)
                cells.append(cell(figure, which, column, QUANTITIES[what], _over(each), value))
    return cells


def _chosen_minus_others(choices: dict[str, Floats], what: str) -> Interval:
    """Return chosen minus others at logged decisions, after the last step of a training."""
    return _over((choices[f"chosen_{what}"] - choices[f"others_{what}"])[:, -1])


def _played_gap(scored: Played, what: str, policy: str) -> Interval:
    """Return chosen minus others in played episodes."""
    chosen, others = (runs(scored.pairings[f"{which}_{what}"], policy) for which in WHICH)
    return estimate(mean_cells(chosen.values - others.values, chosen.trained)).interval()


def _gaps(choices: dict[str, dict[str, Floats]], scored: dict[str, Played]) -> list[dict[str, Any]]:
    """Return chosen minus others, at logged decisions and in played episodes."""
    cells = []
    for name, title in SETTINGS.items():
        for what, unit in QUANTITIES.items():
            gap = _chosen_minus_others(choices[name], what)
            cells.append(cell("gaps", f"{AGENT}, {title}, logged", what, unit, gap))
        for policy in (AGENT, "random", *RULES):
            for what, unit in QUANTITIES.items():
                gap = _played_gap(scored[name], what, policy)
                cells.append(cell("gaps", f"{policy}, {title}, played", what, unit, gap))
    return cells


def _entrants(scored: Played) -> Iterator[tuple[str, dict[str, PolicyRuns]]]:
    """Yield every policy, and every behaviour of the log, with its runs of each metric."""
    names = [each.name for each in scored.pairings["return"].policies]
    for name in (*names, *scored.behaviours):
        found = {}
        for metric in MEASURED:
            pairing = scored.pairings[metric]
            found[metric] = pairing.by_name.get(name) or _behaviour(scored, pairing, name)
        yield name, found


def _behaviour(scored: Played, found: Pairing, name: str) -> PolicyRuns:
    """Return the runs of one behaviour of the log."""
    own = scored.scores.filter(
        (pl.col("policy") == name)
        & (pl.col("metric") == found.metric.name)
        & pl.col("window").is_in(found.windows)
    )
    values = own.sort("seed", "window")["value"].to_numpy().reshape(-1, len(found.windows))
    labels = tuple(str(seed) for seed in range(len(values)))
    return PolicyRuns(name, "mixture", values, labels, trained=False)


def _difference(first: PolicyRuns, second: PolicyRuns) -> Interval:
    """Return first - second on the same windows."""
    cells = difference_cells(first.values, second.values, first.trained, second.trained)
    return estimate(cells).interval()


def _simulated(name: str, scored: Played) -> list[dict[str, Any]]:
    """Return a row per policy and behaviour, with the difference in return to the agent."""
    table, cells = f"simulator, {SETTINGS[name]}", []
    agent = runs(scored.pairings["return"], AGENT)
    for policy, found in _entrants(scored):
        for metric, unit in MEASURED.items():
            own = found[metric]
            value = mean_interval(own.values, trained=own.trained)
            cells.append(cell(table, policy, metric, unit, value))
        if policy != AGENT:
            gap = _difference(found["return"], agent)
            cells.append(cell(table, policy, f"return minus {AGENT}", "-", gap))
    return cells


def _ranks(about: Any) -> list[dict[str, Any]]:
    """Return how well every estimator ranks the policies, and the consensus of some of them."""
    cells = []
    for found in (*about["estimators"], *filter(None, [about["consensus"]])):
        values = {**found, "regret_at_1": found["regret"]["1"]}
        cells += [
            cell("estimators", found["name"], column, unit, float(values[column]))
            for column, unit in RANKED.items()
            if values[column] is not None
        ]
    return cells


def _estimated(estimates: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the true return of every policy, and its estimates."""
    cells = []
    for (policy,), rows in estimates.group_by("group", maintain_order=True):
        row = rows.row(0, named=True)
        truth = _interval(row, "truth", "truth_low", "truth_high")
        cells.append(cell("estimates", str(policy), "truth", "return", truth))
        for row in rows.to_dicts():
            if row["value"] is not None:
                found = _interval(row, "value", "low", "high")
                cells.append(cell("estimates", str(policy), row["estimator"], "return", found))
    return cells


def _interval(row: dict[str, Any], *names: str) -> Interval:
    return Interval(*(float("nan") if row[name] is None else float(row[name]) for name in names))


def _point(figure: str, panel: str, series: str, x: str, found: Interval) -> Point:
    low, high = (None if np.isnan(end) else float(end) for end in found[1:])
    return figure, panel, series, x, float(found.value), low, high


def _over_training(
    figure: str, what: str, choices: dict[str, dict[str, Floats]], printed: pl.DataFrame
) -> Iterator[Point]:
    """Yield chosen and others after every checkpoint, and the paper's range at the last."""
    for letter, (name, title) in zip("ab", SETTINGS.items(), strict=True):
        panel = f"{letter}: {title}"
        steps = choices[name]["step"]
        for which, called in SERIES.items():
            values = choices[name][f"{which}_{what}"]
            for i, step in enumerate(steps):
                yield _point(figure, panel, called, f"{step:.0f}", _over(values[:, i]))
        if name != "sizes":
            continue
        for which, called in SERIES.items():
            for row in printed.filter(item=figure, row=which).to_dicts():
                x = f"{steps[-1]:.0f}"
                yield figure, panel, called + PAPER, x, row["value"], None, None


def _in_episodes(figure: str, what: str, scored: dict[str, Played]) -> Iterator[Point]:
    """Yield chosen and others of every policy in played episodes."""
    for letter, (name, title) in zip("ab", SETTINGS.items(), strict=True):
        panel = f"{letter}: {title}"
        for which, called in SERIES.items():
            for found in scored[name].pairings[f"{which}_{what}"].policies:
                value = mean_interval(found.values, trained=found.trained)
                yield _point(f"{figure}, played", panel, called, found.name, value)


def _measured(scored: dict[str, Played]) -> Iterator[Point]:
    """Yield return, energy and peak heat of every policy."""
    for metric in DRAWN:
        for letter, (name, title) in zip("ab", SETTINGS.items(), strict=True):
            for found in scored[name].pairings[metric].policies:
                value = mean_interval(found.values, trained=found.trained)
                figure = metric.replace("_", " ")
                yield _point(figure, f"{letter}: {title}", "played", found.name, value)


def _estimates_and_truths(estimates: pl.DataFrame) -> Iterator[Point]:
    """Yield the estimates of every policy over its true return, and the line of equality."""
    known = estimates.drop_nulls(["truth", "value"])
    for row in known.unique("policy", maintain_order=True).to_dicts():
        yield "estimates", "", "truth", repr(row["truth"]), row["truth"], None, None
    for row in known.to_dicts():
        found = _interval(row, "value", "low", "high")
        yield _point("estimates", "", row["estimator"], repr(row["truth"]), found)


_POST: Final = (
    "states before the decision, inputs standardised, several training seeds; the report logged "
    "states after the placement"
)
_LONGER: Final = "longer jobs, deadlines that bind, k = 1, a log of eleven behaviours"
_NOT_DONE: Final = "the report did not play its agent"


def _claims(
    choices: dict[str, dict[str, Floats]], scored: dict[str, Played]
) -> list[dict[str, Any]]:
    """Return what the report expects of a reasonable policy, and whether its agent is one."""
    texts = {
        "efficiency": "efficiency: chosen servers minus the others",
        "distance": "distance from the centre: chosen servers minus the others",
        "usage": "usage: chosen servers minus the others",
    }
    claims = []
    for what, text in texts.items():
        item = FIGURES[what] if what != "usage" else "section IV.3"
        for name, title in SETTINGS.items():
            differs = _POST if name == "sizes" else f"{_LONGER}; {_POST}"
            claims += [
                direction_claim(
                    f"{what}-{name}", item, f"{text}, logged decisions, {title}",
                    QUANTITIES[what], _chosen_minus_others(choices[name], what), differs,
                ),
                direction_claim(
                    f"{what}-{name}-played", item, f"{text}, played, {title}",
                    QUANTITIES[what], _played_gap(scored[name], what, AGENT), _NOT_DONE,
                ),
            ]  # fmt: skip
    better = {
        ("learned", AGENT): "a reasonable policy is learned: return minus that of random choices",
        ("consolidate", "max_usage"): "busy servers first: return minus that of random choices",
        ("far", "max_distance"): "far servers first: return minus that of random choices",
    }
    for name, title in SETTINGS.items():
        scores = scored[name].pairings["return"]
        for (claim, policy), text in better.items():
            gap = _difference(runs(scores, policy), runs(scores, "random"))
            claims.append(direction_claim(
                f"{claim}-{name}", "section IV.3", f"{text}, {title}", "return", gap,
                _NOT_DONE if name == "sizes" else f"{_LONGER}; {_NOT_DONE}",
            ))  # fmt: skip
    return claims
