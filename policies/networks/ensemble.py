"""The mean of the scores of several networks, as one network.

    inputs    those of the widest network; the others must read inputs of these names
    layer 0   | W1 |         layer i   | W1  0 |      last layer   [ W1 / M | W2 / M ]
              | W2 |                   |  0 W2 |

Trainings with different seeds end in policies of about the same quality, which err on different
moments. The mean of their scores errs less. The ensemble of M scorers is an
ordinary scorer with layers M times as wide: it is saved, played and trained like any other.

Sources: Hansen & Salamon, "Neural Network Ensembles", IEEE Transactions on Pattern Analysis and
Machine Intelligence 12, 1990; of policies: Wiering & van Hasselt, "Ensemble Algorithms in
Reinforcement Learning", IEEE Transactions on Systems, Man, and Cybernetics B 38, 2008.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import DatasetError
from hindcast.policies.networks.features import FeatureMap, input_names
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import Network, NetworkSettings, Weights

Floats = NDArray[np.float64]
Layer = tuple[Floats, Floats]  # weights (out, in) and bias (out,)


def mean_of_scores(policies: Sequence[LearnedPolicy], names: Sequence[str] = ()) -> LearnedPolicy:
    """Return a policy whose scores are the means of those of `policies`, up to rounding.

    The policies are candidate scorers of kind "mlp" with equally many layers, one activation and
    the same rules. A single policy is returned as it is. Raises DatasetError if they do not fit
    each other; `names` are those of the policies in errors, by default those of their agents.
    """
    first = policies[0]
    if len(policies) == 1:
        return first
    known = names or [policy.name for policy in policies]
    widest = max(policies, key=lambda policy: policy.network.candidates.size)
    for policy, name in zip(policies, known, strict=True):
        _check(policy, name, widest)
    candidates, of_rows = _joined(policies, known, widest, _candidates)
    context, of_context = _joined(policies, known, widest, _context)
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
            stacked = [weight for weight, _ in layers]
            weight = _diagonal(stacked) if i else np.vstack(stacked)
            bias = np.concatenate([bias for _, bias in layers])
        found[f"layer{i}.weight"] = weight.astype(np.float32)
        found[f"layer{i}.bias"] = bias.astype(np.float32)
    return found


class _Inputs(NamedTuple):
    """The inputs of one network among those of the ensemble.

    Attributes:
        own: Feature map of the network.
        places: (E,) place of each of its inputs among those of the ensemble.
        shared: Feature map of the ensemble.
    """

    own: FeatureMap
    places: NDArray[np.int64]
    shared: FeatureMap

    def moved(self, weight: Floats) -> Layer:
        """Return the weights (W, E) over the inputs of the ensemble, and what the bias gains (W,).

        An input of the network is (x - mean) * inverse with its own constants.
        """
        inverse, mean = self.shared.inverse[self.places], self.shared.mean[self.places]
        scale = np.divide(self.own.inverse, inverse, out=np.zeros_like(inverse), where=inverse > 0)
        found = np.zeros((len(weight), self.shared.size))
        found[:, self.places] = weight * scale
        return found, weight @ ((mean - self.own.mean) * self.own.inverse)


def _joined(
    policies: Sequence[LearnedPolicy],
    known: Sequence[str],
    widest: LearnedPolicy,
    which: Callable[[LearnedPolicy], tuple[FeatureMap, list[str]]],
) -> tuple[FeatureMap, list[_Inputs]]:
    """Return the feature map of the ensemble, and the inputs of each network among its inputs."""
    shared, names = which(widest)
    place = {name: i for i, name in enumerate(names)}
    mean, inverse = shared.mean.copy(), shared.inverse.copy()
    found = []
    for policy, called in zip(policies, known, strict=True):
        own, of_own = which(policy)
        missing = [name for name in of_own if name not in place]
        if missing:
            raise DatasetError(
                f"{called}: a network reads {missing[0]!r}, which the widest of the networks "
                "to average does not read; average networks of the same columns"
            )
        places = np.array([place[name] for name in of_own], np.int64)
        seen = (inverse[places] == 0.0) & (own.inverse > 0.0)  # constant in training so far
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


def _diagonal(blocks: Sequence[Floats]) -> Floats:
    """Return the block diagonal matrix of these matrices."""
    found = np.zeros(np.sum([block.shape for block in blocks], axis=0))
    row = column = 0
    for block in blocks:
        down, right = block.shape
        found[row : row + down, column : column + right] = block
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


def _check(policy: LearnedPolicy, called: str, widest: LearnedPolicy) -> None:
    """Raise DatasetError if the scores of a policy and of the widest one have no mean network."""
    network, settings = policy.network, policy.network.settings
    plain = (
        isinstance(settings, NetworkSettings)
        and settings.kind == "mlp"
        and not settings.image
        and network.outputs == 1
    )
    if not plain:
        raise DatasetError(
            f'{called}: only scores of networks of kind "mlp" without an image, with one '
            f"score per candidate, can be averaged; this one is of kind {settings.kind!r}"
        )
    for name, value in _form(network).items():
        other = _form(widest.network)[name]
        if value != other:
            raise DatasetError(
                f"{called}: {name} is {value!r} in one of the networks to average and "
                f"{other!r} in another; they must agree"
            )
