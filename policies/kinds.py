"""Networks that act: the candidate scorer, and those that one paper's agent needs for itself.

A candidate scorer (policies.learned) suits any scenario. A network of another form has a file of
its own with a frozen dataclass like `Network`, the policy that acts with it and a function that
reads it from a checkpoint, and a line in KINDS under the `kind` of its settings.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pipeline.schema import Feature
from policies.clusters import ClustersPolicy, read_clusters_network
from policies.features import FeatureMap
from policies.learned import LearnedPolicy
from policies.prices import PricesPolicy, read_prices_network
from policies.scorer import Weights
from policies.servers import ServersPolicy, read_servers_network
from policies.slot_scores import read_slot_scores_network
from policies.slot_scores_policy import SlotScoresPolicy


class AnyNetwork(Protocol):
    """A network without its weights, as a checkpoint keeps it.

    settings    a frozen dataclass with `kind`, `context` (whether it is read) and `image`
    candidates  feature map of the candidates
    context     feature map of the context
    pixels      of the image that is read, 0 for none
    threshold   of a constrained choice, 0 for none
    """

    @property
    def settings(self) -> Any:
        """The shape of the network."""

    @property
    def candidates(self) -> FeatureMap:
        """What is read of a candidate."""

    @property
    def context(self) -> FeatureMap:
        """What is read of the context."""

    @property
    def pixels(self) -> int:
        """Pixels of the image that is read."""

    @property
    def threshold(self) -> float:
        """Share of the likeliest candidate's probability that a choice needs."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight."""


Features = tuple[Feature, ...]


@dataclass(frozen=True)
class Kind:
    """A form of network besides the candidate scorer.

    policy   (name, network, weights, context, candidates) -> what acts
    read     (settings as in the checkpoint, context, candidates) -> the network, unscaled; raises
             TypeError, ValueError or DatasetError for another thing
    """

    policy: Callable[[str, Any, Weights, Features, Features], LearnedPolicy]
    read: Callable[[Mapping[str, Any], Features, Features], Any]


KINDS: Final[Mapping[str, Kind]] = {
    "clusters": Kind(ClustersPolicy, read_clusters_network),
    "prices": Kind(PricesPolicy, read_prices_network),
    "servers": Kind(ServersPolicy, read_servers_network),
    "slot_scores": Kind(SlotScoresPolicy, read_slot_scores_network),
}


def acting(
    name: str, network: AnyNetwork, weights: Weights, context: Features, candidates: Features
) -> LearnedPolicy:
    """The policy that acts with a network."""
    kind = KINDS.get(network.settings.kind)
    make: Any = LearnedPolicy if kind is None else kind.policy
    policy: LearnedPolicy = make(name, network, weights, context, candidates)
    return policy
