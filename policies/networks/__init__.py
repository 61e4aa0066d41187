"""Network architectures: the candidate scorer, and those of plug-ins, such as papers.

The candidate scorer (hindcast.policies.networks.policy) suits any scenario. Each other architecture
has its settings and shapes (hindcast.policies.networks.fixed), its policy and an Architecture in
ARCHITECTURES.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from hindcast.pipeline.plugins import Registry
from hindcast.pipeline.simulation.spec import Feature
from hindcast.policies.networks.features import FeatureMap
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.rules import RuleColumns
from hindcast.policies.networks.settings import Network, Weights


class AnyNetwork(Protocol):
    """Interface of a network without its weights, as a checkpoint stores it."""

    @property
    def settings(self) -> Any:
        """Frozen dataclass with `kind`, `context` (whether the context is read) and `image`."""

    @property
    def candidates(self) -> FeatureMap:
        """Feature map of the candidates."""

    @property
    def context(self) -> FeatureMap:
        """Feature map of the context."""

    @property
    def pixels(self) -> int:
        """Number of pixels of the image input, 0 without an image."""

    @property
    def threshold(self) -> float:
        """Least probability of a choice, relative to the likeliest candidate; 0 for no limit."""

    @property
    def rules(self) -> RuleColumns:
        """Rules whose columns follow the features of a candidate."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight."""


Features = tuple[Feature, ...]


@dataclass(frozen=True)
class Architecture:
    """A network architecture besides the candidate scorer.

    Attributes:
        policy: Function (name, network, weights, context, candidates) -> LearnedPolicy.
        settings: Frozen dataclass of the settings; its `kind` names the architecture.
        network: Function (settings, context, candidates) -> unscaled network. Raises DatasetError
            for features that the network cannot read.
    """

    policy: Callable[[str, Any, Weights, Features, Features], LearnedPolicy]
    settings: type[Any]
    network: Callable[[Any, Features, Features], Any]


ARCHITECTURES: Final = Registry[Architecture]("architectures", {})  # by `kind` of the settings


def acting(
    name: str, network: AnyNetwork, weights: Weights, context: Features, candidates: Features
) -> LearnedPolicy:
    """Return the policy that acts with a network."""
    scores_candidates = isinstance(network, Network)
    make = LearnedPolicy if scores_candidates else ARCHITECTURES[network.settings.kind].policy
    return make(name, network, weights, context, candidates)
