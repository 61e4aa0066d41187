"""Reference implementation of the published action of `deferrable`, a whole slot at once."""

import numpy as np


def prefix(scores, cores, free_cores):
    """Return the startable jobs to start, in order: the longest prefix by score that fits.

    scores (K,), higher first; cores (K,); returns (k,) indices, k <= K.
    """
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    fits = np.cumsum(np.asarray(cores, np.float64)[order]) <= free_cores
    return order[: int(np.argmin(fits)) if not fits.all() else len(order)].astype(np.int64)
