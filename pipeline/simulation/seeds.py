"""Random generators: one per recipe seed, purpose, window and repetition.

Generators are keyed by their purpose and not by order of use. Results therefore do not depend on
the number of workers, and a new behaviour changes no other behaviour.
"""

import zlib

import numpy as np


def generator(seed: int, purpose: str, window: int = 0, repetition: int = 0) -> np.random.Generator:
    """Return the generator of one purpose ("trace", "instance", the name of a behaviour)."""
    key = zlib.crc32(purpose.encode())
    return np.random.default_rng(np.random.SeedSequence([seed, key, window, repetition]))
