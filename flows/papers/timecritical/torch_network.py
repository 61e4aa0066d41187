"""Torch version of the network of hindcast.flows.papers.timecritical.network, for learning."""

from itertools import pairwise

import numpy as np
import torch
from torch import nn

from hindcast.flows.papers.timecritical.network import ClustersNetwork
from hindcast.policies.networks.settings import Weights


def make_value_network(
    network: ClustersNetwork, weights: Weights | None, rng: np.random.Generator
) -> nn.Sequential:
    """Return the network with these weights, or with random ones (He et al., ICCV 2015)."""
    layers: list[nn.Module] = []
    for i, (before, after) in enumerate(pairwise(network.widths)):
        layer = nn.Linear(before, after)
        with torch.no_grad():
            if weights is None:
                drawn = rng.normal(0.0, (2.0 / before) ** 0.5, (after, before))
                layer.weight.copy_(torch.from_numpy(drawn))
                layer.bias.zero_()
            else:
                layer.weight.copy_(torch.from_numpy(weights[f"layer{i}.weight"].copy()))
                layer.bias.copy_(torch.from_numpy(weights[f"layer{i}.bias"].copy()))
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def weights_of(scorer: nn.Sequential) -> Weights:
    """Return copies of the weights, float32, by the names of ClustersNetwork.shapes."""
    return {
        f"layer{i}.{part}": getattr(layer, part).detach().cpu().numpy().copy()
        for i, layer in enumerate(m for m in scorer if isinstance(m, nn.Linear))
        for part in ("weight", "bias")
    }
