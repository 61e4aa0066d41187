"""What a candidate scorer is without its weights: settings, what it reads, shapes.

    image    (B, P) uint8 / 255 -> activation(x W' + b), one dense layer, joined to the context
    inputs   candidates (M, F) -> expanded (M, E);  context (B, C) -> expanded (B, G), repeated
    layer 0  reads [candidate | context | image]; activated it is a candidate's encoding e (M, W)
    mlp        layer 1 reads e
    deepsets   layer 1 reads [e | mean of e | maximum of e] over the feasible of the observation
    attention  layer 1 reads e + self-attention of e over the feasible of the observation
    layers   y = activation(x W' + b), the last one linear and one number wide
    places   in place of all of that: [context | image] -> one number per place, a linear layer; a
             candidate's score is that of its place, and nothing else of its row is read

Infeasible candidates are never looked at by others, so they change no score, and no more does the
order of the candidates. Sources: Zaheer et al., "Deep Sets", NeurIPS 2017; Vaswani et al.,
"Attention Is All You Need", NeurIPS 2017; the dense layer over the image as in Mao et al.,
"Resource Management with Deep Reinforcement Learning", HotNets 2016, whose network is `places`. The
weights are those of `policies.networks.candidate_scorer.CandidateScorer`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import RecipeError
from pipeline.simulation.spec import Feature
from policies.networks.features import FeatureMap, fit_map, unscaled_map
from policies.networks.forward import ATTENTION, DEEPSETS, MLP

Weights = Mapping[str, NDArray[np.float32]]

KINDS: Final[Mapping[str, int]] = {"mlp": MLP, "deepsets": DEEPSETS, "attention": ATTENTION}
PLACE: Final = "place"  # the candidate feature that tells a row's place in the observation


@dataclass(frozen=True)
class NetworkSettings:
    """The shape of a scorer. Raises RecipeError for settings that make no network.

    hidden       widths of the hidden layers; empty is a linear score
    activation   after every hidden layer
    quadratic    squares and products among the candidate's features
    context      whether the features of the moment are read too
    kind         how a candidate sees the others: not at all, their mean and maximum, or by
                 attention; a linear score ("mlp" without hidden layers) cannot
    heads        of the attention; they share hidden[0] evenly
    norm         whether attention sees normalised encodings (pre-norm)
    image        width of what the observation's image becomes, 0: it is not read
    places       rows of an observation, where a score is of the image and the row's place alone;
                 0: it is of the row
    logs         logarithms of heavy-tailed features beside them; without, features are as they are
    """

    hidden: tuple[int, ...] = ()
    activation: Literal["relu", "tanh"] = "relu"
    quadratic: bool = True
    context: bool = False
    kind: Literal["mlp", "deepsets", "attention"] = "mlp"
    heads: int = 2
    norm: bool = False
    image: int = 0
    logs: bool = True
    places: int = 0

    def __post_init__(self) -> None:
        if self.places < 0:
            raise RecipeError(f"network: places is {self.places}, expected a number, or 0")
        if self.places and not (self.image and not self.hidden and self.kind == "mlp"):
            raise RecipeError(
                f"network: places is {self.places}, so that image must be above 0, hidden empty "
                'and kind "mlp": the places follow the image\'s layer'
            )
        if self.image < 0:
            raise RecipeError(f"network: image is {self.image}, expected a width, or 0 for none")
        if self.kind == "deepsets" and len(self.hidden) < 2:
            raise RecipeError(
                f"network: hidden is {list(self.hidden)}, but deepsets needs two hidden layers at "
                "least; with fewer, what is pooled adds the same to every score"
            )
        if self.kind == "attention" and not self.hidden:
            raise RecipeError("network: attention needs a hidden layer to work on")
        if self.kind == "attention" and (self.heads < 1 or self.hidden[0] % self.heads):
            raise RecipeError(
                f"network: heads is {self.heads}, which does not divide the {self.hidden[0]} of "
                "the first hidden layer"
            )


def dense(name: str, outputs: int, inputs: int) -> dict[str, tuple[int, ...]]:
    """Name and shape of the two weights of a dense layer."""
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def layer_shapes(
    settings: NetworkSettings, inputs: int, pixels: int = 0, outputs: int = 1
) -> dict[str, tuple[int, ...]]:
    """Name and shape of every weight, in the order in which they are read.

    <layer>.weight (out, in), <layer>.bias (out,); layers are image, layer0, norm (weight (W,)),
    query, key, value, output, layer1, ..., as far as the settings have them.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    if settings.image:
        shapes |= dense("image", settings.image, pixels)
    if settings.places:
        return shapes | dense("layer0", settings.places, inputs)
    for i, (before, after) in enumerate(pairwise((inputs, *settings.hidden, outputs))):
        pooled = 3 if i == 1 and settings.kind == "deepsets" else 1
        shapes |= dense(f"layer{i}", after, pooled * before)
        if i == 0 and settings.kind == "attention":
            if settings.norm:
                shapes["norm.weight"] = shapes["norm.bias"] = (after,)
            for part in ("query", "key", "value", "output"):
                shapes |= dense(part, after, after)
    return shapes


def read_columns(candidates: Sequence[Feature], settings: NetworkSettings) -> tuple[int, ...]:
    """Indices of the candidate features that a network of these settings reads.

    Raises RecipeError where rows do not tell the place that alone it would read, or have others.
    """
    if not settings.places:
        return tuple(i for i, f in enumerate(candidates) if not f.identifier)
    found = tuple(i for i, f in enumerate(candidates) if f.name == PLACE)
    if not found:
        raise RecipeError(
            f"network: places is {settings.places}, but no candidate feature is called {PLACE!r} "
            f"({', '.join(f.name for f in candidates)}); slots has it with an image"
        )
    last = candidates[found[0]].high
    if math.isfinite(last) and settings.places != last + 1:  # a checkpoint tells no ranges
        raise RecipeError(
            f"network: places is {settings.places}, expected {last + 1:g}, the rows of an "
            "observation"
        )
    return found


def candidate_map(
    candidates: Sequence[Feature],
    settings: NetworkSettings,
    rows: NDArray[np.floating] | None = None,
) -> FeatureMap:
    """What a network reads of a candidate, with the constants of raw training rows (M, F) if given.

    Raises RecipeError as `read_columns`.
    """
    columns = read_columns(candidates, settings)
    if settings.places:  # a number of its own, not a quantity
        return unscaled_map(candidates, columns, quadratic=False, logs=False)
    return fit_map(candidates, columns, settings.quadratic, rows, settings.logs)


@dataclass(frozen=True)
class Network:
    """A scorer without its weights: settings, the two feature maps, what it reads and gives.

    context     of no columns where settings.context is False
    pixels      of an image, 0 where it is not read
    outputs     numbers per candidate; 1 for a policy, but see `threshold`
    threshold   above 0 a policy has two outputs, a value and a log-likelihood, and chooses the
                highest value among candidates at least so likely, as a share of the likeliest
    """

    settings: NetworkSettings
    candidates: FeatureMap
    context: FeatureMap
    pixels: int = 0
    outputs: int = 1
    threshold: float = 0.0

    def __post_init__(self) -> None:
        if self.settings.places and self.outputs != 1:
            raise RecipeError(
                f"network: places is {self.settings.places}, one number each, but this agent needs "
                f"{self.outputs} per candidate; use places = 0"
            )

    @property
    def inputs(self) -> int:
        """What layer 0 reads: candidate, context, image."""
        row = 0 if self.settings.places else self.candidates.size
        return row + self.context.size + self.settings.image

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight."""
        return layer_shapes(self.settings, self.inputs, self.pixels, self.outputs)

    @property
    def sees_others(self) -> bool:
        """Whether a score depends on which other candidates are feasible."""
        return self.settings.kind != "mlp" or self.threshold > 0.0


def make_network(
    context: Sequence[Feature],
    candidates: Sequence[Feature],
    settings: NetworkSettings,
    pixels: int = 0,
    rows: NDArray[np.floating] | None = None,
    contexts: NDArray[np.floating] | None = None,
) -> Network:
    """Return a network over these features, standardised on raw training data if given.

    rows (M, F) of candidates, contexts (B, C). Raises RecipeError as `read_columns`.
    """
    columns = range(len(context)) if settings.context else ()
    read = fit_map(context, tuple(columns), quadratic=False, rows=contexts, logs=settings.logs)
    return Network(settings, candidate_map(candidates, settings, rows), read, pixels)
