"""A trained scorer that acts, without torch: its shape, its weights, its compiled forward pass.

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
weights are those of `policies.networks.CandidateScorer`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.environment import Observation
from pipeline.errors import DatasetError, HindcastError, RecipeError
from pipeline.played import Player
from pipeline.policy import Reading
from pipeline.scenario import Instance, Scenario
from pipeline.schema import Feature, Spec
from policies.features import FeatureMap, fit_map, unscaled_map
from policies.forward import ATTENTION, DEEPSETS, MLP, PLACES, score_rows, score_sets

Weights = Mapping[str, NDArray[np.float32]]

_FEASIBLE: Final[tuple[Reading, ...]] = ("feasible",)
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


def layer_shapes(
    settings: NetworkSettings, inputs: int, pixels: int = 0, outputs: int = 1
) -> dict[str, tuple[int, ...]]:
    """Name and shape of every weight, in the order in which they are read.

    <layer>.weight (out, in), <layer>.bias (out,); layers are image, layer0, norm (weight (W,)),
    query, key, value, output, layer1, ..., as far as the settings have them.
    """
    shapes: dict[str, tuple[int, ...]] = {}

    def add(name: str, after: int, before: int) -> None:
        shapes[f"{name}.weight"] = (after, before)
        shapes[f"{name}.bias"] = (after,)

    if settings.image:
        add("image", settings.image, pixels)
    if settings.places:
        add("layer0", settings.places, inputs)
        return shapes
    for i, (before, after) in enumerate(pairwise((inputs, *settings.hidden, outputs))):
        pooled = 3 if i == 1 and settings.kind == "deepsets" else 1
        add(f"layer{i}", after, pooled * before)
        if i == 0 and settings.kind == "attention":
            if settings.norm:
                shapes["norm.weight"] = shapes["norm.bias"] = (after,)
            for part in ("query", "key", "value", "output"):
                add(part, after, after)
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
    if rows is None:
        return unscaled_map(candidates, columns, settings.quadratic, settings.logs)
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


class LearnedPolicy:
    """A scorer with weights, as a pipeline.policy.BatchPolicy.

    features_context, features_candidates   the spec's features that it was trained on
    """

    def __init__(
        self,
        name: str,
        network: Network,
        weights: Weights,
        features_context: tuple[Feature, ...],
        features_candidates: tuple[Feature, ...],
    ) -> None:
        self.name = name
        self.network = network
        self.features_context = features_context
        self.features_candidates = features_candidates
        self.weights = {key: np.ascontiguousarray(weights[key]) for key in network.shapes}
        layers = dict.fromkeys(key.split(".")[0] for key in network.shapes)
        outputs = network.settings.places or network.outputs
        self._widths = np.array([*network.settings.hidden, outputs])
        self._kind = PLACES if network.settings.places else KINDS[network.settings.kind]
        image: tuple[Reading, ...] = ("image",) if network.settings.image else ()
        self._reads = (*image, *_FEASIBLE) if network.sees_others else image
        self._flat = np.concatenate(
            [self.weights[f"{i}.{part}"].T.ravel() for i in layers for part in ("bias", "weight")]
        )

    @property
    def reads(self) -> tuple[Reading, ...]:
        """What it needs besides context and candidates."""
        return self._reads

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What `score_sets` takes between offsets and scores."""
        settings = self.network.settings
        return (
            *self.network.context.arrays, *self.network.candidates.arrays, self._widths,
            settings.activation == "tanh", self._kind, settings.heads, settings.norm,
            settings.image, self.network.threshold, self._flat,
        )  # fmt: skip

    def check(self, spec: Spec) -> None:
        """Raise DatasetError where `spec` has other features, RecipeError where other places."""
        _check_features(self.name, "candidate", self.features_candidates, spec.candidates)
        if self.network.settings.context:
            _check_features(self.name, "context", self.features_context, spec.context)
        if isinstance(self.network.settings, NetworkSettings):  # other kinds read rows as they do
            read_columns(spec.candidates, self.network.settings)
        pixels = int(np.prod(spec.image_shape)) if spec.image_shape else 0
        if self.network.settings.image and pixels != self.network.pixels:
            raise DatasetError(
                f"{self.name} was trained on images of {self.network.pixels} pixels, this scenario "
                f"setting has {pixels}; use the settings it was trained with"
            )

    def player(
        self, scenario: Scenario, spec: Spec, instance: Instance, temperature: float, epsilon: float
    ) -> Player | None:
        """An episode in compiled code; None for a network of another form."""
        from policies.playing import NetworkPlayer

        if type(self) is not LearnedPolicy:
            return None
        self.check(spec)
        return NetworkPlayer(self.name, self.arrays, scenario, spec, instance, temperature, epsilon)

    def scores(self, observation: Observation) -> NDArray[np.float64]:
        """One score per candidate, (N,)."""
        image = None if observation.image is None else observation.image.reshape(1, -1)
        return self.batch_scores(
            observation.context[None],
            observation.candidates,
            np.array([0, len(observation.candidates)]),
            feasible=observation.feasible,
            image=image,
        )

    def batch_scores(
        self,
        context: NDArray[np.float64],
        candidates: NDArray[np.float64],
        offsets: NDArray[np.int64],
        *,
        feasible: NDArray[np.bool_] | None = None,
        image: NDArray[np.uint8] | None = None,
    ) -> NDArray[np.float64]:
        """Scores (sum of N,) of B observations; see pipeline.policy.BatchPolicy.

        feasible (sum of N,), all where it is not given; image (B, P), of which only `reads` says
        whether it is needed. Raises HindcastError where arrays do not fit each other.
        """
        given = (context.shape[1:], candidates.shape[1:], len(context), int(offsets[-1]))
        expected = (
            (len(self.features_context),), (len(self.features_candidates),),
            len(offsets) - 1, len(candidates),
        )  # fmt: skip
        # Compiled code reads where it is told to; without context, the width of it is all the same.
        if given[1:] != expected[1:] or (self.network.settings.context and given != expected):
            raise HindcastError(
                f"{self.name}: context {context.shape} and candidates {candidates.shape} with "
                f"{len(offsets)} offsets up to {offsets[-1]} are not observations of "
                f"{len(self.features_context)} and {len(self.features_candidates)} features"
            )
        scores = np.empty(len(candidates))
        arrays = (
            np.ascontiguousarray(offsets, np.int64),
            *self.network.context.arrays,
            *self.network.candidates.arrays,
            self._widths,
            self.network.settings.activation == "tanh",
        )
        rows = np.ascontiguousarray(candidates, np.float64)
        moments = np.ascontiguousarray(context, np.float64)
        if not self.reads:
            score_rows(moments, rows, *arrays, self._flat, scores)  # type: ignore[call-arg]
            return scores
        settings = self.network.settings
        score_sets(  # type: ignore[call-arg]
            moments, rows, self._feasible(feasible, len(rows)), self._image(image, len(moments)),
            *arrays, self._kind, settings.heads, settings.norm, settings.image,
            self.network.threshold, self._flat, scores,
        )  # fmt: skip
        return scores

    def _feasible(self, feasible: NDArray[np.bool_] | None, count: int) -> NDArray[np.bool_]:
        if feasible is None:
            return np.ones(count, np.bool_)
        if feasible.shape != (count,):
            raise HindcastError(
                f"{self.name}: feasible {feasible.shape} does not fit {count} candidates"
            )
        return np.ascontiguousarray(feasible, np.bool_)

    def _image(self, image: NDArray[np.uint8] | None, count: int) -> NDArray[np.uint8]:
        if not self.network.settings.image:
            return np.zeros((count, 0), np.uint8)
        expected = (count, self.network.pixels)
        if image is None or image.shape != expected:
            shape = "none" if image is None else image.shape
            raise HindcastError(f"{self.name}: expected images {expected}, got {shape}")
        return np.ascontiguousarray(image, np.uint8)


def _check_features(
    policy: str, kind: str, trained: tuple[Feature, ...], given: tuple[Feature, ...]
) -> None:
    """Names, units, and what kind of column each is must agree, in order."""
    if len(trained) != len(given):
        raise DatasetError(
            f"{policy} was trained on {len(trained)} {kind} features "
            f"({', '.join(f.name for f in trained)}), this scenario setting has {len(given)} "
            f"({', '.join(f.name for f in given)}); use the settings it was trained with"
        )
    for at, (one, other) in enumerate(zip(trained, given, strict=True)):
        for what in ("name", "unit", "heavy_tailed", "identifier"):
            if getattr(one, what) != getattr(other, what):
                raise DatasetError(
                    f"{policy}: {kind} feature {at} was {one.name!r} with {what} "
                    f"{getattr(one, what)!r} in training, here it is {other.name!r} with {what} "
                    f"{getattr(other, what)!r}; use the settings it was trained with"
                )
