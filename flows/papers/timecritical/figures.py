"""Figures 3 to 5 of Liu et al.: arrivals, curves of training, and episodes one by one."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.flows.papers import cells
from hindcast.flows.papers.results import FIGURE, FigureText
from hindcast.flows.papers.styles import PAPER as PRINTED
from hindcast.flows.papers.timecritical.commands import (
    AGENT,
    BASELINE,
    LOADS,
    OWN_RULES,
    PATTERNS,
    PLAIN,
    PLAIN_PATTERN,
    RECIPE,
    RULES,
    STRONGEST,
    agents,
    overrides,
)
from hindcast.flows.papers.timecritical.paper_scores import evaluation
from hindcast.flows.papers.timecritical.tables import AJDR, COST, TMDL, pair
from hindcast.flows.protocols import Setting
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.scenarios.multicluster.config import MulticlusterConfig
from hindcast.pipeline.scenarios.multicluster.instances import draw_arrivals
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.statistics.intervals import Array, Interval
from hindcast.pipeline.storage.files import read_parquet
from hindcast.pipeline.storage.run_files import CURVES

PLAIN_AGENT: Final = f"{AGENT}, plain exploration"
_LONGEST: Final = 60  # steps between arrival events that Figure 3 shows
_BIN: Final = 20  # steps of a bar of Figure 3
_SHOWN: Final = 600  # steps of an episode that Figure 3 shows
_CURVE: Final = f"validation_{COST}"
_EPISODES: Final = (AGENT, BASELINE, "most_free_now", STRONGEST)  # series of Figure 5
_COMPARED: Final = {
    "eval": ("Eval", "Eval (1, higher is better)", "adg"),
    TMDL: ("TMDL", "missed deadlines (runs)", "beh"),
    AJDR: ("AJDR", "mean delay (%)", "cfi"),
}  # fmt: skip
Point = tuple[str, str, str, str, float, float | None, float | None]  # a row of FIGURE


def figures(place: Path, setting: Setting) -> tuple[pl.DataFrame, dict[str, FigureText]]:
    """Return the points and texts of all figures."""
    rows: list[Point] = [*_arrivals(setting.quick), *_curves(place, setting), *_episodes(place)]
    return pl.DataFrame(rows, schema=FIGURE, orient="row"), _texts()


def _texts() -> dict[str, FigureText]:
    learning = (
        "Mean cost of the validation windows, .02 TMDL + AJDR = 1 / Eval, lower is better; the "
        "paper plots Eval on its test episodes. The band goes from the lowest to the highest "
        "training seed, that of a rule is the interval of its mean."
    )
    episodes = (
        "Test windows, sorted by the missed deadlines of the agent as in the paper. Mean of the "
        "training seeds after the last episode, with the lowest and the highest seed."
    )
    return {
        "figure 3 intervals": FigureText(
            "Figure 3a, c, e: steps between arrival events", "lines",
            "steps between arrival events", "share (1)", "Figure 3",
            "Share of the intervals of the test windows, and the probability that the paper "
            "defines.",
        ),
        "figure 3 arrivals": FigureText(
            "Figure 3b, d, f: arrivals in one episode", "histogram",
            "step of the episode", f"applications per {_BIN} steps", "Figure 3",
            "The beginning of the first test window. The paper draws the first 30 events of an "
            "episode of its own.",
        ),
        "figure 4": FigureText(
            "Figure 4a to 4c: the agent during training, and rules", "lines",
            "training episode", "cost (1, lower is better)", "Figure 4a to 4c", learning, log=True,
        ),
        "figure 4d": FigureText(
            "Figure 4d: guided and plain exploration, Bernoulli arrivals", "lines",
            "training episode", "cost (1, lower is better)", "Figure 4d",
            f"{learning} Plain exploration has a smaller step size, with which it does not "
            "diverge at once.", log=True,
        ),
        **{
            f"figure 5 {name.lower()}": FigureText(
                f"Figure 5: {name} of every test episode", "lines",
                f"test episode, sorted by the TMDL of {AGENT}", label, "Figure 5", episodes,
            )
            for name, label, _ in _COMPARED.values()
        },
    }  # fmt: skip


def _arrivals(quick: bool) -> Iterator[Point]:
    """Yield Figure 3 from the test windows of the recipe."""
    for name, left, right in zip(PATTERNS, "ace", "bdf", strict=True):
        recipe = load_recipe(RECIPE, overrides(name, quick))
        drawn = [arrival_steps(recipe, window) for window in recipe.windows("test")]
        # An event brings at least one application, so events are the different steps.
        gaps = np.concatenate([np.diff(np.unique(steps), prepend=0) for steps in drawn])
        title = LOADS[name].title
        for gap in range(1, _LONGEST + 1):
            share = float(np.mean(gaps == gap))
            yield "figure 3 intervals", f"{left} {title}", name, str(gap), share, None, None
            told = probability(recipe.config, gap)
            yield (
                "figure 3 intervals", f"{left} {title}", name + PRINTED, str(gap), told, None, None,
            )  # fmt: skip
        edges = np.arange(0, _SHOWN + _BIN, _BIN)
        counts, _ = np.histogram(drawn[0], edges)
        for edge, count in zip(edges, counts, strict=False):
            yield (
                "figure 3 arrivals", f"{right} {title}", name, str(edge), float(count), None, None,
            )  # fmt: skip


def arrival_steps(recipe: Recipe, window: int) -> NDArray[np.int64]:
    """Return the arrival steps of a window, drawn as the instance of the window draws them."""
    return draw_arrivals(recipe.config, generator(recipe.seed, "instance", window))


def probability(config: MulticlusterConfig, steps: int) -> float:
    """Return the probability that the next arrival event comes after `steps`, at least 1.

    Source: Liu et al., section V-A, equations 4 to 7. The distribution function of Beta(a, b) with
    whole a and b is that of a binomial distribution of a + b - 1 trials.
    """
    if config.arrivals == "bernoulli":
        rho = config.arrival_probability
        return rho * (1.0 - rho) ** (steps - 1)
    if config.arrivals == "uniform":
        low, high = config.arrival_interval
        return 1.0 / (high - low + 1) if low <= steps <= high else 0.0
    a, b = (int(each) for each in config.arrival_beta)
    trials = a + b - 1

    def below(step: int) -> float:
        x = min(step / config.arrival_beta_steps, 1.0)
        return sum(
            math.comb(trials, j) * x**j * (1.0 - x) ** (trials - j) for j in range(a, trials + 1)
        )

    return below(steps) - below(steps - 1)


def _curves(place: Path, setting: Setting) -> Iterator[Point]:
    """Yield Figure 4 from the curves of the training, and from rules on validation windows."""
    for name, letter in zip(PATTERNS, "abc", strict=True):
        panel = f"{letter} {LOADS[name].title}"
        yield from _learning("figure 4", panel, name, AGENT, place, setting)
        yield from _rules("figure 4", panel, name, RULES, place, setting)
    yield from _learning("figure 4d", "", PLAIN_PATTERN, AGENT, place, setting)
    yield from _learning("figure 4d", "", PLAIN, PLAIN_AGENT, place, setting)
    yield from _rules("figure 4d", "", PLAIN_PATTERN, (BASELINE, *OWN_RULES), place, setting)


def _learning(
    figure: str, panel: str, name: str, series: str, place: Path, setting: Setting
) -> Iterator[Point]:
    steps, values = curve(place, name, setting)
    for step, column in zip(steps, values.T, strict=True):
        yield (
            figure, panel, series, str(step), float(column.mean()), float(column.min()),
            float(column.max()),
        )  # fmt: skip


def curve(place: Path, name: str, setting: Setting) -> tuple[list[int], Array]:
    """Return the episodes of a training curve and the cost of every seed, (seeds, episodes).

    Raises DatasetError for a curve without the cost of validation windows, or if the seeds have
    points at different episodes.
    """
    found: list[tuple[list[int], list[float]]] = []
    for folder in agents(name, setting.seeds):
        file = place / folder / CURVES
        rows = read_parquet(file).filter(pl.col("metric") == _CURVE).sort("step")
        if rows.is_empty():
            raise DatasetError(f"{file}: there is no metric {_CURVE!r}")
        found.append((rows["step"].to_list(), rows["value"].to_list()))
        if found[-1][0] != found[0][0]:
            raise DatasetError(f"{file}: its points are at other episodes than those of the others")
    return found[0][0], np.array([values for _, values in found])


def _rules(
    figure: str, panel: str, name: str, rules: tuple[str, ...], place: Path, setting: Setting
) -> Iterator[Point]:
    steps, _ = curve(place, name, setting)
    scores = cells.pairing(place / "validation" / name, COST)
    for rule in rules:
        found = cells.mean(scores, rule)
        for step in (steps[0], steps[-1]):
            yield figure, panel, rule, str(step), *_ends(found)


def _ends(found: Interval) -> tuple[float, float | None, float | None]:
    low, high = (None if math.isnan(end) else end for end in found[1:])
    return found.value, low, high


def _episodes(place: Path) -> Iterator[Point]:
    """Yield Figure 5: all test windows, in the order of the agent's missed deadlines."""
    for number, name in enumerate(PATTERNS):
        scores = pair(place, name)
        order = np.argsort(cells.runs(scores[TMDL], AGENT).window_means, kind="stable")
        for metric, (short, _, letters) in _COMPARED.items():
            figure, panel = f"figure 5 {short.lower()}", f"{letters[number]} {LOADS[name].title}"
            for policy in _EPISODES:
                for rank, window in enumerate(order, start=1):
                    values = _of_window(scores, policy, metric, window)
                    ends: tuple[float | None, float | None] = (None, None)
                    if len(values) > 1:
                        ends = float(values.min()), float(values.max())
                    yield figure, panel, policy, str(rank), float(values.mean()), *ends


def _of_window(scores: dict[str, Any], policy: str, metric: str, window: int) -> Array:
    """Return a metric of every run of a policy on a window, (runs,)."""
    tmdl, ajdr = (cells.runs(scores[each], policy).values[:, window] for each in (TMDL, AJDR))
    if metric == "eval":
        return evaluation(tmdl, ajdr)
    return tmdl if metric == TMDL else ajdr


__all__ = ["arrival_steps", "curve", "figures", "probability"]
