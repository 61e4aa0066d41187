"""Sizes of clusters for a list of pods, which `gpupack` plays: refusals, and nodes that suffice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
from hindcast.pipeline.scenarios.gpupack.nodes import MOST_NODES, nodes_of
from hindcast.pipeline.scenarios.gpupack.requests import read_requests
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.workloads.schema import Workload
from hindcast.policies.registry import resolve

BEYOND: Final = 8  # numbers of nodes above the answer that suffice too


@dataclass(frozen=True)
class Packing:
    """A list of pods, each of which arrives once, in drawn orders with drawn ties.

    Attributes:
        workload: The pods.
        runs: Number of orders.
        seed: Seed of the orders.
        ends: "never" if pods stay, "recorded" if they come and go at the times of the list.
    """

    workload: Workload
    runs: int
    seed: int
    ends: Literal["never", "recorded"] = "never"

    def outcomes(self, rule: str, nodes: Sequence[str]) -> Mapping[str, list[float]]:
        """Return the outcomes of a rule in every run, by name."""
        scenario = load_scenario("gpupack")
        config = GpupackConfig(nodes=tuple(nodes), load=0.0, ends=self.ends)
        spec = scenario.spec(config, "allocated")
        behaviour = resolve(rule, "gpupack", spec)
        rows = []
        for run in range(self.runs):
            rng = generator(self.seed, "pack", run)
            instance = scenario.instance(config, "allocated", self.workload, run, rng)
            draws = generator(self.seed, rule, run)
            rows.append(run_episode(scenario, spec, instance, behaviour, draws).outcomes)
        columns = np.array(rows).T.tolist()
        return dict(zip((o.name for o in spec.outcomes), columns, strict=True))

    def fits(self, nodes: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether an empty node of these kinds can take each pod, (W,) by name."""
        kinds = set(nodes_of(GpupackConfig(nodes=tuple(nodes))))
        requests = read_requests(self.workload, list(kinds))
        fit = np.any([requests.fit(node) for node in kinds], axis=0)
        return np.asarray(fit[requests.of_pod])

    def nodes_needed(self, rule: str, kind: str, others: Sequence[str], allowed: int) -> int | None:
        """Return a number of nodes of a kind, beside others, for few refusals in every run.

        `kind` is a kind of nodes without a count, and `allowed` the number of pods that may be
        refused. The number is found by bisection. A rule may refuse more pods on more nodes, so
        the next BEYOND numbers are played too, and the answer is above the last that is not enough.
        None if no number of nodes is enough.
        """

        @cache
        def enough(count: int) -> bool:
            nodes = [*([f"{count}x{kind}"] if count else []), *others]
            return bool(nodes) and max(refused_pods(self.outcomes(rule, nodes))) <= allowed

        low, high = -1, 1
        while not enough(high):
            low, high = high, 2 * high
            if high > 2 * self.workload.tasks.height or high > MOST_NODES:  # a node for every pod
                return None
        while high - low > 1:
            middle = (low + high) // 2
            if middle == 0 and not others:
                break
            low, high = (low, middle) if enough(middle) else (middle, high)
        last = high
        while last < min(high + BEYOND, MOST_NODES):
            last += 1
            high = high if enough(last) else last + 1
        return high if high <= MOST_NODES else None


def refused_pods(outcomes: Mapping[str, list[float]]) -> list[float]:
    """Return the number of refused pods in every run."""
    kinds = [values for name, values in outcomes.items() if name.startswith("refused_")]
    return np.sum(kinds, axis=0).tolist()  # type: ignore[no-any-return]
