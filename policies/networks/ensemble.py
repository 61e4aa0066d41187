"""The mean of the scores of several networks, as one network.

    inputs    those of the widest network; the others must read inputs of these names
    layer 0   | W1 |         layer i   | W1  0 |      last layer   [ W1 / M | W2 / M ]
              | W2 |                   |  0 W2 |

Trainings with different seeds end in different policies of about the same quality, and the errors
of one are not those of another. Their mean score errs less. The ensemble of M scorers is an
ordinary scorer with layers M times as wide: it is saved, played and trained like any other.

Sources: Hansen & Salamon, "Neural Network Ensembles", IEEE Transactions on Pattern Analysis and
Machine Intelligence 12, 1990; of policies: Wiering & van Hasselt, "Ensemble Algorithms in
Reinforcement Learning", IEEE Transactions on Systems, Man, and Cybernetics B 38, 2008.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import DatasetError
from policies.networks.features import FeatureMap, input_names
from policies.networks.policy import LearnedPolicy
from policies.networks.settings import Network, NetworkSettings, Weights

Floats = NDArray[np.float64]
Layer = tuple[Floats, Floats]  # weights (out, in) and bias (out,)


def mean_of_scores(policies: Sequence[LearnedPolicy]) -> LearnedPolicy:
    """Return a policy whose scores are the means of those of `policies`, up to rounding.

    The policies are candidate scorers of kind "mlp" with equally many layers, one activation and
    the same rules. A single policy is returned as it is. Raises DatasetError if they do not fit
    each other.
    """
    first = policies[0]
    if len(policies) == 1:
        return first
    widest = max(policies, key=lambda policy: policy.network.candidates.size)
    for policy in policies:
        _check(policy, widest)
    candidates, of_rows = _joined(policies, widest, _candidates)
    context, of_context = _joined(policies, widest, _context)
    members = [_layers(*one) for one in zip(policies, of_rows, of_context, strict=True)]
    widths = zip(*(policy.network.settings.hidden for policy in policies), strict=True)
    settings = replace(widest.network.settings, hidden=tuple(map(sum, widths)))
    network = replace(widest.network, settings=settings, candidates=candidates, context=context)
    return LearnedPolicy(
        first.name, network, _side_by_side(members),
        widest.features_context, widest.features_candidates,
    )  # fmt: skip


def _side_by_side(members: Sequence[Sequence[Layer]]) -> Weights:
    """Return the weights of the ensemble from the layers of its members."""
    found: dict[str, NDArray[np.float32]] = {}
    of_layer = list(zip(*members, strict=True))
    for i, layers in enumerate(of_layer):
        if i == len(of_layer) - 1:
            scaled = [weight / len(members) for weight, _ in layers]
            weight = np.hstack(scaled) if i else np.sum(scaled, axis=0)
            bias = np.sum([bias / len(members) for _, bias in layers], axis=0)
        else:
            weight = _diagonal(layers) if i else np.vstack([weight for weight, _ in layers])
            bias = np.concatenate([bias for _, bias in layers])
        found[f"layer{i}.weight"] = weight.astype(np.float32)
        found[f"layer{i}.bias"] = bias.astype(np.float32)
    return found


class _Inputs:
    """The inputs of one network among those of the ensemble."""

    def __init__(self, own: FeatureMap, places: NDArray[np.int64], shared: FeatureMap) -> None:
        self._own, self._places, self._shared = own, places, shared

    def moved(self, weight: Floats) -> Layer:
        """Return the weights (W, E) over the inputs of the ensemble, and what the bias gains (W,).

        An input of the network is (x - mean) * inverse with its own constants.
        """
        inverse, mean = self._shared.inverse[self._places], self._shared.mean[self._places]
        scale = np.divide(self._own.inverse, inverse, out=np.zeros_like(inverse), where=inverse > 0)
        found = np.zeros((len(weight), self._shared.size))
        found[:, self._places] = weight * scale
        return found, weight @ ((mean - self._own.mean) * self._own.inverse)


def _joined(
    policies: Sequence[LearnedPolicy],
    widest: LearnedPolicy,
    which: Callable[[LearnedPolicy], tuple[FeatureMap, list[str]]],
) -> tuple[FeatureMap, list[_Inputs]]:
    """Return the feature map of the ensemble, and the inputs of each network among its inputs."""
    shared, names = which(widest)
    place = {name: i for i, name in enumerate(names)}
    mean, inverse = shared.mean.copy(), shared.inverse.copy()
    found = []
    for policy in policies:
        own, of_own = which(policy)
        missing = [name for name in of_own if name not in place]
        if missing:
            raise DatasetError(
                f"{policy.name}: a network reads {missing[0]!r}, which the widest of the networks "
                "to average does not read; average networks of the same columns"
            )
        places = np.array([place[name] for name in of_own], np.int64)
        seen = (inverse[places] == 0.0) & (own.inverse > 0.0)  # constant in the other's training
        mean[places[seen]], inverse[places[seen]] = own.mean[seen], own.inverse[seen]
        found.append((own, places))
    together = shared._replace(mean=mean, inverse=inverse)
    return together, [_Inputs(own, places, together) for own, places in found]


def _candidates(policy: LearnedPolicy) -> tuple[FeatureMap, list[str]]:
    network = policy.network
    features = network.rules.widened(policy.features_candidates)
    return network.candidates, input_names(features, network.candidates)


def _context(policy: LearnedPolicy) -> tuple[FeatureMap, list[str]]:
    return policy.network.context, input_names(policy.features_context, policy.network.context)


def _layers(policy: LearnedPolicy, row: _Inputs, around: _Inputs) -> list[Layer]:
    """Return the layers of a network; the first one reads the inputs of the ensemble."""
    first, *rest = [
        (
            policy.weights[f"layer{i}.weight"].astype(np.float64),
            policy.weights[f"layer{i}.bias"].astype(np.float64),
        )
        for i in range(len(policy.network.settings.hidden) + 1)
    ]
    (weight, bias), size = first, policy.network.candidates.size
    of_row, by_row = row.moved(weight[:, :size])
    of_context, by_context = around.moved(weight[:, size:])
    return [(np.hstack([of_row, of_context]), bias + by_row + by_context), *rest]


def _diagonal(layers: Sequence[Layer]) -> Floats:
    """Return the block diagonal matrix of the layers' weights."""
    shapes = np.array([weight.shape for weight, _ in layers])
    found, (row, column) = np.zeros(shapes.sum(axis=0)), (0, 0)
    for weight, _ in layers:
        down, right = weight.shape
        found[row : row + down, column : column + right] = weight
        row, column = row + down, column + right
    return found


def _form(network: Network) -> dict[str, object]:
    """Return what networks to average must have in common, by name."""
    settings = network.settings
    return {
        "number of hidden layers": len(settings.hidden),
        "activation": settings.activation,
        "rules": network.rules.names,
    }


def _check(policy: LearnedPolicy, widest: LearnedPolicy) -> None:
    """Raise DatasetError if the scores of two policies have no mean in one network."""
    network, settings = policy.network, policy.network.settings
    plain = (
        isinstance(settings, NetworkSettings)
        and settings.kind == "mlp"
        and not settings.image
        and network.outputs == 1
    )
    if not plain:
        raise DatasetError(
            f'{policy.name}: only scores of networks of kind "mlp" without an image, with one '
            f"score per candidate, can be averaged; this one is of kind {settings.kind!r}"
        )
    for name, value in _form(network).items():
        other = _form(widest.network)[name]
        if value != other:
            raise DatasetError(
                f"{policy.name}: {name} is {value!r} in one of the networks to average and "
                f"{other!r} in another; they must agree"
            )
