"""`binpack`: pack task instances onto machines, one placement per decision.

A job is submitted at `submit_s` and has tasks. A task has identical instances, each of which needs
cores and memory for `duration_s`. Time stands still while decisions are taken: each decision places
one instance on one machine, until no (machine, task) pair fits. Then time passes, in ticks of one
second, to the next tick at which an instance fits. The order within a tick is: releases, arrivals,
decisions, then the reward of every tick that passes until the next decision. Ticks in which nothing
can change are skipped, but counted in the reward and in `elapsed_s`.

    makespan    r = -ticks                                  sum of r == -makespan
    completion  r = -sum over ticks of open tasks           sum of r == -sum of completion times
    slowdown    r = -sum over ticks and open tasks of 1 / duration

The time before the first decision is part of the first step.

`compat = "cloudsimpy"` reproduces the event order of the published simulator, which in some cases
runs the scheduler before the arrivals and releases of the same second. It also reproduces the drift
of its float64 sums.
"""

from typing import Final

from hindcast.pipeline.scenarios.binpack import dynamics as kernel
from hindcast.pipeline.scenarios.binpack.config import BinpackConfig
from hindcast.pipeline.scenarios.binpack.features import OBJECTIVES, spec
from hindcast.pipeline.scenarios.binpack.instances import demand, instance, windows
from hindcast.pipeline.scenarios.binpack.observation import observe
from hindcast.pipeline.scenarios.binpack.picture import picture
from hindcast.pipeline.simulation.scenario import Scenario

SCENARIO: Final = Scenario(
    name="binpack",
    config=BinpackConfig,
    objectives=OBJECTIVES,
    spec=spec,
    windows=windows,
    instance=instance,
    observe=observe,
    step=kernel.step,
    outcome=kernel.outcome,
    picture=picture,
    demand=demand,
    forget=kernel.forget,
    bound="lower_bound_s",
    bound_kind="lower",
    source=(
        'Li & Hu, "DeepJS: Job Scheduling Based on Deep Reinforcement Learning in Cloud Data '
        'Center", ICBDC 2019.'
    ),
    differences=(
        (
            "The empty action that ends a tick is not a decision. Its reward is paid with the last "
            "placement."
        ),
        (
            "Resources are whole milli-cores and 1e-9ths of memory, so that comparisons are exact "
            "(not with `compat`)."
        ),
        (
            'Machines may differ from each other. `allow_wait` and `features = "extended"` are '
            "additional options."
        ),
        "Each candidate row also names its machine, an identifier hidden from learned scorers.",
    ),
)
