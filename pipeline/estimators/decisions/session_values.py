"""Fitted Q evaluation of sessions: what a policy earns from a decision to the session's end.

    q(o, c)   linear in the context, the place in the session and the candidate's features
    target    r_t + sum over c of pi(c | o_(t+1)) * q(o_(t+1), c)        0 after the last decision

Each round fits q to the targets of the round before, by the ridge regression of `reward_model`.
There are at most as many rounds as the longest session has decisions: the k-th knows the rewards of
k decisions. q is cross-fitted by unit: the values of a session come from the folds that lack it.
Values beyond the range of the sums that the log saw are cut to it, so that no round diverges.
Doubly robust is unbiased for any such q (Jiang & Li 2016). Source: Le, Voloshin & Yue 2019 (FQE).
"""

from typing import Final

import numpy as np

from hindcast.pipeline.estimators.decisions.logged import Array, Flags, Ints, LoggedDecisions
from hindcast.pipeline.estimators.decisions.reward_model import PENALTY

_MOST_ROUNDS: Final = 100
_CLOSE: Final = 1e-9  # change of the values, relative to their range, at which rounds end


def cross_fitted_fqe(
    e: LoggedDecisions, target: Array, first: Ints, context: Array, candidates: Array, folds: Ints
) -> tuple[Array, Array]:
    """Return the values q (D,) of the taken candidates and v (D,) of the policy.

    Args:
        e: The decisions, those of a session one after the other.
        target: (C,) probabilities of the policy.
        first: (E,) first decision of each session.
        context: (D, F) features of the decisions, finite.
        candidates: (C, G) features of the candidates, finite.
        folds: (D,) fold of each decision's unit.
    """
    count = len(e)
    lengths = np.diff(np.concatenate([first, [count]]))
    place = np.arange(count) - np.repeat(first, lengths)
    last = np.zeros(count, bool)
    last[first + lengths - 1] = True
    shared = np.hstack([context, place[:, None].astype(np.float64)])
    chance = np.where(e.feasible, target, 0.0)
    expected = np.zeros((count, candidates.shape[1]))
    for k, feature in enumerate(candidates.T):
        expected[:, k] = np.bincount(e.owner, chance * feature, count)
    taken = np.hstack([shared, candidates[e.taken]])
    of_policy = np.hstack([shared, expected])
    sums = np.cumsum(e.reward[::-1])[::-1]
    sums = sums - np.repeat((sums - e.reward)[last], lengths)  # rewards to the session's end
    q, v = np.zeros(count), np.zeros(count)
    rounds = min(int(lengths.max(initial=1)), _MOST_ROUNDS)
    for fold in np.unique(folds):
        learn, mine = folds != fold, folds == fold
        if not learn.any():  # all units are in one fold: the model knows nothing
            continue
        coefficients, intercept = _fitted(e, taken, of_policy, last, sums, learn, rounds)
        q[mine] = intercept + taken[mine] @ coefficients
        v[mine] = intercept + of_policy[mine] @ coefficients
    return q, v


def _fitted(
    e: LoggedDecisions, taken: Array, of_policy: Array, last: Flags, sums: Array, learn: Flags,
    rounds: int,
) -> tuple[Array, float]:  # fmt: skip
    """Return coefficients and intercept of q after the rounds, on the decisions of `learn`."""
    x, reward = taken[learn], e.reward[learn]
    # A session is of one unit, so that the decision after one in `learn` is in it as well.
    following, ended = of_policy[learn][1:], last[learn]
    weight = e.weight[learn] / e.weight[learn].mean()
    low, high = float(sums[learn].min()), float(sums[learn].max())
    total = weight.sum()
    mean = weight @ x / total
    centred = x - mean
    weighted = (centred * weight[:, None]).T
    gram = weighted @ centred
    gram[np.diag_indices_from(gram)] += PENALTY
    later = np.zeros(len(x))
    coefficients, intercept = np.zeros(x.shape[1]), 0.0
    for _ in range(rounds):
        goal = reward + later
        coefficients = np.linalg.solve(gram, weighted @ goal)
        intercept = float(weight @ goal / total) - float(mean @ coefficients)
        before = later
        later = np.zeros(len(x))
        later[:-1] = np.clip(intercept + following @ coefficients, low, high)
        later[ended] = 0.0
        if np.abs(later - before).max() <= _CLOSE * max(high - low, 1e-300):
            break
    return coefficients, intercept
