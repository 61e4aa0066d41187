"""What the networks of single papers have in common: a form of their own, the context, no image."""

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from policies.networks.features import FeatureMap

S = TypeVar("S")


class FixedSettings:
    """Settings of a network that reads the context and no image; subclasses have a `kind`."""

    context: ClassVar[bool] = True
    image: ClassVar[int] = 0


@dataclass(frozen=True)
class FixedNetwork(Generic[S]):
    """A network without its weights, in the terms of policies.networks.settings.Network.

    Subclasses have `shapes`, name and shape of every weight.
    """

    settings: S
    candidates: FeatureMap
    context: FeatureMap
    pixels: int = 0
    threshold: float = 0.0
