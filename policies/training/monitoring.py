"""What is measured of any agent while it learns, by the scorer that would act.

    log_agreement     share of decisions at which its first choice is the logged one: the gap to
                      the behaviour, 1 for a perfect imitator of a behaviour that never explores
    preference        correlation, within windows, between the mean reciprocal rank that it gives an
                      episode's logged choices and how well the episode went: -1 .. 1

Preference asks the same of every agent, whatever its scores mean: does it side with the better of
two episodes of one window? It needs no simulator and no propensities, is not what any agent but
the preference agents is trained on, and is measured on episodes that training has not seen. It says
little where episodes of a window hardly differ. Reciprocal ranks (1 for its first choice, 1/2 for
its second ...) look at the top, as acting does: over twelve checkpoints of six agents on
binpack-synthetic-v1 their preference had a rank correlation of .93 with the true makespan, that of
relative ranks .63. Both are measured on training decisions and, with `validation_` before the name,
on validation decisions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.dataset.decisions import Decisions
from policies.networks.checkpoint import Trained
from policies.training.minibatches import spaced_rows
from policies.training.returns import windows_of

SEEN: Final = 512  # training decisions to measure on; and
HELD_OUT: Final = 2048  # validation decisions: together a few per cent of an agent's time


@dataclass(frozen=True)
class ProbeSet:
    """Evenly spaced decisions of a split, as an acting policy is given them.

    context (D, C), image (D, P) or None; candidates (sum of N, F), the infeasible ones too, with
    feasible (sum of N,) and offsets (D + 1,); starts (D + 1,) offsets among the feasible, chosen
    (D,) position of the logged choice among them; episode (D,), window (E,), z (E,) return of an
    episode, standardised in its window, not a number where there is nothing to compare
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
    """At most `most` decisions to measure on."""
    d = decisions
    rows = spaced_rows(len(d), most)
    mask, choice = d.mask[rows], d.choice[rows]
    candidates = d.candidates[rows]
    shown = mask | (candidates != 0.0).any(axis=2)  # what is all zeros is padding
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


def _offsets(shown: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Where the rows of each decision begin, (D + 1,)."""
    return np.concatenate([[0], np.cumsum(shown.sum(axis=1))])


def _standardised(decisions: Decisions) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Windows and returns in them, (E,)."""
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
    """The metrics of the module's head; without preference where nothing can be compared."""
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
    """Correlation over episodes of the mean of `rank` (D,) with z, both in their window."""
    seen = np.bincount(episode, minlength=len(z))
    used = (seen > 0) & np.isfinite(z)
    if used.sum() < 2:
        return None
    mean = np.bincount(episode, rank, len(z))[used] / seen[used]
    inside, outcome = window[used], z[used]
    count = np.maximum(np.bincount(inside), 1)
    mean = mean - (np.bincount(inside, mean) / count)[inside]
    outcome = outcome - (np.bincount(inside, outcome) / count)[inside]
    size = float(np.sqrt((mean**2).sum() * (outcome**2).sum()))
    return float((mean * outcome).sum()) / size if size > 0.0 else None
