"""Caveats of a dataset: of its trace, its windows, its behaviours and its decisions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.dataset.building.parts import Plan
from hindcast.pipeline.dataset.documents.card.coverage import Coverage, measure
from hindcast.pipeline.dataset.manifest import Manifest
from hindcast.pipeline.recipes.caveats import trace_caveats
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.splits import sample
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.workloads import caveats

_PROBED: Final = 12  # windows that rules play; with the rules of a recipe, less than a part


def with_caveats(
    plan: Plan, manifest: Manifest, episodes: pl.DataFrame
) -> tuple[Manifest, Coverage]:
    """Return the manifest with the caveats of all its data, and the coverage of the data.

    The last recipe of the manifest is that of the plan, and only its rules are played here, to find
    ties among them. Ties among the rules of earlier recipes are kept as the manifest has them.
    """
    coverage = measure(plan.out, manifest, episodes)
    windows = [w for recipe in manifest.recipes for w in recipe.windows("all")]
    outcomes = [o.name for o in plan.spec.outcomes]
    means = episodes.group_by("behaviour", maintain_order=True).agg(
        pl.col(*outcomes, "truncated").cast(pl.Float64).mean()
    )
    policies: list[tuple[str, Mapping[str, Any]]] = [
        (row["behaviour"], row) for row in means.to_dicts()
    ]
    scores = _scores(plan)
    of_trace = trace_caveats(plan.recipe, plan.scenario, plan.workload, windows)
    tied = [caveat for caveat in manifest.caveats if caveat.code == caveats.TIES]
    for caveat in caveats.ties(scores, higher=plan.spec.outcomes[0].better == "higher"):
        if caveat not in tied:
            tied.append(caveat)
    found = (
        *of_trace,
        *tied,
        *caveats.forced(coverage.decisions, coverage.forced),
        *caveats.unfinished(policies),
    )
    return replace(manifest, caveats=found), coverage


def _scores(plan: Plan) -> Any:
    """Return the headline outcomes (R, W) of the behaviours' R rules, without exploration.

    Recorded episodes explore, and so differ where nothing competes. Policies whose choices are
    always drawn are no rules.
    """
    own = [
        Behaviour(b.policy.name, b.policy)
        for b in plan.behaviours.values()
        if isinstance(b.policy, Heuristic)
        and b.policy.draw is None
        and b.epsilon < 1
        and b.temperature == 0
    ]
    rules = list({rule.name: rule for rule in own}.values())
    if len(rules) < caveats.FEWEST_RULES:
        return np.zeros((0, 0))
    windows = sample((w for part in plan.parts for _, w in part), _PROBED)
    problem, seed = (plan.scenario, plan.spec), plan.recipe.seed
    scores = np.full((len(rules), len(windows)), np.nan)
    for column, window in enumerate(windows):
        instance = make_instance(plan.recipe, plan.scenario, plan.workload, window)
        for row, rule in enumerate(rules):
            rng = generator(seed, "caveats", window)
            scores[row, column] = run_episode(*problem, instance, rule, rng).outcomes[0]
    return scores
