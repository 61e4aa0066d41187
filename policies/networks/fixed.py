"""Base classes for the networks of single papers: fixed architecture, context, no image."""

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from hindcast.policies.networks.features import FeatureMap
from hindcast.policies.networks.rules import NO_RULES, RuleColumns

S = TypeVar("S")


class FixedSettings:
    """Base of the settings; the network reads the context, no image. Subclasses have a `kind`."""

    context: ClassVar[bool] = True
    image: ClassVar[int] = 0


@dataclass(frozen=True)
class FixedNetwork(Generic[S]):
    """Base of a network without its weights, see hindcast.policies.networks.settings.Network.

    Subclasses have `shapes`, the name and shape of every weight.
    """

    settings: S
    candidates: FeatureMap
    context: FeatureMap
    pixels: int = 0
    threshold: float = 0.0
    rules: ClassVar[RuleColumns] = NO_RULES
