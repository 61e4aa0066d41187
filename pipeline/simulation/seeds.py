"""Where randomness comes from: one generator per (recipe seed, purpose, window, repetition).

Generators are keyed by what they are for, not by order, so that results do not depend on the
number of workers, and adding a behaviour changes no other.
"""

import zlib

import numpy as np


def generator(seed: int, purpose: str, window: int = 0, repetition: int = 0) -> np.random.Generator:
    """The generator of one purpose ("trace", "instance", a behaviour's name)."""
    key = zlib.crc32(purpose.encode())
    return np.random.default_rng(np.random.SeedSequence([seed, key, window, repetition]))
