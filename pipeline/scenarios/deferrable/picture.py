"""Picture of `deferrable`: the capacity, the cost of the hours, and the book of jobs."""

from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.simulation.picture import Panel
from hindcast.pipeline.simulation.spec import Spec

_COSTS = ("cost", "cost_1_ago", "cost_24_ago", "cost_mean_24", "cost_low_24", "cost_mean_168",
          "cost_low_next_24")  # fmt: skip


def picture(spec: Spec) -> tuple[Panel, ...]:
    """Return capacity and use, when cores come free, costs where there are any, and the jobs."""
    context = [feature.name for feature in spec.context]
    costs = tuple(name for name in _COSTS if name in context)
    past = tuple(f"capacity_{lag}_ago" for lag in range(m.LAGS, 0, -1))
    return (
        Panel("Capacity in cores, up to this slot", "line", (*past, "capacity")),
        Panel("Cores of this slot", "bars", ("capacity", "running_cores", "free_cores")),
        Panel("Cores that come free in the next slots", "line",
              tuple(f"freed_in_{ahead}" for ahead in range(1, m.LOOKAHEAD + 1))),
        *((Panel("Cost of this hour beside others", "bars", costs),) if costs else ()),
        Panel("Jobs: earliest to latest start, slots from now", "bars",
              of={"key": "job", "since": "until_earliest", "to": "until_latest"}),
        *((Panel("Jobs: least forecast cost to the cost of a start now", "bars",
                 of={"key": "job", "since": "cost_least", "to": "cost_now"}),) if costs else ()),
    )  # fmt: skip
