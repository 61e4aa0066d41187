"""Two trained scorers as one network with two outputs, so that one forward pass serves both.

    layer 0            [A_x | A_c | A_image .       ]      reads [candidate | context | image a | b]
                       [B_x | B_c .       | B_image ]
    layer i, others    [A .]                               hidden layers are side by side
                       [. B]

The two parts are independent: each output is that of its scorer alone.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from hindcast.policies.networks.settings import Network, Weights

Matrix = NDArray[np.float32]


def side_by_side(network: Network) -> Network:
    """Return the shape of two scorers of one shape: twice as wide, with two outputs."""
    settings = network.settings
    return dataclasses.replace(
        network,
        outputs=2 * network.outputs,
        settings=dataclasses.replace(
            settings,
            hidden=tuple(2 * width for width in settings.hidden),
            image=2 * settings.image,
        ),
    )


def merge(network: Network, a: Weights, b: Weights) -> Weights:
    """Return weights of `side_by_side(network)` from those of two scorers of shape `network`."""
    read = network.candidates.size + network.context.size
    return {name: _merged(name, a[name], b[name], network, read) for name in network.shapes}


def _merged(name: str, a: Matrix, b: Matrix, network: Network, read: int) -> Matrix:
    layer, part = name.split(".")
    if part == "bias" or layer == "image":
        return np.concatenate([a, b])
    if layer == "layer0":
        return np.hstack(
            [np.vstack([a[:, :read], b[:, :read]]), _diagonal(a[:, read:], b[:, read:])]
        )
    if layer == "layer1" and network.settings.kind == "deepsets":
        blocks = zip(np.split(a, 3, axis=1), np.split(b, 3, axis=1), strict=True)
        return np.hstack([_diagonal(*block) for block in blocks])
    return _diagonal(a, b)


def _diagonal(a: Matrix, b: Matrix) -> Matrix:
    """Return a matrix with two blocks of one shape on the diagonal, and zeros elsewhere."""
    zero = np.zeros_like(a)
    return np.block([[a, zero], [zero, b]])
