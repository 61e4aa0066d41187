"""Cost of rule columns: episodes of a linear scorer with the columns of rules and without them.

    python -m tests.benchmarks rules

All weights are 0, so that both scorers make the same choices on the same windows. A recipe has two
rows: the columns of the slowest rule that it records, and the columns of all rules that it records.
"""

import time
from collections.abc import Sequence

import numpy as np

from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import NetworkSettings, make_network
from hindcast.policies.rollouts.trajectories import sample_trajectory
from hindcast.policies.training.delivery.verdict import eligible_rules

RECIPES = (
    "binpack-synthetic-v1", "slots-deeprm-v1", "slots-stream-v1", "deferrable-base-v1",
    "thermal-default-v1", "multicluster-uniform-v1", "queue-lublin1-v1",
)  # fmt: skip
WINDOWS = 6
REPEATS = 25  # the slowest rule is looked for, which is biased if medians are uncertain

Row = tuple[str, float, str, str]  # quantity, value, unit, comparison


def measure() -> list[Row]:
    """Return rows of (quantity, value, unit, comparison)."""
    return [row for name in RECIPES for row in _of_recipe(name)]


def _of_recipe(name: str) -> list[Row]:
    recipe = load_recipe(name)
    scenario, workload = load_scenario(recipe.scenario), load_source(recipe)
    spec = scenario.spec(recipe.config, recipe.objective)
    instances = [
        make_instance(recipe, scenario, workload, w) for w in recipe.windows("test")[:WINDOWS]
    ]
    known = eligible_rules(spec)
    logged = [b.policy for b in recipe.behaviours if b.policy in known]
    plain = _scorer(spec, ())
    everything = f"all {len(logged)} rules"
    ruled = {rule: _scorer(spec, (rule,)) for rule in logged} | {everything: _scorer(spec, logged)}
    ratios: dict[str, list[float]] = {what: [] for what in ruled}
    for _ in range(REPEATS):
        for what, policy in ruled.items():
            without = _seconds(scenario, spec, instances, plain)
            ratios[what].append(_seconds(scenario, spec, instances, policy) / without)
    cost = {what: float(np.median(found)) for what, found in ratios.items()}
    slowest = max(logged, key=cost.__getitem__)
    return [
        (f"{name}, columns of {what} / none", cost[what], "x", "at most 1.5")
        for what in (slowest, everything)
    ]


def _scorer(spec: Spec, rules: Sequence[str]) -> LearnedPolicy:
    """Return a linear scorer of all columns, squares and products with weights of 0."""
    settings = NetworkSettings(rules=tuple(rules))
    network = make_network(spec.context, spec.candidates, settings, scenario=spec.scenario)
    weights = {name: np.zeros(shape, np.float32) for name, shape in network.shapes.items()}
    return LearnedPolicy("linear", network, weights, spec.context, spec.candidates)


def _seconds(
    scenario: Scenario, spec: Spec, instances: Sequence[Instance], policy: LearnedPolicy
) -> float:
    """Return the processor seconds of greedy episodes."""
    begin = time.process_time()
    for instance in instances:
        rng = np.random.default_rng(0)
        sample_trajectory(scenario, spec, instance, policy, rng, temperature=0.0)
    return time.process_time() - begin
