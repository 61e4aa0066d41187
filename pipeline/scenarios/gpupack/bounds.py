"""Upper bound of the GPUs that any policy can place, by the models that pods accept."""

import numpy as np
from numpy.typing import NDArray

_MOST_MODELS = 16  # of which every set is tried


def placed_bound(
    asked: NDArray[np.int64], models: NDArray[np.int64], gpus_of: NDArray[np.int64]
) -> float:
    """Return the largest sum of requests that the GPUs of their models can hold.

    The minimum over sets of models of their GPUs and of the requests that accept another model, by
    the theorem of maximal flow. A policy can place less, since pods also need CPU and whole GPUs.

    asked (P,) thousandths, models (P,) bits, gpus_of (M,) thousandths by bit.
    """
    everything = float(min(asked.sum(), gpus_of.sum()))
    if len(gpus_of) > _MOST_MODELS:
        return everything
    bits = np.arange(len(gpus_of))
    best = everything
    groups, at = np.unique(models, return_inverse=True)
    asked_of = np.bincount(at, asked)
    for chosen in range(1 << len(gpus_of)):
        inside = gpus_of[(chosen >> bits) & 1 == 1].sum()
        accepts_more = (groups & ~np.int64(chosen)) != 0
        best = min(best, float(inside) + float(asked_of[accepts_more].sum()))
    return best
