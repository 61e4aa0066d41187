"""The random numbers of Go's package math/rand, which the published simulator draws.

An additive lagged Fibonacci generator keeps the last 607 values of

    y[n] = y[n - 607] + y[n - 273]    modulo 2^64

in 607 words with two indices, `tap` and `feed`, which fall by one before every value. Seeding mixes
a multiplicative generator with a table, the words after 7.8e12 values from a fixed start. The table
is computed here: the recurrence is linear, so the words after n values are a combination of the
first 607 with the coefficients of t^n modulo t^607 - t^334 - 1.

Source: the Go standard library, math/rand, whose streams are fixed by its promise of compatibility.
"""

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.simulation.kernel import Ints, compiled

WORDS: Final = 607
FEED: Final = 334  # first feed; the tap begins at 0
TAP_AT: Final = WORDS  # places of both indices behind the words
FEED_AT: Final = WORDS + 1
_BURNT: Final = 7_800_000_000_000  # values before the table
_PRIME: Final = (1 << 31) - 1
_MULTIPLIER: Final = 48271
_FOR_ZERO: Final = 89_482_311  # seed in place of 0
_SKIPPED: Final = 20  # values of the multiplicative generator before the first word
_I63: Final = (1 << 63) - 1
_U32: Final = (1 << 32) - 1


@compiled()
def _fill(words: Ints, seed: int, high: int, middle: int) -> None:
    """Fill words with (a << high) xor (b << middle) xor c of the multiplicative generator."""
    x = seed
    for _ in range(_SKIPPED):
        x = x * _MULTIPLIER % _PRIME
    for i in range(WORDS):
        a = x * _MULTIPLIER % _PRIME
        b = a * _MULTIPLIER % _PRIME
        x = b * _MULTIPLIER % _PRIME
        words[i] = (a << high) ^ (b << middle) ^ x


def _times(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a product of polynomials modulo t^607 - t^334 - 1, coefficients modulo 2^64."""
    whole = np.convolve(a, b)
    while len(whole) > WORDS:
        low, high = whole[:WORDS], whole[WORDS:]
        whole = np.pad(low, (0, max(0, FEED + len(high) - WORDS)))
        whole[: len(high)] += high
        whole[FEED : FEED + len(high)] += high
    return whole


@cache
def _table() -> NDArray[np.int64]:
    """Return the table of the seeding, (WORDS,).

    Value n is written to index (FEED - n) modulo WORDS. The first words are the values -606 to 0.
    """
    words, after, power, factor = np.zeros((4, WORDS), np.int64)
    _fill(words, 1, 20, 10)
    power[0] = factor[1] = 1
    left = _BURNT
    while left:
        power = _times(power, factor) if left % 2 else power
        factor, left = _times(factor, factor), left // 2
    numbers, lag = np.arange(1 - WORDS, 1), WORDS - FEED
    values = np.pad(words[(FEED - numbers) % WORDS], (0, WORDS))
    for at in range(WORDS, 2 * WORDS, lag):
        new = values[at : at + lag]
        new[:] = values[at - WORDS :][: len(new)] + values[at - lag :][: len(new)]
    after[(FEED - _BURNT - numbers) % WORDS] = np.correlate(values[:-1], power)
    return after


def seeded(seed: int) -> NDArray[np.int64]:
    """Return a stream of a seed: the words and both indices, (WORDS + 2,)."""
    stream = np.zeros(WORDS + 2, np.int64)
    _fill(stream[:WORDS], seed % _PRIME or _FOR_ZERO, 40, 20)
    stream[:WORDS] ^= _table()
    stream[FEED_AT] = FEED
    return stream


@compiled()
def draw(stream: Ints) -> int:
    """Return the next value, 64 bits as a signed integer."""
    stream[TAP_AT] = (stream[TAP_AT] - 1) % WORDS
    stream[FEED_AT] = (stream[FEED_AT] - 1) % WORDS
    value = stream[stream[FEED_AT]] + stream[stream[TAP_AT]]
    stream[stream[FEED_AT]] = value
    return value  # type: ignore[no-any-return]


@compiled()
def below(stream: Ints, n: int) -> int:
    """Return a whole number from 0 to below n, n < 2^31, as Intn does."""
    value = (draw(stream) & _I63) >> 32
    if n & (n - 1) == 0:
        return value & (n - 1)
    largest = _PRIME - (1 << 31) % n
    while value > largest:
        value = (draw(stream) & _I63) >> 32
    return value % n


@compiled()
def shuffle(stream: Ints, items: Ints) -> None:
    """Shuffle items as Shuffle does, which draws below n in another way than `below`."""
    for i in range(len(items) - 1, 0, -1):
        n = i + 1
        product = ((draw(stream) & _I63) >> 31) * n
        while product & _U32 < ((1 << 32) - n) % n:
            product = ((draw(stream) & _I63) >> 31) * n
        j = product >> 32
        items[i], items[j] = items[j], items[i]


@compiled()
def permute(stream: Ints, permutation: Ints) -> None:
    """Fill a permutation as Perm does."""
    for i in range(len(permutation)):
        j = below(stream, i + 1)
        permutation[i] = permutation[j]
        permutation[j] = i
