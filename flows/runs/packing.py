"""Sizes of clusters for a list of pods, which `gpupack` plays: refusals, and nodes that suffice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
from hindcast.pipeline.scenarios.gpupack.nodes import MOST_NODES, nodes_of
from hindcast.pipeline.scenarios.gpupack.requests import read_requests
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.workloads.schema import Workload
from hindcast.policies.registry import resolve


@dataclass(frozen=True)
class Packing:
    """A list of pods, each of which arrives once, in drawn orders with drawn ties.

    Attributes:
        workload: The pods.
        runs: Number of orders.
        seed: Seed of the orders.
    """

    workload: Workload
    runs: int
    seed: int

    def outcomes(self, rule: str, nodes: Sequence[str]) -> Mapping[str, list[float]]:
        """Return the outcomes of a rule in every run, by name."""
        scenario, config = load_scenario("gpupack"), GpupackConfig(nodes=tuple(nodes), load=0.0)
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

    def too_large(self, nodes: Sequence[str]) -> int:
        """Return the number of pods that no node can take, not even an empty one."""
        kinds = set(nodes_of(GpupackConfig(nodes=tuple(nodes))))
        requests = read_requests(self.workload, list(kinds))
        fit = np.any([requests.fit(node) for node in kinds], axis=0)
        return int((~fit[requests.of_pod]).sum())

    def nodes_needed(self, rule: str, kind: str, others: Sequence[str], allowed: int) -> int | None:
        """Return the least number of nodes of a kind, beside others, for few refusals in every run.

        `kind` is a kind of nodes without a count, and `allowed` the number of pods that may be
        refused. The number is found by bisection, which takes for granted that more nodes do not
        refuse more pods. None if no number of nodes is enough.
        """

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
        return high


def refused_pods(outcomes: Mapping[str, list[float]]) -> list[float]:
    """Return the number of refused pods in every run."""
    kinds = [values for name, values in outcomes.items() if name.startswith("refused_")]
    return np.sum(kinds, axis=0).tolist()  # type: ignore[no-any-return]
