"""A trained scorer that acts: one compiled function, so that a worker need not load torch.

    inputs   candidates (M, F) -> expanded (M, E);  context (B, C) -> expanded (B, G), repeated
    layers   y = activation(x W' + b), the last one linear and one number wide

The weights are those of `policies.networks.CandidateScorer`; layer 0 reads [candidate | context].
A lock-step asks for a few hundred to a few ten thousand rows, ten thousands of times: row by row in
one's own loops costs no call, no temporary and no thread, and a row's score is the same, bit for
bit, whatever is scored along with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from pipeline.environment import Observation
from pipeline.errors import DatasetError, HindcastError
from pipeline.schema import Feature, Spec
from policies.features import COLUMNS, CONSTANTS, FLAGS, INPUTS, ROWS, FeatureMap, expand_row

Weights = Mapping[str, NDArray[np.float32]]

_COMPILE: Final[dict[str, Any]] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract"},  # fused multiply-add; nothing is reordered
}


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


@njit(
    types.void(INPUTS, types.int64, INPUTS, types.int64, INPUTS, types.int64),
    **_COMPILE,
)
def _add_product(x: Any, n: Any, flat: Any, at: Any, out: Any, width: Any) -> None:
    """out[:width] += x[:n] @ flat[at:] as (n, width), four inputs at a time.

    Unsigned indices: numba looks for negative ones otherwise, and the inner loop is not vectorised
    (ten times slower).
    """
    w = np.uint64(width)
    whole = n - n % 4
    for j in range(0, whole, 4):
        i0 = np.uint64(at) + np.uint64(j) * w
        i1, i2, i3 = i0 + w, i0 + w + w, i0 + w + w + w
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for unsigned in range(width):
            k = np.uint64(unsigned)
            out[k] += x0 * flat[i0 + k] + x1 * flat[i1 + k] + x2 * flat[i2 + k] + x3 * flat[i3 + k]
    for j in range(whole, n):
        for left in range(width):
            out[left] += x[j] * flat[at + j * width + left]


def layer_shapes(hidden: tuple[int, ...], inputs: int) -> dict[str, tuple[int, ...]]:
    """Name and shape of every weight: layer<i>.weight (out, in), layer<i>.bias (out,)."""
    widths = (inputs, *hidden, 1)
    shapes: dict[str, tuple[int, ...]] = {}
    for i, (before, after) in enumerate(pairwise(widths)):
        shapes[f"layer{i}.weight"] = (after, before)
        shapes[f"layer{i}.bias"] = (after,)
    return shapes


@njit(
    types.void(
        ROWS, ROWS, COLUMNS,
        COLUMNS, FLAGS, types.boolean, CONSTANTS, CONSTANTS,
        COLUMNS, FLAGS, types.boolean, CONSTANTS, CONSTANTS,
        COLUMNS, types.boolean, INPUTS, types.Array(types.float64, 1, "C"),
    ),
    **_COMPILE,
)  # fmt: skip
def _score(
    context: Any, candidates: Any, offsets: Any,
    c_columns: Any, c_heavy: Any, c_quadratic: Any, c_mean: Any, c_inverse: Any,
    columns: Any, heavy: Any, quadratic: Any, mean: Any, inverse: Any,
    widths: Any, tanh: Any, flat: Any, scores: Any,
) -> None:  # fmt: skip
    """Fill scores (M,); `flat` is bias (out,) then weight (in, out), layer after layer."""
    n, g = len(mean), len(c_mean)
    widest = max(widths.max(), n, g)
    x, h = np.empty(widest, np.float32), np.empty(widest, np.float32)
    start = np.empty(widths[0], np.float32)  # of layer 0: bias and the context's part
    base = np.empty(max(len(columns), len(c_columns)))
    for b in range(len(offsets) - 1):
        start[:] = flat[: widths[0]]
        if g > 0:
            expand_row(context[b], c_columns, c_heavy, c_quadratic, c_mean, c_inverse, base, x)
            _add_product(x, g, flat, widths[0] * (1 + n), start, widths[0])
        for i in range(offsets[b], offsets[b + 1]):
            expand_row(candidates[i], columns, heavy, quadratic, mean, inverse, base, x)
            h[: widths[0]] = start
            _add_product(x, n, flat, widths[0], h, widths[0])
            at = widths[0] * (1 + n + g)
            for layer in range(1, len(widths)):
                before, width = widths[layer - 1], widths[layer]
                for j in range(before):
                    x[j] = np.tanh(h[j]) if tanh else max(h[j], np.float32(0.0))
                h[:width] = flat[at : at + width]
                _add_product(x, before, flat, at + width, h, width)
                at += width * (1 + before)
            scores[i] = h[0]


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
        layers = range(len(network.settings.hidden) + 1)
        self._widths = np.array([*network.settings.hidden, 1])
        self._flat = np.concatenate(
            [
                self.weights[f"layer{i}.{part}"].T.ravel()
                for i in layers
                for part in ("bias", "weight")
            ]
        )

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
        _score(  # type: ignore[call-arg]
            np.ascontiguousarray(context, np.float64),
            np.ascontiguousarray(candidates, np.float64),
            np.ascontiguousarray(offsets, np.int64),
            *self.network.context.arrays,
            *self.network.candidates.arrays,
            self._widths,
            self.network.settings.activation == "tanh",
            self._flat,
            scores,
        )
        return scores


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
