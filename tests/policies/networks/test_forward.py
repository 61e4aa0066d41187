"""Compiled forward passes."""

import numpy as np

from policies.networks.forward import tanh32


def test_tanh32_is_the_hyperbolic_tangent():
    """Odd, never above 1, and near the exact value for numbers of every size."""
    sizes = np.concatenate([np.linspace(0.0, 20.0, 4001), np.geomspace(1e-30, 1e30, 121)])
    for x in sizes.astype(np.float32):
        exact = np.tanh(np.float64(x))
        found = tanh32(x)
        assert abs(found - exact) <= 3e-7 * exact
        assert found <= 1.0
        assert tanh32(-x) == -found
