"""Estimated propensities of recorded decisions, and whether they support an estimate.

The model says how likely each candidate was, given that a job started at that moment. So the
weight of an episode is the product, over its decisions that start a job, of

    P(choice | a job starts, evaluated policy) / P(choice | a job starts, behaviour model)

and decisions that wait have the weight 1: the evaluated policy is taken to wait where the log
waited. The product has hundreds of factors, so that the weights of most policies collapse onto one
episode, however good the model is. `support` measures it before any estimate.
"""

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.ope.behaviour.choice_sets import choices_of_episodes, starting
from hindcast.policies.ope.behaviour.logit import Logit, log_probabilities
from hindcast.policies.ope.episodes import WholeEpisodes

Array = NDArray[np.float64]

LEAST_EPISODES: Final = 10.0  # effective number, below which weights have collapsed
LARGEST_SHARE: Final = 0.5  # of all weights, above which one episode decides alone


@dataclass(frozen=True)
class Support:
    """Support of a log for the estimate of a policy.

    Attributes:
        episodes: Number of episodes.
        effective: Effective number of episodes, (sum w)^2 / sum w^2.
        largest: Share of the largest weight in the sum of all.
        spread: Standard deviation of the logarithms of the weights; infinite if one is 0.
    """

    episodes: int
    effective: float
    largest: float
    spread: float

    @property
    def collapsed(self) -> bool:
        """True if an estimate would rest on a few episodes."""
        return not (self.effective >= LEAST_EPISODES and self.largest <= LARGEST_SHARE)

    @property
    def reason(self) -> str:
        """The measurements in words."""
        return (
            f"the weights leave {self.effective:.1f} of {self.episodes} episodes, the largest "
            f"has {self.largest:.0%} of all weight, and their logarithms spread by "
            f"{self.spread:.1f}; an estimate needs {LEAST_EPISODES:.0f} episodes and at most "
            f"{LARGEST_SHARE:.0%}"
        )


def support(log_weights: Array) -> Support:
    """Return the support of an estimate from the log-weights of the episodes, (E,)."""
    size = len(log_weights)
    highest = float(log_weights.max()) if size else -np.inf
    if np.isneginf(highest):
        return Support(size, 0.0, 1.0, float("inf"))
    weights = np.exp(log_weights - highest)
    total = float(weights.sum())
    spread = float(log_weights.std()) if np.isfinite(log_weights).all() else float("inf")
    return Support(size, total**2 / float((weights**2).sum()), 1.0 / total, spread)


def estimated(logit: Logit, episodes: WholeEpisodes, spec: Spec) -> pl.DataFrame:
    """Return episode, step and the model's probability of the recorded choice, by decision.

    It is null where no job starts, and 1 where only one could.
    """
    rows, may = starting(episodes, spec)
    del rows
    sets = choices_of_episodes(episodes, spec)
    propensity = np.full(episodes.decisions, np.nan)
    propensity[may[episodes.chosen]] = 1.0
    propensity[sets.place] = np.exp(log_probabilities(logit.utilities(sets), sets)[sets.chosen])
    steps = np.diff(episodes.offsets)
    return pl.DataFrame({
        "episode": np.repeat(episodes.table["episode"].to_numpy(), steps),
        "step": np.arange(episodes.decisions) - np.repeat(episodes.offsets[:-1], steps),
        "propensity": pl.Series(propensity).fill_nan(None),
    })  # fmt: skip


def conditional(
    probabilities: Array, episodes: WholeEpisodes, spec: Spec, estimates: pl.DataFrame
) -> tuple[Array, Array]:
    """Return the probabilities of the recorded choices under a policy and under the model, (D,).

    `probabilities` are those of the evaluated policy for every candidate, (V,). Both are 1 for
    decisions that the model does not cover. Raises DatasetError if a decision has no row among the
    estimates.
    """
    _, may = starting(episodes, spec)
    of_policy = np.where(may, probabilities, 0.0)
    totals = np.add.reduceat(of_policy, episodes.rows[:-1])
    model = aligned(episodes, estimates)
    covered = ~np.isnan(model)
    with np.errstate(invalid="ignore"):
        share = np.where(totals > 0.0, of_policy[episodes.chosen] / totals, 0.0)
    return np.where(covered, share, 1.0), np.where(covered, model, 1.0)


def aligned(episodes: WholeEpisodes, estimates: pl.DataFrame) -> Array:
    """Return the estimated propensities (D,) in the order of the decisions; NaN where null."""
    steps = np.diff(episodes.offsets)
    decisions = pl.DataFrame({
        "episode": np.repeat(episodes.table["episode"].to_numpy(), steps).astype(np.int64),
        "step": np.arange(episodes.decisions) - np.repeat(episodes.offsets[:-1], steps),
    })  # fmt: skip
    joined = decisions.join(
        estimates.with_columns(known=True),
        on=["episode", "step"],
        how="left",
        maintain_order="left",
    )
    if joined["known"].null_count():
        row = joined.filter(pl.col("known").is_null()).row(0, named=True)
        raise DatasetError(
            f"the estimated propensities have no row for decision {row['step']} of episode "
            f"{row['episode']}; estimate them again"
        )
    return joined["propensity"].fill_null(float("nan")).to_numpy().astype(np.float64)


def described(logit: Logit, **more: Any) -> dict[str, Any]:
    """Return a model as JSON values."""
    values = {name: np.asarray(v).tolist() for name, v in asdict(logit).items()}
    return {"model": "conditional logit", **more, **values}
