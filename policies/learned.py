"""A trained scorer that acts: numpy only, so that a worker need not load torch to evaluate.

    inputs   candidates (M, F) -> expanded (M, E);  context (B, C) -> expanded (B, G), repeated
    layers   y = activation(x W' + b), the last one linear and one number wide

The weights are those of `policies.networks.CandidateScorer`; layer 0 reads [candidate | context].
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.environment import Observation
from pipeline.errors import DatasetError
from pipeline.schema import Feature, Spec
from policies.features import FeatureMap

Weights = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class NetworkSettings:
    """The shape of a scorer.

    hidden       widths of the hidden layers; empty is a linear score
    activation   after every hidden layer
    quadratic    squares and products among the candidate's features
    context      whether the features of the moment are read too
    """

    hidden: tuple[int, ...] = ()
    activation: Literal["relu", "tanh"] = "relu"
    quadratic: bool = True
    context: bool = False


def layer_shapes(hidden: tuple[int, ...], inputs: int) -> dict[str, tuple[int, ...]]:
    """Name and shape of every weight: layer<i>.weight (out, in), layer<i>.bias (out,)."""
    widths = (inputs, *hidden, 1)
    shapes: dict[str, tuple[int, ...]] = {}
    for i, (before, after) in enumerate(pairwise(widths)):
        shapes[f"layer{i}.weight"] = (after, before)
        shapes[f"layer{i}.bias"] = (after,)
    return shapes


@dataclass(frozen=True)
class Network:
    """A scorer without its weights: settings and the two feature maps."""

    settings: NetworkSettings
    candidates: FeatureMap
    context: FeatureMap  # of no columns where settings.context is False

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight."""
        return layer_shapes(self.settings.hidden, self.candidates.size + self.context.size)


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
        depth = len(network.settings.hidden) + 1
        self._layers = [
            (np.ascontiguousarray(weights[f"layer{i}.weight"].T), weights[f"layer{i}.bias"])
            for i in range(depth)
        ]
        first = self._layers[0][0]
        self._from_candidate = np.ascontiguousarray(first[: network.candidates.size])
        self._from_context = np.ascontiguousarray(first[network.candidates.size :])

    def check(self, spec: Spec) -> None:
        """Raise DatasetError, naming the difference, where `spec` has other features."""
        _check_features(self.name, "candidate", self.features_candidates, spec.candidates)
        if self.network.settings.context:
            _check_features(self.name, "context", self.features_context, spec.context)

    def scores(self, observation: Observation) -> NDArray[np.float64]:
        """One score per candidate, (N,)."""
        offsets = np.array([0, len(observation.candidates)])
        return self.batch_scores(observation.context[None], observation.candidates, offsets)

    def batch_scores(
        self,
        context: NDArray[np.float64],
        candidates: NDArray[np.float64],
        offsets: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Scores (sum of N,) of B observations; see pipeline.policy.BatchPolicy."""
        hidden = self.network.candidates.expand(candidates) @ self._from_candidate
        if self.network.settings.context:
            per_observation = self.network.context.expand(context) @ self._from_context
            hidden += np.repeat(per_observation, np.diff(offsets), axis=0)
        hidden += self._layers[0][1]
        for weight, bias in self._layers[1:]:
            _ACTIVATIONS[self.network.settings.activation](hidden)
            hidden = hidden @ weight
            hidden += bias
        return hidden[:, 0].astype(np.float64)


def _relu(x: NDArray[np.float32]) -> None:
    np.maximum(x, 0.0, out=x)


def _tanh(x: NDArray[np.float32]) -> None:
    np.tanh(x, out=x)


_ACTIVATIONS: Final = {"relu": _relu, "tanh": _tanh}


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
