"""Policy of `deferrable` that solves an exact knapsack with learned prices of coming slots.

In every slot, the set of startable jobs with the highest total value that fits into the free cores
is started. The formulas are those of hindcast.policies.heuristics.prices; 12 weights are learned,
the rest is arithmetic of the scenario.

Every job pays 1 per core-slot, so the price of a core-slot corresponds to its multiplier in a
Lagrangian relaxation of the offline problem: 1 where demand is certain, 0 where capacity is left
over.

This policy is ours; it is not from a paper.
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from hindcast.flows.papers.osdec.network import check_deferrable
from hindcast.pipeline.errors import DatasetError, HindcastError
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.features import CANDIDATES, ROW, context_features
from hindcast.pipeline.simulation.policy import Reading
from hindcast.policies.heuristics.prices import PRICE_INPUTS, WAIT_INPUTS, score_by_prices
from hindcast.policies.networks import Architecture, Features
from hindcast.policies.networks.features import unscaled_map
from hindcast.policies.networks.fixed import FixedNetwork, FixedSettings
from hindcast.policies.networks.limits import Limits, limits_of
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import Weights


@dataclass(frozen=True)
class PricesSettings(FixedSettings):
    """Architecture of the network, which has no settings.

    Attributes:
        kind: Name of the architecture.
    """

    kind: Literal["prices"] = "prices"


@dataclass(frozen=True)
class PricesNetwork(FixedNetwork[PricesSettings]):
    """Network without its weights; `context` holds the mean capacity, the unit of all amounts."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight."""
        return {
            "price.bias": (1,),
            "price.weight": (1, PRICE_INPUTS),
            "wait.bias": (1,),
            "wait.weight": (1, WAIT_INPUTS),
        }

    def parameters(self, weights: Weights) -> NDArray[np.float64]:
        """Return the parameters of the compiled rule: the level, then the weights."""
        level = max(float(self.context.mean[0]), 1.0)
        flat = [np.array([level]), *(weights[name].ravel() for name in self.shapes)]
        return np.concatenate(flat).astype(np.float64)


def prices_network(
    settings: PricesSettings, context: Features, candidates: Features
) -> PricesNetwork:
    """Return the network over these features, unscaled.

    Raises DatasetError if the features are not those of `deferrable`, in their order.
    """
    check_deferrable(context, candidates)
    return PricesNetwork(
        settings,
        unscaled_map(candidates, (), quadratic=False),
        unscaled_map(context, (0,), quadratic=False),
    )


@cache
def _limits() -> tuple[Limits, Limits]:
    """Return the limits of the context and of the candidates."""
    unbounded = [replace(each, high=np.inf) for each in context_features(DeferrableConfig())]
    return limits_of(unbounded), limits_of(CANDIDATES)


def require_observations(
    context: NDArray[np.floating], candidates: NDArray[np.floating], where: str
) -> None:
    """Raise DatasetError, which begins with `where`, for a value that the rule cannot read.

    context (B, C) and candidates (V, F) may come from any log. Upper bounds of the context depend
    on settings and are not checked: the rule uses no number of the context as an index.
    """
    moments, jobs = _limits()
    moments.require(context, where)
    jobs.require(candidates, where)
    ahead = candidates[candidates[:, ROW.is_future] == 1.0, ROW.until_earliest]
    if (ahead < 0.0).any():
        raise DatasetError(
            f"{where}: until_earliest of a future job is {ahead.min():g}, expected at least 0; see "
            "`hindcast verify`"
        )


class PricesPolicy(LearnedPolicy):
    """BatchPolicy of the network with its weights."""

    network: PricesNetwork  # type: ignore[assignment]
    reads: tuple[Reading, ...] = ("feasible",)

    @cached_property
    def parameters(self) -> NDArray[np.float64]:
        """Parameters of the compiled rule: the level, then the weights."""
        return self.network.parameters(self.weights)

    def batch_scores(
        self,
        context: NDArray[np.float64],
        candidates: NDArray[np.float64],
        offsets: NDArray[np.int64],
        *,
        feasible: NDArray[np.bool_] | None = None,
        image: NDArray[np.uint8] | None = None,  # noqa: ARG002 - the protocol's
    ) -> NDArray[np.float64]:
        """Return values (sum of N,) of B observations, whose last row closes the slot.

        Raises HindcastError if the shapes of the arrays do not match or `feasible` is missing, and
        DatasetError for a value that is out of its range.
        """
        if (
            feasible is None
            or context.shape != (len(offsets) - 1, len(self.features_context))
            or candidates.shape != (int(offsets[-1]), len(self.features_candidates))
            or feasible.shape != (len(candidates),)
        ):
            raise HindcastError(
                f"{self.name}: context {context.shape} and candidates {candidates.shape} with "
                f"{len(offsets)} offsets up to {offsets[-1]} are not observations of deferrable "
                "with their feasible rows"
            )
        require_observations(context, candidates, self.name)
        scores = np.empty(len(candidates))
        for b in range(len(context)):
            own = slice(offsets[b], offsets[b + 1])
            score_by_prices(
                np.array(context[b], np.float64), np.array(candidates[own], np.float64),
                np.array(feasible[own]), self.parameters, scores[own],
            )  # fmt: skip
        return scores


ARCHITECTURE: Final = Architecture(PricesPolicy, PricesSettings, prices_network)
