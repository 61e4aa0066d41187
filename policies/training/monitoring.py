"""Metrics of the acting scorer, measured during the training of any agent.

    log_agreement     share of decisions at which the scorer's first choice is the logged one: 1 for
                      a perfect imitator of a behaviour that never explores
    preference        correlation, within windows, between the mean reciprocal rank of an episode's
                      logged choices and the return of the episode: -1 to 1

Preference asks the same question of every agent, whatever its scores mean: does the agent side with
the better of two episodes of one window? Preference needs no simulator and no propensities. Only
the preference agents are trained on it, and it is measured on episodes that training has not seen.
It says little if the episodes of a window hardly differ. Reciprocal ranks (1 for the first choice,
1/2 for the second, ...) weigh the top, as acting does. Over twelve checkpoints of six agents on
binpack-synthetic-v1, preference with reciprocal ranks had a rank correlation of .93 with the true
makespan, and .63 with relative ranks. Both metrics are measured on training decisions, and on
validation decisions with the prefix `validation_`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.policies.networks.checkpoint import Trained
from hindcast.policies.training.learner import Task
from hindcast.policies.training.minibatches import spaced_rows
from hindcast.policies.training.returns import windows_of

SEEN: Final = 512  # training decisions to measure on
HELD_OUT: Final = 2048  # validation decisions; both take a few per cent of an agent's time


@dataclass(frozen=True)
class ProbeSet:
    """Evenly spaced decisions of a split, as an acting policy sees them.

    Attributes:
        context: (D, C).
        image: (D, P), or None.
        candidates: (sum of N, F), the infeasible ones too.
        feasible: (sum of N,) bool.
        offsets: (D + 1,) into candidates.
        starts: (D + 1,) offsets into the feasible candidates.
        chosen: (D,) position of the logged choice among the feasible candidates.
        episode: (D,) episode of the decision.
        window: (E,) window of the episode.
        z: (E,) return of the episode, standardised in its window; NaN if there is nothing to
            compare.
    """

    context: NDArray[np.float64]
    image: NDArray[np.uint8] | None
    candidates: NDArray[np.float64]
    feasible: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    starts: NDArray[np.int64]
    chosen: NDArray[np.int64]
    episode: NDArray[np.int64]
    window: NDArray[np.int64]
    z: NDArray[np.float64]


def make_probe_set(decisions: Decisions, most: int = HELD_OUT) -> ProbeSet:
    """Return at most `most` evenly spaced decisions to measure on."""
    d = decisions
    rows = spaced_rows(len(d), most)
    mask, choice = d.mask[rows], d.choice[rows]
    candidates = d.candidates[rows]
    shown = mask | (candidates != 0.0).any(axis=2)  # rows of zeros are padding
    starts = _offsets(mask)
    window, z = _standardised(d)
    before: NDArray[np.int64] = np.cumsum(mask, axis=1)[np.arange(len(rows)), choice] - 1
    return ProbeSet(
        context=d.context[rows].astype(np.float64),
        image=None if d.image is None else d.image[rows],
        candidates=candidates[shown].astype(np.float64),
        feasible=mask[shown],
        offsets=_offsets(shown),
        starts=starts,
        chosen=starts[:-1] + before,
        episode=d.episode[rows],
        window=window,
        z=z,
    )


def measure_of(task: Task) -> Callable[[Trained], Mapping[str, float]]:
    """Return the function that measures a checkpoint on the decisions of a training."""
    validation = task.validation
    held_out = None if validation is None or len(validation) == 0 else make_probe_set(validation)
    seen = make_probe_set(task.decisions, SEEN)

    def look(reached: Trained) -> Mapping[str, float]:
        metrics = dict(measure(reached, seen))
        if held_out is not None:
            metrics |= measure(reached, held_out, "validation_")
        return metrics

    return look


def _offsets(shown: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the offset of each decision's first row, (D + 1,)."""
    return np.concatenate([[0], np.cumsum(shown.sum(axis=1))])


def _standardised(decisions: Decisions) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the window of every episode, and its return standardised in the window, both (E,)."""
    returns = decisions.episodes["return"].to_numpy().astype(np.float64)
    window = windows_of(decisions)
    count = np.bincount(window)
    mean = np.bincount(window, returns) / count
    deviation = np.sqrt(np.bincount(window, (returns - mean[window]) ** 2) / count)
    nothing = np.full(len(returns), np.nan)
    comparable = (deviation > 0.0)[window]
    z = np.divide(returns - mean[window], deviation[window], out=nothing, where=comparable)
    return window, z


def measure(trained: Trained, probes: ProbeSet, prefix: str = "") -> Mapping[str, float]:
    """Return the metrics of the module's docstring; no preference if nothing can be compared."""
    w = probes
    scores = trained.policy().batch_scores(
        w.context, w.candidates, w.offsets, feasible=w.feasible, image=w.image
    )[w.feasible]
    count = np.diff(w.starts)
    logged = np.repeat(scores[w.chosen], count)
    starts = w.starts[:-1]
    above = np.add.reduceat((scores > logged) + 0.5 * (scores == logged), starts) - 0.5
    best = np.maximum.reduceat(scores, starts)
    metrics = {f"{prefix}log_agreement": float((scores[w.chosen] == best).mean())}
    several = count > 1
    reciprocal = 1.0 / (1.0 + above[several])
    preference = _preference(reciprocal, w.episode[several], w.window, w.z)
    if preference is not None:
        metrics[f"{prefix}preference"] = preference
    return metrics


def _preference(
    rank: NDArray[np.float64],
    episode: NDArray[np.int64],
    window: NDArray[np.int64],
    z: NDArray[np.float64],
) -> float | None:
    """Return the correlation over episodes of their mean `rank` with z, both centred by window.

    `rank` and `episode` are (D,) by decision, `window` and the standardised return z (E,) by
    episode; z is NaN where it is unknown. None if nothing varies.
    """
    decisions = np.bincount(episode, minlength=len(z))
    used = (decisions > 0) & np.isfinite(z)
    if used.sum() < 2:
        return None
    mean = np.bincount(episode, rank, len(z))[used] / decisions[used]
    window, z = window[used], z[used]
    count = np.maximum(np.bincount(window), 1)
    mean = mean - (np.bincount(window, mean) / count)[window]
    z = z - (np.bincount(window, z) / count)[window]
    norm = float(np.sqrt((mean**2).sum() * (z**2).sum()))
    return float((mean * z).sum()) / norm if norm > 0.0 else None
