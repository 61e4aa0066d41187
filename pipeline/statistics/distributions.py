"""Quantiles and tails of Student's t, beta and chi-square, from the incomplete beta and gamma.

Sources: Press et al., Numerical Recipes, 3rd edition, sections 6.2 and 6.4 (continued fractions of
Lentz).
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Final

_TINY: Final = 1e-300
_CLOSE: Final = 1e-15
_STEPS: Final = 500


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the probability that a beta variable is at most x."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        + a * math.log(x) + b * math.log1p(-x)
    )  # fmt: skip
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(x, a, b) / a
    return 1.0 - front * _beta_fraction(1.0 - x, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1.0 / _apart(1.0 - (a + b) * x / (a + 1.0))
    h = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / _apart(1.0 + term * d)
            c = _apart(1.0 + term / c)
            h *= c * d
        if abs(c * d - 1.0) < _CLOSE:
            break
    return h


def _apart(value: float) -> float:
    """Return a value that can be divided by."""
    return value if abs(value) > _TINY else _TINY


@cache
def beta_quantile(p: float, a: float, b: float) -> float:
    """Return the p-quantile of a beta variable."""
    return _solve(lambda x: beta_cdf(x, a, b), p, 0.0, 1.0)


@cache
def t_quantile(p: float, degrees: float) -> float:
    """Return the p-quantile of Student's t with `degrees` of freedom."""
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -t_quantile(1.0 - p, degrees)
    x = beta_quantile(2.0 * (1.0 - p), degrees / 2.0, 0.5)
    return math.sqrt(degrees * (1.0 - x) / x) if x > 0.0 else math.inf


def t_tails(t: float, degrees: float) -> float:
    """Return the probability that Student's t is at least `t` away from 0."""
    return beta_cdf(degrees / (degrees + t * t), degrees / 2.0, 0.5)


def chi_square_tail(x: float, degrees: float) -> float:
    """Return the probability that a chi-square variable is at least x."""
    a, x = degrees / 2.0, x / 2.0
    if x <= 0.0:
        return 1.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1.0:
        term = total = 1.0 / a
        for k in range(1, _STEPS * 20):
            term *= x / (a + k)
            total += term
            if term < total * _CLOSE:
                break
        return max(0.0, 1.0 - front * total)
    b = x + 1.0 - a
    c, d = 1.0 / _TINY, 1.0 / b
    h = d
    for k in range(1, _STEPS * 20):
        b += 2.0
        d = 1.0 / _apart(-k * (k - a) * d + b)
        c = _apart(b - k * (k - a) / c)
        h *= c * d
        if abs(c * d - 1.0) < _CLOSE:
            break
    return front * h


def _solve(cdf: Callable[[float], float], p: float, low: float, high: float) -> float:
    """Return where a distribution function reaches p, by bisection to the last bits."""
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if cdf(middle) < p:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)
