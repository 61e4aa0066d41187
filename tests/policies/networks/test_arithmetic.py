"""Arithmetic of compiled networks."""

from fractions import Fraction

import numpy as np

from hindcast.policies.networks.arithmetic import dot4, tanh32
from hindcast.policies.networks.forward import LANES, add_product, add_products

RNG = 20261125


def test_tanh32_is_the_hyperbolic_tangent():
    """Odd, never above 1, and near the exact value for numbers of every size."""
    sizes = np.concatenate([np.linspace(0.0, 20.0, 4001), np.geomspace(1e-30, 1e30, 121)])
    for x in sizes.astype(np.float32):
        exact = np.tanh(np.float64(x))
        found = tanh32(x)
        assert abs(found - exact) <= 3e-7 * exact
        assert found <= 1.0
        assert tanh32(-x) == -found


def rounded(number):
    """Return the float32 nearest to a fraction; float64 holds a product of two float32 exactly."""
    low = np.float32(float(number))
    near = [np.nextafter(low, np.float32(side), dtype=np.float32) for side in (-np.inf, np.inf)]
    return min((low, *near), key=lambda each: abs(Fraction(float(each)) - number))


def fused(x, y, z):
    """Return x * y + z, rounded once."""
    return rounded(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))


def four(x, w):
    """Return a sum of four products, rounded as `dot4` says."""
    sum_of_two = fused(x[0], w[0], np.float32(x[1] * w[1]))
    return fused(x[3], w[3], fused(x[2], w[2], sum_of_two))


def test_dot4_rounds_four_times_in_one_order():
    rng = np.random.default_rng(RNG)
    for x, w in rng.normal(size=(300, 2, 4)).astype(np.float32):
        assert dot4(x[0], w[0], x[1], w[1], x[2], w[2], x[3], w[3]) == four(x, w)


def test_products_of_one_row_and_of_several_have_the_bits_of_the_formula():
    """Independent of widths, which the compiler may vectorise or not."""
    rng = np.random.default_rng(RNG)
    for n, width in [(1, 1), (4, 1), (5, 3), (8, 8), (11, 9), (7, 32), (12, 17)]:
        rows = rng.normal(size=(LANES, n)).astype(np.float32)
        weights = rng.normal(size=(n, width)).astype(np.float32)
        start = rng.normal(size=width).astype(np.float32)
        expected = np.tile(start, (LANES, 1))
        for row, out in zip(rows, expected, strict=True):
            for k in range(width):
                for j in range(0, n - n % 4, 4):
                    out[k] += four(row[j : j + 4], weights[j : j + 4, k])
                for j in range(n - n % 4, n):
                    out[k] = fused(row[j], weights[j, k], out[k])
        flat, alone = weights.reshape(-1), np.tile(start, (LANES, 1))
        for row, out in zip(rows, alone, strict=True):
            add_product(row, n, flat, 0, out, width)
        beside = np.repeat(start, LANES)
        add_products(np.ascontiguousarray(rows.T).reshape(-1), n, flat, 0, beside, width)
        assert np.array_equal(alone, expected)
        assert np.array_equal(beside.reshape(width, LANES).T, expected)
