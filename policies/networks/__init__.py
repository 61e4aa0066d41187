"""Networks that act: the candidate scorer, and those that one paper's agent needs for itself.

A candidate scorer (policies.networks.policy) suits any scenario. A network of another form has a
file of its own with its settings and shapes (policies.networks.fixed), the policy that acts with it
and its Architecture, and a line in ARCHITECTURES.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pipeline.simulation.spec import Feature
from policies.networks.features import FeatureMap
from policies.networks.policy import LearnedPolicy
from policies.networks.settings import Weights


class AnyNetwork(Protocol):
    """A network without its weights, as a checkpoint keeps it."""

    @property
    def settings(self) -> Any:
        """Frozen dataclass with `kind`, `context` (whether it is read) and `image`."""

    @property
    def candidates(self) -> FeatureMap:
        """Feature map of the candidates."""

    @property
    def context(self) -> FeatureMap:
        """Feature map of the context."""

    @property
    def pixels(self) -> int:
        """Pixels of the image that is read, 0 for none."""

    @property
    def threshold(self) -> float:
        """Share of the likeliest candidate's probability that a choice needs, 0 for none."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight."""


Features = tuple[Feature, ...]


@dataclass(frozen=True)
class Architecture:
    """A form of network besides the candidate scorer.

    policy     (name, network, weights, context, candidates) -> the policy that acts with it
    settings   frozen dataclass, with the `kind` that names the architecture
    network    (settings, context, candidates) -> the network, unscaled; DatasetError for features
               that it cannot read
    """

    policy: Callable[[str, Any, Weights, Features, Features], LearnedPolicy]
    settings: type[Any]
    network: Callable[[Any, Features, Features], Any]


# The module of each architecture, by the `kind` of its settings; loaded when named.
ARCHITECTURES: Final[Mapping[str, str]] = {
    "clusters": "policies.papers.liu.network",
    "prices": "policies.papers.prices.network",
    "servers": "policies.papers.thermal_report.network",
    "slot_scores": "policies.papers.osdec.policy",
}


def load_architecture(kind: str) -> Architecture:
    """Return the architecture of a kind in ARCHITECTURES."""
    architecture = importlib.import_module(ARCHITECTURES[kind]).ARCHITECTURE
    assert isinstance(architecture, Architecture)
    return architecture


def acting(
    name: str, network: AnyNetwork, weights: Weights, context: Features, candidates: Features
) -> LearnedPolicy:
    """Return the policy that acts with a network."""
    kind = network.settings.kind
    make: Any = load_architecture(kind).policy if kind in ARCHITECTURES else LearnedPolicy
    policy: LearnedPolicy = make(name, network, weights, context, candidates)
    return policy
