"""Correlation of the scores that two trained scorers give to the same candidates.

    hindcast calibrate fitness-correlation A B --recipe binpack-deepjs
    hindcast calibrate fitness-points A B --recipe binpack-deepjs      scores of single candidates

The decisions are those of greedy episodes of A; both agents score every feasible candidate.

    pearson     correlation of the scores, as in Figure 5 of the DeepJS paper
    spearman    correlation of their ranks, which no increasing function of a score changes
    within      mean Pearson correlation among the candidates of one decision, on which a choice is
                based; decisions at which either score is constant are left out
    agreement   share of decisions at which both choose the same candidate

Agents that were trained on other machines or windows can be compared if their features are the
same. Source: Li & Hu, "DeepJS", ICBDC 2019, section 4.3.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.flows.commands.report import rows_of
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.estimators.selection import ranks
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.storage.location import location
from hindcast.policies.networks.checkpoint import load_policy
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import Network
from hindcast.policies.rollouts.trajectories import network_inputs, sample_trajectory

Floats = NDArray[np.float64]
_DECISIONS: Final = 200  # per window, evenly spaced
_POINTS: Final = 500  # candidates of fitness-points


@dataclass(frozen=True)
class Alike:
    """Correlations of two scorers, see the module; NaN where a score does not vary.

    Attributes:
        pearson: Correlation of the scores.
        spearman: Correlation of the ranks of the scores.
        within: Mean correlation among the candidates of a decision.
        agreement: Share of decisions at which both choose the same candidate.
        candidates: Number of candidates.
        decisions: Number of decisions.
    """

    pearson: float
    spearman: float
    within: float
    agreement: float
    candidates: int
    decisions: int


def pearson(x: Floats, y: Floats) -> float:
    """Return Pearson's correlation of x (M,) and y (M,), or NaN if either is constant."""
    if len(x) < 2 or not (np.ptp(x) > 0.0 and np.ptp(y) > 0.0):
        return float("nan")
    x, y = x - x.mean(), y - y.mean()
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def alike(x: Floats, y: Floats, starts: NDArray[np.int64]) -> Alike:
    """Return the correlations of scores x (M,) and y (M,).

    The scores of decision t are at starts[t]:starts[t + 1].
    """
    pieces = [slice(a, b) for a, b in pairwise(starts)]
    within = np.array([pearson(x[piece], y[piece]) for piece in pieces])
    varied = within[~np.isnan(within)]
    same = [x[piece].argmax() == y[piece].argmax() for piece in pieces]
    return Alike(
        pearson=pearson(x, y),
        spearman=pearson(ranks(x), ranks(y)),
        within=float(varied.mean()) if len(varied) else float("nan"),
        agreement=float(np.mean(same)) if same else float("nan"),
        candidates=len(x),
        decisions=len(pieces),
    )


def compare(
    first: LearnedPolicy,
    second: LearnedPolicy,
    recipe: Recipe,
    windows: Sequence[int],
    decisions: int = _DECISIONS,
) -> Alike:
    """Return the correlations of two scorers, see `scores`."""
    return alike(*scores(first, second, recipe, windows, decisions))


def points(
    first: LearnedPolicy,
    second: LearnedPolicy,
    recipe: Recipe,
    windows: Sequence[int],
    count: int,
    rng: np.random.Generator,
) -> list[dict[str, float]]:
    """Return the two scores of at most `count` candidates, drawn without replacement."""
    x, y, _ = scores(first, second, recipe, windows)
    drawn = np.sort(rng.choice(len(x), min(count, len(x)), replace=False))
    pairs = zip(x[drawn].tolist(), y[drawn].tolist(), strict=True)
    return [{"first": a, "second": b} for a, b in pairs]


def scores(
    first: LearnedPolicy,
    second: LearnedPolicy,
    recipe: Recipe,
    windows: Sequence[int],
    decisions: int = _DECISIONS,
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return the scores of two scorers on decisions of the first one's greedy episodes.

    Scores are (M,) each; those of decision t are at starts[t]:starts[t + 1], (T + 1,). About
    `decisions` decisions of each window are used, evenly spaced. Raises DatasetError if a policy
    has other features than the recipe, and InputError if one reads an image or the other
    candidates.
    """
    scenario, workload = load_scenario(recipe.scenario), load_source(recipe)
    spec = scenario.spec(recipe.config, recipe.objective)
    for policy in (first, second):
        policy.check(spec)
        if policy.reads:
            raise InputError(
                f"{policy.name} reads {', '.join(policy.reads)}, so its scores are no function of "
                "a candidate and the moment; give an agent that reads nothing else"
            )
    reader = _reader(first, second)
    rows: list[Floats] = []
    contexts: list[Floats] = []
    sizes: list[NDArray[np.int64]] = []
    for window in windows:
        instance = make_instance(recipe, scenario, workload, window)
        idle = np.random.default_rng(0)  # nothing is drawn at temperature 0
        played = sample_trajectory(scenario, spec, instance, first, idle, temperature=0.0)
        every = max(1, len(played.choices) // decisions)
        for seen in network_inputs(scenario, spec, played, reader, every=every):
            rows.append(seen.rows[seen.index])
            contexts.append(seen.context)
            sizes.append(np.diff(seen.starts))
    starts = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    candidates = np.ascontiguousarray(np.concatenate(rows))
    context = np.ascontiguousarray(np.concatenate(contexts))
    if not reader.settings.context:  # neither policy reads it
        context = np.zeros((len(starts) - 1, len(spec.context)))
    x, y = (p.batch_scores(context, candidates, starts) for p in (first, second))
    return x, y, starts


def _reader(first: LearnedPolicy, second: LearnedPolicy) -> Network:
    """Return a network whose inputs are those of both scorers.

    `network_inputs` stores rows once that are equal in the columns which its network reads, so it
    has to read the columns of both.
    """
    network = (second if second.network.settings.context else first).network
    columns = [one.network.candidates.columns for one in (first, second)]
    both = np.union1d(*columns).astype(np.int64)
    return replace(network, candidates=network.candidates._replace(columns=both))


def correlation_table(request: Any) -> dict[str, Any]:
    """Return the lines and the row of `hindcast calibrate fitness-correlation`."""
    first, second, recipe, windows = _compared(request)
    found = asdict(compare(first, second, recipe, windows))
    row = {k: None if v != v else v for k, v in found.items()} | {"windows": windows}  # noqa: PLR0124
    return {"lines": [f"{name:<12}{value}" for name, value in row.items()], "rows": [row]}


def points_table(request: Any) -> dict[str, Any]:
    """Return the lines and rows of `hindcast calibrate fitness-points`."""
    rng = np.random.default_rng(request.seed)
    return rows_of(pl.DataFrame(points(*_compared(request), _POINTS, rng)))


def _compared(request: Any) -> tuple[LearnedPolicy, LearnedPolicy, Recipe, Sequence[int]]:
    """Return the two agents of a request, its recipe, and the windows, evenly spaced."""
    recipe = load_recipe(request.recipe, request.overrides)
    first, second = (load_policy(location(folder)) for folder in request.folders)
    windows = recipe.windows(request.split)
    return first, second, recipe, windows[:: -(-len(windows) // request.windows)]
