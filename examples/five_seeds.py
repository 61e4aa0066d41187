"""An agent in one file: softmax regression on the best choices of a log, in five trainings.

`python five_seeds.py DATASET` trains, and writes five_seeds.npz beside this file.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Scores = Callable[[Array, Array, Array], Array]
WEIGHTS = Path(__file__).with_suffix(".npz")
SEEDS = range(5)
STEPS, BATCH, RATE = 500, 512, 0.5


def train(folder: str) -> None:
    """Fit the choices of the tenth of episodes with the lowest mean slowdown, once per seed."""
    import hindcast

    dataset = hindcast.open_dataset(folder)
    episodes = dataset.episodes("train").sort("mean_slowdown")
    best = episodes.head(len(episodes) // 10)["episode"].to_list()
    batch = next(dataset.batches(60_000, np.random.default_rng(0), k=6))
    kept = np.isin(batch.episode, best)
    rows, mask, choice = batch.candidates[kept], batch.mask[kept], batch.choice[kept]
    scale = np.maximum(np.abs(rows).max(axis=(0, 1)), 1.0)
    found = {}
    for seed in SEEDS:
        rng, weights = np.random.default_rng(seed), np.zeros(rows.shape[2])
        for _ in range(STEPS):
            drawn = rng.integers(len(rows), size=BATCH)
            part = rows[drawn] / scale
            scores = np.where(mask[drawn], part @ weights, -1e9)
            error = np.exp(scores - scores.max(axis=1, keepdims=True))
            error /= error.sum(axis=1, keepdims=True)
            error[np.arange(BATCH), choice[drawn]] -= 1.0
            weights -= RATE * np.einsum("bk,bkf->f", error, part) / BATCH
        found[f"seed{seed}"] = weights / scale
    np.savez(WEIGHTS, **found)


def training(name: str) -> Scores:
    """Return the function of a training."""
    weights = np.load(WEIGHTS)[name] if WEIGHTS.exists() else None

    def scores(context: Array, candidates: Array, feasible: Array) -> Array:
        return np.asarray(candidates @ weights)

    scores.weights = WEIGHTS.name  # type: ignore[attr-defined]
    return scores


seed0, seed1, seed2, seed3, seed4 = (training(f"seed{seed}") for seed in SEEDS)

if __name__ == "__main__":
    train(sys.argv[1])
