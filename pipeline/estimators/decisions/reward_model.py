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


def fold_models(x: Array, y: Array, weight: Array, folds: Ints, used: Flags | None = None) -> Array:
    """Return the ridge regression of each fold, learned in the others: intercepts, coefficients.

    A fold whose others are empty has a model of zeros. The moments of each fold are taken once.

    Args:
        x: (D, F) features, finite.
        y: (D,) rewards.
        weight: (D,) weights of the records.
        folds: (D,) folds from 0 on.
        used: (D,) decisions that the models learn from; all by default.
    """
    used = np.ones(len(y), bool) if used is None else used
    scaled = np.where(used, weight / weight[used].mean(), 0.0)
    middle = scaled @ x / scaled.sum()  # moments about it lose no digits to large features
    moments = []
    for fold in range(int(folds.max(initial=-1)) + 1):
        rows = np.flatnonzero(used & (folds == fold))
        # 1, features, reward
        z = np.column_stack([np.ones(len(rows)), x[rows] - middle, y[rows]])
        moments.append((z * scaled[rows, None]).T @ z)
    models = np.zeros((len(moments), 1 + x.shape[1]))
    for fold in range(len(moments)):
        others = np.sum([m for k, m in enumerate(moments) if k != fold], axis=0)
        total = others[0, 0] if np.ndim(others) else 0.0
        if not total > 0.0:
            continue
        mean = others[0] / total
        centred = others - total * np.outer(mean, mean)
        gram, of_y = centred[1:-1, 1:-1], centred[1:-1, -1]
        coefficients = np.linalg.solve(gram + PENALTY * np.eye(len(gram)), of_y)
        models[fold, 0] = mean[-1] - (middle + mean[1:-1]) @ coefficients
        models[fold, 1:] = coefficients
    return models


def predicted(models: Array, context: Array, candidates: Array, folds: Ints, owner: Ints) -> Array:
    """Return the values (C,) of candidates by the models of their decisions' folds.

    Args:
        models: (K, 1 + F + G) intercepts and coefficients of `fold_models`.
        context: (D, F) features of the decisions.
        candidates: (C, G) features of the candidates.
        folds: (D,) folds of the decisions.
        owner: (C,) decision of each candidate.
    """
    split = 1 + context.shape[1]
    of_context = models[:, 0] + context @ models[:, 1:split].T
    of_candidates = candidates @ models[:, split:].T
    mine = of_context[np.arange(len(folds)), folds][owner]
    return np.asarray(mine + of_candidates[np.arange(len(owner)), folds[owner]])


def cross_fitted_ridge(e: LoggedDecisions, context: Array, candidates: Array, folds: Ints) -> Array:
    """Return the values q (C,) of all candidates, each from the folds that lack its decision.

    Args:
        e: The decisions.
        context: (D, F) features of the decisions, finite.
        candidates: (C, G) features of the candidates, finite.
        folds: (D,) fold of each decision's unit, from 0 on.
    """
    x = np.hstack([context, candidates[e.taken]])
    models = fold_models(x, e.reward, e.weight, folds)
    return predicted(models, context, candidates, folds, e.owner)
