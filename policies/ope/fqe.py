"""Fitted Q evaluation: expected returns of a policy after logged choices, learned from the log.

    target   r_t + gamma_t * sum over c of pi(c | o_(t+1)) * Q'(o_(t+1), c)      0 after the end
    loss     mean of (Q(o_t, c_t) - target)^2

The expectation is over ALL feasible candidates of the next observation (expected SARSA; Le,
Voloshin & Yue 2019). Q' is a copy of Q, renewed at intervals; the loss is a plain square. A
truncated episode counts as ended, as in evaluation. Values are standardised by the log's returns to
go, and the network first learns those, the behaviour's own values. Bootstrapping over hundreds of
decisions then only has to learn the difference that the policy makes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.statistics.returns import discounted_sums, step_discounts
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.networks.features import fit_map
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import Network, NetworkSettings, Weights
from hindcast.policies.ope.episodes import WholeEpisodes
from hindcast.policies.training.devices import repeatable
from hindcast.policies.training.learner import CPU, descend

Array = NDArray[np.float64]

_FITTED: Final = 1 << 14  # decisions that features are standardised on
_CHUNK: Final = 1 << 14


@dataclass(frozen=True)
class FQESettings:
    """Settings of fitted Q evaluation.

    Attributes:
        steps: Gradient steps after the warm start, 0 or more.
        warm: Gradient steps on the log's returns to go, 0 or more; 0 means no warm start.
        follow: Steps between two copies of the weights into the target network, at least 1.
        minibatch: Decisions per step, at least 1.
        learning_rate: Step size of Adam, above 0; it falls to a tenth over the steps.
        seeds: Number of networks whose values are averaged, at least 1.
        relative: True divides each square by the square of the distance between the logged return
            to go and the median (plus the typical distance). The worst rules of a log can earn a
            hundred times less than the best, and would otherwise dominate the loss.
        discount: Discount per decision or per second, 0 to 1; 1 gives the return that evaluations
            report.
        discount_per: Unit of the discount: "decision" or "second".
        network: Shape of the network, an mlp without image.
    """

    steps: int = 1500
    warm: int = 1000
    follow: int = 10
    minibatch: int = 256
    learning_rate: float = 1e-3
    seeds: int = 1
    relative: bool = True
    discount: float = 1.0
    discount_per: Literal["decision", "second"] = "decision"
    network: NetworkSettings = field(
        default_factory=lambda: NetworkSettings(hidden=(64, 64), context=True)
    )

    def __post_init__(self) -> None:
        if self.steps < 0 or self.warm < 0 or self.seeds < 1 or self.follow < 1:
            raise InputError(
                "FQE: expected steps and warm of at least 0, seeds and follow of at least 1"
            )
        if not 0.0 <= self.discount <= 1.0:
            raise InputError(f"FQE: discount is {self.discount}, expected 0 to 1")
        if self.network.kind != "mlp" or self.network.image:
            raise InputError(
                "FQE: the network sees the logged choice alone, so its kind must be mlp, without "
                "an image"
            )


@dataclass(frozen=True)
class FittedQ:
    """Values of a policy: the mean over networks of middle + scale * score."""

    networks: tuple[LearnedPolicy, ...]
    middle: float
    scale: float

    def candidates(self, log: WholeEpisodes) -> Array:
        """Return the value of every candidate of a log, (V,)."""
        sums = np.zeros(len(log.candidates))
        for at in range(0, log.decisions, _CHUNK):
            end = min(at + _CHUNK, log.decisions)
            first, last = log.rows[at], log.rows[end]
            for network in self.networks:
                sums[first:last] += network.batch_scores(
                    log.context[at:end].astype(np.float64),
                    log.candidates[first:last].astype(np.float64),
                    log.rows[at : end + 1] - first,
                )
        return np.asarray(self.middle + self.scale * sums / len(self.networks), np.float64)

    def values(self, log: WholeEpisodes, probabilities: Array) -> tuple[Array, Array]:
        """Return values q (D,) of logged choices, and v (D,) of states under probabilities (V,)."""
        every = self.candidates(log)
        v = np.add.reduceat(every * probabilities, log.rows[:-1])
        return every[log.chosen], np.asarray(v, np.float64)


@dataclass(frozen=True)
class WarmStart:
    """The common start of all policies: feature maps, scale, weights per seed fitted to the log."""

    network: Network
    middle: float
    scale: float
    weight: Tensor
    weights: tuple[Weights, ...]


def _discounts(log: WholeEpisodes, settings: FQESettings) -> Array:
    """Return the discount between each decision and the next one, (D,)."""
    per_second = settings.discount_per == "second"
    return step_discounts(log.elapsed_s, settings.discount, per_second=per_second)


def warm_start(log: WholeEpisodes, spec: Spec, settings: FQESettings, seed: int = 0) -> WarmStart:
    """Return networks that are fitted to the returns to go of the log's own behaviours."""
    rows = np.linspace(0, log.decisions - 1, min(_FITTED, log.decisions)).astype(np.int64)
    feasible = np.concatenate([np.arange(log.rows[d], log.rows[d + 1]) for d in rows[:4096]])
    feasible = feasible[log.feasible[feasible]]
    context = range(len(spec.context)) if settings.network.context else ()
    network = Network(
        settings.network,
        fit_map(spec.candidates, spec.learned_candidates, settings.network.quadratic,
                log.candidates[feasible], settings.network.logs),
        fit_map(spec.context, tuple(context), quadratic=False, rows=log.context[rows],
                logs=settings.network.logs),
    )  # fmt: skip
    episode = np.repeat(np.arange(len(log)), np.diff(log.offsets))
    earned = discounted_sums(episode, log.reward, _discounts(log, settings))
    middle, scale, weight = _standard(earned, settings)
    target = torch.from_numpy(((earned - middle) / scale).astype(np.float32))
    weights = []
    for k in range(settings.seeds):
        first, second = np.random.default_rng([seed, k]).spawn(2)
        with repeatable(CPU):
            scorer = CandidateScorer(network, first)
            _minimise(
                scorer, log, network, settings, settings.warm, second,
                lambda rows: target[torch.from_numpy(rows)], None, weight,
            )  # fmt: skip
        weights.append(scorer.weights())
    return WarmStart(network, middle, scale, weight, tuple(weights))


def _standard(earned: Array, settings: FQESettings) -> tuple[float, float, Tensor]:
    """Return middle and scale of returns to go (D,), and the weight of every decision's square."""
    if not settings.relative:
        return float(earned.mean()), float(earned.std()) or 1.0, torch.ones(len(earned))
    middle = float(np.median(earned))
    scale = float(np.median(np.abs(earned - middle))) or float(earned.std()) or 1.0
    weight = (scale / (scale + np.abs(earned - middle))) ** 2
    return middle, scale, torch.from_numpy(weight.astype(np.float32))


def fit_fqe(
    log: WholeEpisodes,
    probabilities: Array,
    spec: Spec,
    settings: FQESettings,
    start: WarmStart,
    seed: int = 0,
) -> FittedQ:
    """Return the values of the policy with probabilities (V,) on the log's candidates.

    The same log, probabilities, settings and seed give the same values, bit for bit.
    """
    discounts = _discounts(log, settings)
    policies = []
    for k, weights in enumerate(start.weights):
        rng = np.random.default_rng([seed, k, 1])
        with repeatable(CPU):
            scorer, target = (CandidateScorer(start.network, rng) for _ in range(2))
            scorer.set_weights(weights)
            target.set_weights(weights)
            goal = _Bootstrapped(log, probabilities, discounts, start, target)
            _minimise(
                scorer, log, start.network, settings, settings.steps, rng, goal, target,
                start.weight,
            )  # fmt: skip
        policies.append(
            LearnedPolicy(f"fqe{k}", start.network, scorer.weights(), spec.context, spec.candidates)
        )
    return FittedQ(tuple(policies), start.middle, start.scale)


class _Bootstrapped:
    """Standardised targets of minibatches: rows (B,) -> (B,)."""

    def __init__(
        self,
        log: WholeEpisodes,
        probabilities: Array,
        discounts: Array,
        start: WarmStart,
        target: CandidateScorer,
    ) -> None:
        self._log, self._start, self._target = log, start, target
        self._probabilities = probabilities
        self._discounts = np.where(log.last, 0.0, discounts)

    def __call__(self, rows: NDArray[np.int64]) -> Tensor:
        log, start = self._log, self._start
        expected = np.zeros(len(rows))
        live = np.flatnonzero(~log.last[rows])
        following = rows[live] + 1
        sizes = log.rows[following + 1] - log.rows[following]
        # rows of all candidates of the next decisions, decision by decision
        at = np.repeat(log.rows[following] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
        candidates = at + np.arange(len(at))
        row = np.repeat(np.arange(len(live)), sizes)
        # Choices with probability 0 add nothing; for a greedy policy those are most candidates.
        likely = self._probabilities[candidates] > 0.0
        candidates, row = candidates[likely], row[likely]
        with torch.no_grad():
            scores = self._target.ragged(
                torch.from_numpy(start.network.candidates.expand(log.candidates[candidates])),
                torch.from_numpy(start.network.context.expand(log.context[following])),
                torch.from_numpy(row),
            ).numpy()
        values = start.middle + start.scale * scores.astype(np.float64)
        expected[live] = np.bincount(row, self._probabilities[candidates] * values, len(live))
        raw = log.reward[rows] + self._discounts[rows] * expected
        return torch.from_numpy(((raw - start.middle) / start.scale).astype(np.float32))


def _minimise(
    scorer: CandidateScorer,
    log: WholeEpisodes,
    network: Network,
    settings: FQESettings,
    steps: int,
    rng: np.random.Generator,
    goal: Callable[[NDArray[np.int64]], Tensor],
    target: CandidateScorer | None,
    weight: Tensor,
) -> None:
    """Take `steps` steps of Adam on squared errors; the step size falls to a tenth."""
    optimiser = torch.optim.Adam(scorer.parameters(), lr=settings.learning_rate)
    row = torch.arange(settings.minibatch)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = settings.learning_rate * (1.0 - 0.9 * step / steps)
        if target is not None and step % settings.follow == 0:
            target.load_state_dict(scorer.state_dict())
        rows = rng.integers(log.decisions, size=settings.minibatch)
        candidates = network.candidates.expand(log.candidates[log.chosen[rows]])
        context = network.context.expand(log.context[rows])
        predicted = scorer.ragged(torch.from_numpy(candidates), torch.from_numpy(context), row)
        loss = (weight[torch.from_numpy(rows)] * (predicted - goal(rows)).square()).mean()
        descend(optimiser, loss)
