"""A scenario outside Hindcast: the order of jobs on one machine.

N jobs are present from the start. Job j runs for p_j seconds and has the weight w_j. The cost is
the weighted sum of completion times, sum_j w_j C_j. The order of decreasing w / p is optimal
(W. E. Smith, "Various optimizers for single-stage production", Naval Research Logistics Quarterly
1956).

    ints    FRESH, number of jobs left, their numbers (N)
    floats  TIME, cost so far, lengths p (N), weights w (N)

    HINDCAST_PLUGINS=examples/toy_scenario.py hindcast run examples/toy/recipe.toml --out toy
"""

from dataclasses import dataclass

import numpy as np

from hindcast import Feature, Heuristic, Instance, Outcome, Scenario, Spec, register_scenario
from hindcast import kernel as k

LEFT, JOBS = 1, 2  # in ints
COST, SIZES = 1, 2  # in floats


@dataclass(frozen=True)
class Config:
    """Settings: the keys of [config] in a recipe.

    Attributes:
        jobs: Number of jobs, at least 1.
    """

    jobs: int = 12


def spec(config, objective):
    """Return the names of all numbers that are observed, recorded and reported."""
    left = Feature("left", "jobs", 0, config.jobs, "jobs that have not run")
    candidates = (
        Feature("job", "index", 0, config.jobs - 1, "which job", identifier=True),
        Feature("length", "s", 0, np.inf, "how long it runs", heavy_tailed=True),
        Feature("weight", "1", 0, 1, "how much its completion counts"),
    )
    cost = Outcome("weighted_completion_s", "s", "weighted sum of completion times")
    return Spec("toy", objective, (left,), candidates, ("cost",), (cost,))


def instance(config, objective, workload, window, rng):
    """Draw the jobs of a window: exponential lengths and uniform weights."""
    sizes = rng.exponential(10.0, config.jobs), rng.random(config.jobs)
    ints = np.array([0, config.jobs, *range(config.jobs)], np.int64)
    return Instance(ints, np.concatenate([np.zeros(SIZES), *sizes]), capacity=config.jobs)


@k.compiled(k.OBSERVE)
def observe(ints, floats, context, image, candidates, feasible):
    """Write one row per remaining job; return the number of rows."""
    n = len(ints) - JOBS
    context[0] = ints[LEFT]
    for row in range(ints[LEFT]):
        job = ints[JOBS + row]
        candidates[row, 0], feasible[row] = job, True
        candidates[row, 1], candidates[row, 2] = floats[SIZES + job], floats[SIZES + n + job]
    return ints[LEFT]


@k.compiled(k.STEP)
def step(ints, floats, choice, step_outputs):
    """Run a job to its end; the reward is minus its weighted completion time."""
    if not 0 <= choice < ints[LEFT]:
        return k.INFEASIBLE
    job = ints[JOBS + choice]
    floats[k.TIME] += floats[SIZES + job]
    cost = floats[SIZES + len(ints) - JOBS + job] * floats[k.TIME]
    floats[COST] += cost
    step_outputs[k.ELAPSED], step_outputs[k.REWARD], step_outputs[k.TERMS] = (
        floats[SIZES + job],
        -cost,
        cost,
    )
    ints[LEFT] -= 1
    for row in range(choice, ints[LEFT]):
        ints[JOBS + row] = ints[JOBS + row + 1]
    return k.RUNNING if ints[LEFT] else k.TERMINATED


@k.compiled(k.OUTCOME)
def outcome(ints, floats, outcomes):
    """Write the outcomes of the spec at the end of an episode."""
    outcomes[0] = floats[COST]


@k.compiled(k.SCORE)
def weight_per_second(context, candidates, feasible, parameters, scores):
    """Score the largest w / p highest (Smith's rule)."""
    for row in range(len(scores)):
        scores[row] = candidates[row, 2] / candidates[row, 1]


@k.compiled(k.SCORE)
def shortest_first(context, candidates, feasible, parameters, scores):
    """Score the shortest job highest."""
    for row in range(len(scores)):
        scores[row] = -candidates[row, 1]


SCENARIO = Scenario(
    name="toy", config=Config, objectives=("cost",), spec=spec, instance=instance,
    windows=lambda *_: 1_000_000, observe=observe, step=step, outcome=outcome,
)  # fmt: skip
RULES = {"weight_per_second": weight_per_second, "shortest_first": shortest_first}
HEURISTICS = {name: Heuristic(name, score) for name, score in RULES.items()}
register_scenario("toy", SCENARIO, HEURISTICS)
