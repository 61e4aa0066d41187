"""Logged episodes as arrays, with the importance weights of the evaluated policy.

    episode          0 0 0 1 1 2 ...          offsets   [0, 3, 5, ...]
    decision         0 1 2 0 1 0 ...
    weight after t   product over the episode's decisions 0..t of evaluation / behaviour

Products over hundreds of decisions leave the range of a double, so weights are stored as sums of
logarithms. Where an estimator is a ratio, weights are divided by the largest one before they become
numbers.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.estimators.logged_policies import LoggedPolicies

Array = NDArray[np.float64]

LARGEST_LOG: Final = (
    690.0  # its exponential is still a double; larger weights are cut, with a warning
)
_ROUNDING: Final = 1e-5  # stored probabilities are float32
_OF_DECISIONS: Final = (
    "behaviour", "evaluation", "elapsed_s", "q", "v", "covered", "features", "next_features"
)  # fmt: skip
_OF_EPISODES: Final = ("group", "initial_features")


@dataclass(frozen=True)
class LoggedEpisodes:
    """E whole episodes of D decisions, and the behaviour of the evaluated policy at each decision.

    They are `e` in the estimators. A truncated episode counts with the rewards that were recorded.
    Raises InputError for arrays of other lengths, numbers out of range, and unknown propensities.

    Attributes:
        offsets: (E + 1,) int64; the decisions of episode e are rows offsets[e]:offsets[e + 1].
        behaviour: (D,) probability that the logged policy made the logged choice, above 0.
        evaluation: (D,) probability that the evaluated policy would make the logged choice.
        reward: (D,) rewards.
        elapsed_s: (D,) seconds from the decision to the next one; needed to discount per second.
        discount: Discount of a reward, per decision or per second since the episode's start; 0 to
            1.
        discount_per: Unit of the discount: "decision" or "second".
        q: (D,) the evaluated policy's value of the logged choice.
        v: (D,) the evaluated policy's value of the state: sum over choices of probability * q.
        covered: (D,) share of the evaluated policy's probability that lies on choices which the
            behaviour could make.
        group: (E,) unit of the sample (the window) of each episode; None makes each episode a unit.
        mixture: True if `behaviour` is the probability under the mixture of all episodes of a unit.
            Weights then average one over a unit, not for each episode.
        features: (D, d) features of the logged choice.
        next_features: (D, d) expected features of the next choice under the evaluated policy; 0 at
            the end of an episode.
        initial_features: (E, d) expected features of the first choice under the evaluated policy.
        policies: The log's own policies, with their distances and returns.
        to_policies: (P,) squared distances of the evaluated policy to the policies of the log.
    """

    offsets: NDArray[np.int64]
    behaviour: Array
    evaluation: Array
    reward: Array
    elapsed_s: Array | None = None
    discount: float = 1.0
    discount_per: Literal["decision", "second"] = "decision"
    q: Array | None = None
    v: Array | None = None
    covered: Array | None = None
    group: NDArray[np.int64] | None = None
    mixture: bool = False
    features: Array | None = None
    next_features: Array | None = None
    initial_features: Array | None = None
    policies: LoggedPolicies | None = None
    to_policies: Array | None = None

    def __post_init__(self) -> None:
        _check(self)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Number of decisions of every episode, (E,)."""
        return np.diff(self.offsets)

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """Row of every episode's first decision, (E,)."""
        return self.offsets[:-1]

    @cached_property
    def last(self) -> NDArray[np.int64]:
        """Row of every episode's last decision, (E,)."""
        return self.offsets[1:] - 1

    @cached_property
    def step_discount(self) -> Array:
        """Discount between every decision and the next one, (D,)."""
        if self.elapsed_s is None:  # only needed to discount per second
            return np.full(len(self.reward), self.discount)
        per_second = self.discount_per == "second"
        from hindcast.pipeline.statistics.returns import step_discounts  # loads numba

        return step_discounts(self.elapsed_s, self.discount, per_second=per_second)

    @cached_property
    def discounts(self) -> Array:
        """Discount between the start of the episode and every decision, (D,)."""
        if self.discount == 1.0:
            return np.ones(len(self.reward))
        shifted = np.ones(len(self.reward))
        shifted[1:] = self.step_discount[:-1]
        shifted[self.first] = 1.0
        with np.errstate(divide="ignore"):  # a discount of 0 is allowed
            return np.asarray(np.exp(self.cumulative(np.log(shifted))), np.float64)

    @cached_property
    def returns(self) -> Array:
        """Discounted returns, (E,)."""
        return self.sums(self.discounts * self.reward)

    @cached_property
    def log_weight(self) -> Array:
        """Logarithm of the weight after every decision, (D,); -inf where the weight is zero."""
        with np.errstate(divide="ignore"):
            return self.cumulative(np.log(self.evaluation) - np.log(self.behaviour))

    @cached_property
    def log_weights(self) -> Array:
        """Logarithm of every whole episode's weight, (E,)."""
        return self.log_weight[self.last]

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """Unit of every episode, numbered 0, 1, 2, ..., (E,)."""
        if self.group is None:
            return np.arange(len(self))
        return np.unique(self.group, return_inverse=True)[1].astype(np.int64)

    @cached_property
    def sizes(self) -> Array:
        """Number of episodes of every unit, (G,)."""
        return np.bincount(self.units).astype(np.float64)

    def take(self, keep: NDArray[np.bool_]) -> "LoggedEpisodes":
        """Return the episodes where `keep` (E,) is True, in their order."""
        rows = np.repeat(keep, self.lengths)
        named = {
            **dict.fromkeys(("reward", *_OF_DECISIONS), rows), **dict.fromkeys(_OF_EPISODES, keep),
        }  # fmt: skip
        there = {name: at for name, at in named.items() if getattr(self, name) is not None}
        return replace(
            self, offsets=np.concatenate([[0], np.cumsum(self.lengths[keep])]),
            **{name: getattr(self, name)[at] for name, at in there.items()},
        )  # fmt: skip

    def by_unit(self, values: Array) -> Array:
        """Return sums over the episodes of every unit: (E,) -> (G,)."""
        return np.asarray(np.bincount(self.units, values, len(self.sizes)), np.float64)

    def sums(self, values: Array) -> Array:
        """Return sums over the decisions of every episode: (D,) -> (E,)."""
        return np.asarray(np.add.reduceat(values, self.first), np.float64)

    def cumulative(self, values: Array) -> Array:
        """Return running sums inside every episode, (D,); after -inf a sum stays -inf."""
        is_zero = np.isneginf(values)
        finite = np.where(is_zero, 0.0, values)
        running = np.concatenate([np.cumsum(rows) for rows in np.split(finite, self.first[1:])])
        zeros = np.cumsum(is_zero)
        before: NDArray[np.int64] = np.repeat(zeros[self.first] - is_zero[self.first], self.lengths)
        running[zeros > before] = -np.inf
        return np.asarray(running, np.float64)


def _check(e: LoggedEpisodes) -> None:
    """Raise InputError for arrays that do not fit, or propensities that are unknown."""
    n, offsets = len(e.reward), np.asarray(e.offsets)
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != n or (np.diff(offsets) < 1).any():
        raise InputError(
            f"offsets of episodes must begin with 0, end with {n} (the number of decisions) and "
            "rise by at least one, as every episode has a decision"
        )
    for name in (*_OF_DECISIONS, *_OF_EPISODES):
        values, expected = getattr(e, name), n if name in _OF_DECISIONS else len(e)
        if values is not None and len(values) != expected:
            raise InputError(f"{name} has {len(values)} rows, expected {expected}")
    unknown = int(np.isnan(e.behaviour).sum())
    if unknown:
        raise InputError(
            f"{unknown:,} of {n:,} propensities are unknown: without the probabilities of the "
            "logged choices, weights cannot be computed (imported histories have no propensities; "
            "record with a known policy)"
        )
    if not ((e.behaviour > 0.0) & (e.behaviour <= 1.0 + _ROUNDING)).all():
        raise InputError("a propensity is not above 0 and at most 1; expected a probability")
    if not ((e.evaluation >= 0.0) & (e.evaluation <= 1.0 + _ROUNDING)).all():
        raise InputError("a probability of the evaluated policy is not between 0 and 1")
    for name in ("reward", "q", "v", "features", "next_features", "initial_features"):
        values = getattr(e, name)
        if values is not None and not np.isfinite(values).all():
            raise InputError(f"{name} holds a number that is not finite")
    if not 0.0 <= e.discount <= 1.0:
        raise InputError(f"discount is {e.discount}, expected a number between 0 and 1")
    if e.discount_per == "second" and e.elapsed_s is None:
        raise InputError("a discount per second needs elapsed_s, which is None")
