"""Value network of Liu et al. and the policy that acts with it.

    moment       5 clusters x (index, capability, occupation in each of 100 steps, misses) = 515
    application  category, profile over 10 bins, execution, deadline, duration = 14
    values       [moment, application] 529 - 2000 - 500 - 5, one per cluster; ReLU (the paper does
                 not name an activation)

The network has 2,063,005 weights. A candidate is a pair of application and cluster; its score is
the output of its cluster for its application. The best pair of the pool is chosen. A drawback is
that an application that has little to lose is sent before one that has a deadline. With a `rule`,
which is our addition, the rule chooses the application and the network only its cluster.

Unlike a candidate scorer, the network identifies clusters by their numbers. It sees neither n, nor
the age of an application, nor what is free or queued now; only occupation curves contain that.

Source: Liu, Zhang, Rao, Wang, "A Reinforcement Learning Based Resource Management Approach for
Time-critical Workloads in Distributed Computing Environment", section IV-B and Table I.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from hindcast.flows.papers.timecritical.forward import ClustersArrays, score_pairs
from hindcast.pipeline.errors import DatasetError, HindcastError
from hindcast.pipeline.settings.ranges import number
from hindcast.pipeline.simulation.environment import Observation
from hindcast.pipeline.simulation.policy import Heuristic, Reading
from hindcast.policies.networks import Architecture, Features
from hindcast.policies.networks.features import columns_of, fit_map
from hindcast.policies.networks.fixed import FixedNetwork, FixedSettings
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import Weights, dense

APPLICATION: Final = (
    "category",
    *(f"profile_{b}" for b in range(10)),
    "execution",
    "deadline",
    "duration",
)
CLUSTER: Final = "cluster"
_WAITING: Final = (*APPLICATION, "tasks", "age")  # features that identify an application of a pool
_OTHERS: Final = -1e9  # below every value
_WIDEST: Final = 4096
_DEEPEST: Final = 8


@dataclass(frozen=True)
class ClustersSettings(FixedSettings):
    """Architecture of the network. Raises DatasetError for a value that is out of range.

    Attributes:
        clusters: Number of clusters, 1 to 4096.
        hidden: Widths of the hidden layers: 1 to 8 layers of width 1 to 4096.
        kind: Name of the architecture.
    """

    clusters: int = number(5, "from 1 to 4,096")
    hidden: tuple[int, ...] = number((2000, 500), "from 1 to 4,096")
    kind: Literal["clusters"] = "clusters"

    def __post_init__(self) -> None:
        if not 1 <= self.clusters <= _WIDEST:
            raise DatasetError(f"network: clusters is {self.clusters}, expected 1 to {_WIDEST}")
        if not 1 <= len(self.hidden) <= _DEEPEST or not all(
            1 <= width <= _WIDEST for width in self.hidden
        ):
            raise DatasetError(
                f"network: hidden is {list(self.hidden)}, expected 1 to {_DEEPEST} widths of "
                f"1 to {_WIDEST}"
            )


@dataclass(frozen=True)
class ClustersNetwork(FixedNetwork[ClustersSettings]):
    """Network without its weights; implements hindcast.policies.networks.settings.Network.

    Attributes:
        candidates: Map of the 14 features of an application.
        context: Map of the features of the moment.
    """

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of all layers: inputs, hidden layers, one value per cluster."""
        inputs = self.candidates.size + self.context.size
        return (inputs, *self.settings.hidden, self.settings.clusters)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight; layer 0 reads the application before the moment."""
        shapes: dict[str, tuple[int, ...]] = {}
        for i, (before, after) in enumerate(pairwise(self.widths)):
            shapes |= dense(f"layer{i}", after, before)
        return shapes


def clusters_network(
    settings: ClustersSettings,
    context: Features,
    candidates: Features,
    rows: tuple[NDArray[np.floating], NDArray[np.floating]] | None = None,
) -> ClustersNetwork:
    """Return the network over these features, standardised on `rows` if given.

    `rows` are contexts and candidates. Raises DatasetError if a feature is missing.
    """
    own, moment = columns_of(candidates, (*APPLICATION, CLUSTER))[:-1], tuple(range(len(context)))
    moments, pairs = rows or (None, None)
    return ClustersNetwork(
        settings,
        fit_map(candidates, own, quadratic=False, rows=pairs),
        fit_map(context, moment, quadratic=False, rows=moments),
    )


class ClustersPolicy(LearnedPolicy):
    """BatchPolicy of the network with its weights; a decision takes about .2 ms."""

    network: ClustersNetwork  # type: ignore[assignment]
    reads: tuple[Reading, ...] = ()

    def __init__(
        self,
        name: str,
        network: ClustersNetwork,
        weights: Weights,
        features_context: Features,
        features_candidates: Features,
        rule: Heuristic | None = None,
    ) -> None:
        super().__init__(name, network, weights, features_context, features_candidates)
        self._number = columns_of(features_candidates, (CLUSTER,))[0]
        self.rule = rule
        self._own = columns_of(features_candidates, _WAITING)

    def led_by(self, rule: Heuristic) -> "ClustersPolicy":
        """Return a policy in which `rule` chooses the application and the network its cluster."""
        return ClustersPolicy(
            self.name,
            self.network,
            self.weights,
            self.features_context,
            self.features_candidates,
            rule,
        )

    @cached_property
    def arrays(self) -> ClustersArrays:  # type: ignore[override]
        """Network and weights, as `score_pairs` reads them."""
        widths = np.array(self.network.widths[1:])
        flat = [
            self.weights[f"layer{i}.{part}"].T.ravel()
            for i in range(len(widths))
            for part in ("bias", "weight")
        ]
        return ClustersArrays(
            self.network.context,
            self.network.candidates,
            self._number,
            widths,
            np.concatenate(flat),
        )

    def batch_scores(
        self,
        context: NDArray[np.float64],
        candidates: NDArray[np.float64],
        offsets: NDArray[np.int64],
        *,
        feasible: NDArray[np.bool_] | None = None,  # noqa: ARG002 - the protocol's
        image: NDArray[np.uint8] | None = None,  # noqa: ARG002 - the protocol's
    ) -> NDArray[np.float64]:
        """Return values (sum of N,) of B observations.

        Raises HindcastError if the shapes of the arrays do not match or a cluster is unknown.
        """
        given = (context.shape, candidates.shape)
        expected = (
            (len(offsets) - 1, len(self.features_context)),
            (int(offsets[-1]), len(self.features_candidates)),
        )
        number = candidates[:, self._number] if given == expected else np.zeros(0)
        clusters = self.network.settings.clusters
        # Compiled code does no bounds checks.
        if given != expected or not ((number >= 0) & (number < clusters)).all():
            raise HindcastError(
                f"{self.name}: context {context.shape} and candidates {candidates.shape}, expected "
                f"{expected[0]} and {expected[1]} with clusters 0 to {clusters - 1}"
            )
        context = np.ascontiguousarray(context, np.float64)
        candidates = np.ascontiguousarray(candidates, np.float64)
        offsets = np.ascontiguousarray(offsets, np.int64)
        scores = np.full(len(candidates), _OTHERS)
        if self.rule is None:
            score_pairs(context, candidates, offsets, self.arrays, scores)
            return scores
        # Scores of rows are independent: only those of the rule's application are computed.
        each = [
            self._taken(self.rule, context[b], candidates[start:stop])
            for b, (start, stop) in enumerate(pairwise(offsets))
        ]
        taken, rows = np.concatenate(each), np.cumsum([0, *map(np.count_nonzero, each)])
        values = np.empty(rows[-1])
        score_pairs(context, candidates[taken], rows, self.arrays, values)
        scores[taken] = values
        return scores

    def _taken(
        self, rule: Heuristic, context: NDArray[np.float64], candidates: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Return the mask (N,) of the rows of the application that a rule chooses."""
        feasible = np.ones(len(candidates), np.bool_)  # every pair of the pool is feasible
        scores = rule.scores(Observation(0.0, context, candidates, feasible))
        own = candidates[:, self._own]
        taken: NDArray[np.bool_] = (own == own[scores.argmax()]).all(axis=1)
        return taken


ARCHITECTURE: Final = Architecture(ClustersPolicy, ClustersSettings, clusters_network)
