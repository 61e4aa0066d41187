"""Arithmetic of compiled networks in float32, with the same bits in every loop that uses it.

A processor may round a product and a sum together (fused multiply-add) or one after the other. The
compiler chooses for each loop if it may, so two loops over the same formula can differ in the last
bit. `fma` leaves no choice.
"""

from typing import Any, Final

from numba import types
from numba.extending import intrinsic

from hindcast.pipeline.simulation.kernel import compiled

_F: Final = types.float32


def _fused(_context: Any, x: Any, y: Any, z: Any) -> Any:
    """Return x * y + z of float32 numbers, rounded once."""

    def emit(_compiler: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return (_F(_F, _F, _F), emit) if x == y == z == _F else None


fma: Final[Any] = intrinsic(_fused)


@compiled(_F(_F, _F, _F, _F, _F, _F, _F, _F))
def dot4(x0: Any, w0: Any, x1: Any, w1: Any, x2: Any, w2: Any, x3: Any, w3: Any) -> Any:
    """Return x0 * w0 + x1 * w1 + x2 * w2 + x3 * w3, with four roundings."""
    return fma(x3, w3, fma(x2, w2, fma(x0, w0, x1 * w1)))


@compiled(_F(_F))
def tanh32(x: Any) -> Any:
    """Return tanh(x) within 3e-7, as the ratio of an odd and an even polynomial.

    A loop over it is vectorised; np.tanh calls the C library for every number, which takes thirty
    times as long and was a third of an episode of the DeepJS network.

    Source of the coefficients: Eigen, generic_fast_tanh_float.
    """
    f = _F
    y = min(max(x, f(-7.90531110763549805)), f(7.90531110763549805))
    s = y * y
    p = fma(s, f(-2.76076847742355e-16), f(2.00018790482477e-13))
    p = fma(s, p, f(-8.60467152213735e-11))
    p = fma(s, p, f(5.12229709037114e-08))
    p = fma(s, p, f(1.48572235717979e-05))
    p = fma(s, p, f(6.37261928875436e-04))
    p = y * fma(s, p, f(4.89352455891786e-03))
    q = fma(s, f(1.19825839466702e-06), f(1.18534705686654e-04))
    q = fma(s, q, f(2.26843463243900e-03))
    q = fma(s, q, f(4.89352518554385e-03))
    return p / q
