"""Reward models of candidates, cross-fitted by unit, for the direct method and doubly robust.

The reference model is a ridge regression with penalty 1 and a free intercept on features of the
context and the candidate, in five folds.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.estimators.decisions.logged import Array, Flags, Ints, LoggedDecisions

FOLDS: Final = 5
PENALTY: Final = 1.0


def hashes(texts: Iterable[str]) -> NDArray[np.uint64]:
    """Return the first 16 hex digits of the SHA-256 of each text as a number."""
    sha256, found = hashlib.sha256, bytearray()
    for text in texts:
        found += sha256(text.encode()).digest()[:8]
    return np.frombuffer(found, ">u8").astype(np.uint64)


def folds_of(units: Iterable[str]) -> Ints:
    """Return the folds of units: the first 16 hex digits of SHA-256 of "fold|" + id, modulo 5."""
    return (hashes(f"fold|{u}" for u in units) % FOLDS).astype(np.int64)


def ridge(x: Array, y: Array, weight: Array, penalty: float = PENALTY) -> tuple[Array, float]:
    """Return coefficients and intercept of a weighted ridge regression, the intercept free."""
    total = weight.sum()
    mean_x, mean_y = weight @ x / total, float(weight @ y / total)
    centred = x - mean_x
    gram = (centred * weight[:, None]).T @ centred
    gram[np.diag_indices_from(gram)] += penalty
    coefficients = np.linalg.solve(gram, centred.T @ (weight * (y - mean_y)))
    return coefficients, mean_y - float(mean_x @ coefficients)


def cross_fitted_ridge(
    e: LoggedDecisions, context: Array, candidates: Array, folds: Ints, used: Flags | None = None
) -> Array:
    """Return the values q (C,) of all candidates, each from the folds that lack its decision.

    Args:
        e: The decisions.
        context: (D, F) features of the decisions, finite.
        candidates: (C, G) features of the candidates, finite.
        folds: (D,) fold of each decision's unit.
        used: (D,) decisions that the model learns from; all by default.
    """
    used = np.ones(len(e), bool) if used is None else used
    scaled = e.weight / e.weight[used].mean()
    q = np.empty(len(e.owner))
    for fold in np.unique(folds):
        learn = np.flatnonzero(used & (folds != fold))
        rows = folds[e.owner] == fold
        if not len(learn):  # all units are in one fold: the model knows nothing
            q[rows] = 0.0
            continue
        x = np.hstack([context[learn], candidates[e.taken[learn]]])
        coefficients, intercept = ridge(x, e.reward[learn], scaled[learn])
        of_context = context @ coefficients[: context.shape[1]]
        of_candidate = candidates[rows] @ coefficients[context.shape[1] :]
        q[rows] = intercept + of_context[e.owner[rows]] + of_candidate
    return q
