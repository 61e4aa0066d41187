"""The calibration of `deferrable`: its rules in every setting, beside the published tables.

The paper says neither how its jobs nor how its capacity came about; the base setting was chosen so
that its three rules come to its numbers. `spec` is what the prototype of that choice achieved,
`paper` what Dong et al. print (Tables 1, 2 and 4). The other rules and the optimum show the
headroom over them.

`scaling` is the utilisation relative to the base setting's; of it only FIFO's is expected to
match, since the capacity of the cases of Table 4 is ours. The paper prints two different numbers
for what should be the base setting there (core case 1, duration case 3); a case is compared with
the one of its own half of the table.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.calibration.table import COLUMNS, Row
from pipeline.errors import InputError
from pipeline.recipes.workload_source import GENERATED
from pipeline.scenarios.deferrable import SCENARIO
from pipeline.scenarios.deferrable.config import DeferrableConfig
from pipeline.scenarios.deferrable.features import OBJECTIVES
from pipeline.scenarios.deferrable.optimum import available, optimum
from pipeline.simulation.policy import Behaviour, Heuristic
from pipeline.simulation.rollout import run_episode
from pipeline.simulation.scenario import Instance
from pipeline.simulation.seeds import generator
from pipeline.workloads.schema import Provenance, Workload

Progress = Callable[[int, int], None]

BASE: Final = "deferrable"
SETTINGS: Final[Mapping[str, DeferrableConfig]] = {
    BASE: DeferrableConfig(),
    "realtime": DeferrableConfig(setting="realtime"),
    "core case 2": DeferrableConfig(core_case=2),
    "core case 3": DeferrableConfig(core_case=3),
    "duration case 1": DeferrableConfig(duration_case=1),
    "duration case 2": DeferrableConfig(duration_case=2),
}
PUBLISHED: Final = ("fifo", "sjf", "tetris")
POLICIES: Final = (*PUBLISHED, "fifo_skip", "largest_skip", "knapsack", "knapsack_patient")
METRICS: Final = ("total_reward", "utilisation", "delay_penalty", "violation_penalty")
SCALING: Final = "scaling"
BOUNDS: Final = ("upper_bound", "relaxation", "optimum")

# (setting, policy, metric) -> what the prototype achieved
SPEC: Final[Mapping[tuple[str, str, str], float]] = {
    (BASE, "fifo", "utilisation"): 3588.0,
    (BASE, "sjf", "utilisation"): 3482.0,
    (BASE, "tetris", "utilisation"): 3624.0,
    (BASE, "fifo", "delay_penalty"): -196.0,
    (BASE, "sjf", "delay_penalty"): -122.0,
    (BASE, "tetris", "delay_penalty"): -267.0,
    **{(BASE, policy, "violation_penalty"): 0.0 for policy in PUBLISHED},
    ("realtime", "fifo", "utilisation"): 3495.0,
    ("realtime", "sjf", "utilisation"): 3372.0,
    ("realtime", "tetris", "utilisation"): 3538.0,
    (BASE, "fifo", "total_reward"): 3389.0,
    (BASE, "sjf", "total_reward"): 3361.0,
    (BASE, "tetris", "total_reward"): 3359.0,
    (BASE, "fifo_skip", "total_reward"): 3513.0,
    (BASE, "knapsack", "total_reward"): 3684.0,
    (BASE, "optimum", "total_reward"): 3722.0,
    (BASE, "relaxation", "total_reward"): 3736.0,
}
_TABLE_4: Final[Mapping[str, tuple[float, float, float, float]]] = {  # FIFO, SJF, Tetris, OSDEC
    "core case 1": (3651.49, 3518.63, 3856.63, 3884.28),
    "core case 2": (7469.07, 5771.45, 9144.62, 9200.82),
    "core case 3": (5009.48, 4412.64, 5537.23, 5565.89),
    "duration case 1": (8693.60, 7633.65, 9475.69, 9593.68),
    "duration case 2": (5536.08, 5032.28, 5923.69, 5853.81),
    "duration case 3": (3467.29, 3340.02, 3633.64, 3631.21),
}
_OWN_BASE: Final[Mapping[str, str]] = {
    "core case 2": "core case 1",
    "core case 3": "core case 1",
    "duration case 1": "duration case 3",
    "duration case 2": "duration case 3",
}


def _paper() -> dict[tuple[str, str, str], float]:
    """(setting, policy, metric) -> the printed number."""
    agents = (*PUBLISHED, "osdec")
    rows = {
        (BASE, "total_reward"): (3408.82, 3274.66, 3407.20, 3475.37),
        (BASE, "utilisation"): (3602.45, 3386.66, 3689.65, 3761.24),
        (BASE, "delay_penalty"): (-193.64, -112.06, -282.42, -250.25),
        ("realtime", "utilisation"): (3449.22, 3298.38, 3503.01, 3521.23),
    }
    for case, base in _OWN_BASE.items():
        rows[case, "utilisation"] = _TABLE_4[case]
        first, second, third, fourth = (
            one / other for one, other in zip(_TABLE_4[case], _TABLE_4[base], strict=True)
        )
        rows[case, SCALING] = first, second, third, fourth
    return {
        (setting, policy, metric): value
        for (setting, metric), values in rows.items()
        for policy, value in zip(agents, values, strict=True)
    }


PAPER: Final[Mapping[tuple[str, str, str], float]] = _paper()


def calibrate(
    policies: Mapping[str, Heuristic],
    episodes: int = 100,
    seed: int = 0,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """One row per setting, policy and metric, over the same `episodes` instances for all policies.

    policies   the scenario's rules by name, of which POLICIES are run
    columns    setting, policy, metric, ours, standard_error (of ours), spec, difference_percent
               (ours from spec), paper; null where there is no such number. The paper's own agent
               is the policy "osdec"; "optimum" and "relaxation" need highspy and are null
               without it, "upper_bound" needs nothing.
    """
    if episodes < 2:
        raise InputError(f"episodes is {episodes}, expected at least 2: one has no standard error")
    total = len(SETTINGS) * episodes
    rows: list[Row] = []
    base = np.empty(0)
    for i, (setting, config) in enumerate(SETTINGS.items()):

        def tell(done: int, before: int = i) -> None:
            if progress is not None:
                progress(before * episodes + done, total)

        found, bounds = _run(config, policies, episodes, seed, tell, headroom=setting == BASE)
        used = found[:, METRICS.index("utilisation")]
        base = used if setting == BASE else base
        for p, policy in enumerate(POLICIES):
            rows += [_row(setting, policy, name, found[p, k]) for k, name in enumerate(METRICS)]
            if setting in _OWN_BASE:
                rows.append(_row(setting, policy, SCALING, used[p] / base[p].mean()))
        rows += [_row(setting, b, "total_reward", values) for b, values in bounds.items()]
        rows += [
            _row(setting, "osdec", metric, None)
            for where, policy, metric in PAPER
            if (where, policy) == (setting, "osdec")
        ]
    return pl.DataFrame(rows, schema=dict(COLUMNS), orient="row")


def _run(
    config: DeferrableConfig,
    policies: Mapping[str, Heuristic],
    episodes: int,
    seed: int,
    tell: Callable[[int], None],
    *,
    headroom: bool,
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64] | None]]:
    """METRICS of POLICIES, (policies, metrics, episodes), and the bounds by name, (episodes,)."""
    spec = SCENARIO.spec(config, OBJECTIVES[0])
    names = [o.name for o in spec.outcomes]
    columns = [names.index(metric) for metric in METRICS]
    nothing = Workload(pl.DataFrame(), Provenance(GENERATED))
    found = np.empty((len(POLICIES), len(METRICS), episodes))
    bounds = np.full((len(BOUNDS), episodes), np.nan)
    for window in range(episodes):
        rng = generator(seed, "instance", window)
        instance = SCENARIO.instance(config, OBJECTIVES[0], nothing, window, rng)
        for p, policy in enumerate(POLICIES):
            outcomes = run_episode(
                SCENARIO, spec, instance, Behaviour(policy, policies[policy]), rng
            ).outcomes
            found[p, :, window] = outcomes[columns]
            bounds[0, window] = outcomes[names.index("upper_bound")]
        if headroom and available():
            bounds[1:, window] = _solved(instance)
        tell(window + 1)
    return found, {
        name: None if np.isnan(values).any() else values
        for name, values in zip(BOUNDS, bounds, strict=True)
        if headroom or name == BOUNDS[0]
    }


def _solved(instance: Instance) -> tuple[float, float]:
    return optimum(instance, relaxed=True).value, optimum(instance).value


def _row(setting: str, policy: str, metric: str, values: NDArray[np.float64] | None) -> Row:
    ours = error = difference = None
    expected = SPEC.get((setting, policy, metric))
    if values is not None:
        ours = float(values.mean())
        error = float(values.std(ddof=1) / np.sqrt(len(values)))
        if expected:
            difference = 100.0 * (ours / expected - 1.0)
    published = PAPER.get((setting, policy, metric))
    return setting, policy, metric, ours, error, expected, difference, published
