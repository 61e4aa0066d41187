"""Squared distances between policies, by their choices on the same logged decisions.

    k(c, c')   exp(-|z(c) - z(c')|^2 / 2F)      z: F standardised columns of a candidate
    d(p, q)    mean over reference decisions of
               sum over candidates c, c' of (p - q)(c) * k(c, c') * (p - q)(c')

This is the squared maximum mean discrepancy of the two distributions over candidates (Gretton et
al. 2012), averaged over decisions. Policies that take different but similar candidates are nearer
than policies that take dissimilar ones. Reference decisions come from all episodes of the weighted
split in equal shares, so no behaviour decides where policies are compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.estimators import LoggedPolicies
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.ope.episodes import WholeEpisodes, pick
from hindcast.policies.ope.probabilities import policy_probabilities

Array = NDArray[np.float64]

_DECISIONS: Final = 4000
_PAIRS: Final = 1 << 25  # pairs of candidates over all reference decisions
_POLICIES: Final = 400
_SMALLEST: Final = 1e-9  # spread up to which a column counts as constant


@dataclass(frozen=True)
class PolicySpace:
    """Reference decisions, and the log's policies on them.

    Attributes:
        reference: The reference decisions.
        columns: (V, F) standardised columns of their candidates.
        smoothed: (V, P) sums over candidates of k times the probability of each logged policy.
        norms: (P,) inner product of every logged policy with itself.
        logged: The log's policies, for the estimator.
        names: (P,) names of their behaviours.
    """

    reference: WholeEpisodes
    columns: Array
    smoothed: Array
    norms: Array
    logged: LoggedPolicies
    names: NDArray[np.str_]

    def distances(self, behaviour: Behaviour) -> Array:
        """Return the squared distances (P,) of a policy to the log's policies."""
        every = policy_probabilities(behaviour, self.reference)
        norm = every @ _smooth(self.reference, self.columns, every[:, None])[:, 0]
        inner = every @ self.smoothed
        distances = (norm + self.norms - 2.0 * inner) / self.reference.decisions
        return np.asarray(np.maximum(distances, 0.0), np.float64)


def policy_space(
    log: WholeEpisodes,
    more: pl.DataFrame,
    behaviours: Mapping[str, Behaviour],
    spec: Spec,
    rng: np.random.Generator,
) -> PolicySpace:
    """Return the space of the policies that wrote the log.

    `more` are rows about further episodes of the dataset, whose returns are used too; they may be
    none. A rule that draws parameters is one policy per drawn set. Of more than 400 policies, those
    with the most episodes are kept, and the earlier ones among equals.
    """
    reference = pick(log, _places(log, rng))
    table = pl.concat([log.table, more.select(log.table.columns)])
    names = table["behaviour"].to_list()
    drawn = [tuple(p or ()) for p in table["behaviour_parameters"].to_list()]
    episodes: dict[tuple[str, tuple[float, ...]], list[int]] = {}
    for e, key in enumerate(zip(names, drawn, strict=True)):
        episodes.setdefault(key, []).append(e)
    policies = dict(sorted(episodes.items(), key=lambda item: -len(item[1]))[:_POLICIES])
    every = np.stack(
        [
            policy_probabilities(behaviours[name], reference, np.array(values, np.float64))
            for name, values in policies
        ],
        axis=1,
    )
    columns = _columns(reference, spec)
    smoothed = _smooth(reference, columns, every)
    inner = every.T @ smoothed
    norms = np.diag(inner)
    distance = np.maximum(norms[:, None] + norms[None] - inner - inner.T, 0.0)
    np.fill_diagonal(distance, 0.0)
    policy = np.repeat(np.arange(len(policies)), [len(members) for members in policies.values()])
    at = np.concatenate([np.array(members) for members in policies.values()])
    logged = LoggedPolicies(
        distance / reference.decisions, policy, table["window"].to_numpy()[at].astype(np.int64),
        table["return"].to_numpy()[at].astype(np.float64),
    )  # fmt: skip
    own = np.array([name for name, _values in policies])
    return PolicySpace(reference, columns, smoothed, norms, logged, own)


def _places(log: WholeEpisodes, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return reference decisions, in order: episodes drawn evenly, and a decision of each.

    Where decisions have many candidates, fewer are drawn, since the work grows with the pairs.
    """
    pairs = float((np.diff(log.rows).astype(np.float64) ** 2).mean())
    count = int(np.clip(_PAIRS / pairs, 1, _DECISIONS))
    episode = rng.integers(len(log), size=count)
    inside = rng.random(count) * np.diff(log.offsets)[episode]
    return np.unique(log.offsets[episode] + inside.astype(np.int64))


def _columns(reference: WholeEpisodes, spec: Spec) -> Array:
    """Return the candidates' columns (V, F) minus the decision's mean, over their spread.

    Heavy-tailed columns enter as logarithms, and a column without spread is left out.
    """
    learned = list(spec.learned_candidates)
    raw = reference.candidates[:, learned].astype(np.float64)
    heavy = [spec.candidates[column].heavy_tailed for column in learned]
    raw[:, heavy] = np.sign(raw[:, heavy]) * np.log1p(np.abs(raw[:, heavy]))
    feasible = reference.feasible.astype(np.float64)[:, None]
    start = reference.rows[:-1]
    sizes = np.diff(reference.rows)
    mean = np.add.reduceat(raw * feasible, start) / np.add.reduceat(feasible, start)
    centred = raw - np.repeat(mean, sizes, axis=0)
    spread = np.sqrt((centred[reference.feasible] ** 2).mean(axis=0))
    informative = spread > _SMALLEST
    return np.asarray(centred[:, informative] / spread[informative], np.float64)


def _smooth(reference: WholeEpisodes, columns: Array, every: Array) -> Array:
    """Return sums over the candidates of a decision of k times probability: (V, P) -> (V, P)."""
    smoothed = np.zeros_like(every)
    for start, stop in zip(reference.rows[:-1], reference.rows[1:], strict=True):
        rows = start + np.flatnonzero(reference.feasible[start:stop])
        points = columns[rows]
        size = (points**2).sum(axis=1)
        distances = np.maximum(size[:, None] + size[None] - 2.0 * points @ points.T, 0.0)
        similarity = np.exp(-distances / (2.0 * max(columns.shape[1], 1)))
        smoothed[rows] = similarity @ every[rows]
    return smoothed
