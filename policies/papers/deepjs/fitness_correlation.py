"""How alike two trained scorers judge: correlation of their scores over the same candidates.

    hindcast calibrate fitness-correlation A B --recipe binpack-deepjs

The decisions are those of greedy episodes of A; every feasible candidate of them is scored by both.

    pearson     of the scores, as the DeepJS paper's Figure 5 has it
    spearman    of their ranks: a score is as good as any increasing function of it
    within      mean Pearson correlation among the candidates of one decision, which is what a
                choice is made by; decisions on which either score is constant are left out
    agreement   share of decisions on which both choose the same candidate

Agents that were trained on other machines or windows can be compared as long as their features are
the same. Source: Li & Hu, "DeepJS", ICBDC 2019, section 4.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.estimators.selection import ranks
from pipeline.recipes.problem import make_instance
from pipeline.recipes.recipe import Recipe
from pipeline.recipes.workload_source import load_source
from pipeline.scenarios import load_scenario
from policies.networks.policy import LearnedPolicy
from policies.rollouts.trajectories import network_inputs, sample_trajectory

Floats = NDArray[np.float64]
_DECISIONS: Final = 200  # of a window, evenly spaced


@dataclass(frozen=True)
class Alike:
    """What two scorers have in common; see the module. Not a number where nothing varies."""

    pearson: float
    spearman: float
    within: float
    agreement: float
    candidates: int
    decisions: int


def pearson(x: Floats, y: Floats) -> float:
    """Pearson's correlation of x (M,) and y (M,); not a number where either is constant."""
    if len(x) < 2 or not (np.ptp(x) > 0.0 and np.ptp(y) > 0.0):
        return float("nan")
    x, y = x - x.mean(), y - y.mean()
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def alike(x: Floats, y: Floats, starts: NDArray[np.int64]) -> Alike:
    """How alike scores x (M,) and y (M,) are; decision t has those of starts[t]:starts[t + 1]."""
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
    """How alike two scorers are on decisions of the first one's greedy episodes.

    At most about `decisions` of each window, evenly spaced. Raises DatasetError where a policy has
    other features than the recipe, InputError where one reads an image or the other candidates.
    """
    scenario, workload = load_scenario(recipe.scenario), load_source(recipe)
    spec = scenario.spec(recipe.config, recipe.objective)
    for policy in (first, second):
        policy.check(spec)
        if policy.reads:
            raise InputError(
                f"{policy.name} reads {', '.join(policy.reads)}: its scores are no function of a "
                "candidate and the moment, so that they are not compared here"
            )
    reader = (second if second.network.settings.context else first).network
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
    if not reader.settings.context:  # neither looks at it
        context = np.zeros((len(starts) - 1, len(spec.context)))
    x, y = (p.batch_scores(context, candidates, starts) for p in (first, second))
    return alike(x, y, starts)
