"""Trajectory preference: make the choices of the better of two episodes on one window likelier.

    l_i  = mean over the decisions of episode i of log pi(choice)
    z_i  = return of episode i, standardised among the episodes of its window
    w    = v / mean of v over all episodes; v is the standard deviation of the returns of a window,
           to the power of `deviation_power`
    loss = w * |z_1 - z_2| * softplus(-beta * sign(z_1 - z_2) * (l_1 - l_2))

One outcome per episode contains hardly any information about a single decision. It contains a lot
about two episodes that explored in consistently different ways on the same problem. So the log
should hold several behaviours and several episodes per window, `random_linear` among them. The form
of the loss is that of preference learning (Bradley & Terry 1952; Christiano et al., "Deep
Reinforcement Learning from Human Preferences", NeurIPS 2017; Hejna et al., "Contrastive Preference
Learning", ICLR 2024). Differences: the mean replaces the sum, since episodes differ in length, and
pairs are weighted by the difference of their outcomes. With a `deviation_power` of 0 all windows
count alike. With 1 pairs are weighted by their difference in return, which is what the mean return
over windows counts; a few windows may then have most of the weight.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import DatasetError, RecipeError, did_you_mean
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.networks.candidate_scorer import (
    CandidateScorer,
    fit_network,
    log_probabilities,
)
from hindcast.policies.networks.settings import Network, NetworkSettings
from hindcast.policies.training.learner import Info, Learner, Loss, Task, descent
from hindcast.policies.training.minibatches import Batches

_VALIDATED: Final = 256  # pairs
_VALIDATION_SEED: Final = 0  # draws the same pairs at every point of a curve


@dataclass(frozen=True)
class Config:
    """Settings of trajectory preference.

    Attributes:
        beta: Weight of a difference in mean log-probability, above 0; 4 is safe, 10 is greedier.
        pairs: Pairs of episodes per step, at least 1.
        decisions: Decisions drawn of each of the two episodes, with replacement; at least 1.
        per_episode: Decisions of each episode that are read from the log and drawn from. More tell
            more precisely how the choices of two episodes differ, and take memory.
        outcome: Outcome that makes an episode better: a name of Spec.outcomes, or "" for the
            return.
        logarithm: Whether the logarithm of the return or outcome is compared, which must then be
            above 0 in size everywhere: for costs that differ by orders of magnitude.
        deviation_power: Exponent of a window's standard deviation in the weight of its pairs: 0
            weights windows equally, 1 weights pairs by their difference in return.
        learning_rate: Step size of AdamW, above 0.
        weight_decay: Weight decay of AdamW, 0 or more.
        network: Shape of the scorer.
    """

    beta: float = number(4.0, "above 0")
    pairs: int = number(24, "from 1 to 1,000,000")
    decisions: int = number(40, "from 1 to 1,000,000")
    per_episode: int = number(60, "from 1 to 1,000,000")
    outcome: str = ""
    logarithm: bool = False
    deviation_power: float = number(0.0, "from 0 to 1")
    learning_rate: float = number(1e-2, "above 0")
    weight_decay: float = number(0.0, "at least 0")
    network: NetworkSettings = field(default_factory=NetworkSettings)

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class Ranking:
    """Episodes that can be compared, ordered by window.

    Attributes:
        episode: (E,) index into Decisions.episodes.
        z: (E,) outcome standardised in its window, higher is better.
        weight: (E,) weight w of the pairs in the episode's window; the mean is 1.
        first: (E,) row of the episode's first decision.
        count: (E,) number of decisions of the episode.
        start: (W,) position of a window's first episode.
        size: (W,) number of episodes of a window, at least 2.
    """

    episode: NDArray[np.int64]
    z: NDArray[np.float64]
    weight: NDArray[np.float64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    start: NDArray[np.int64]
    size: NDArray[np.int64]


def rank(decisions: Decisions, spec: Spec, config: Config) -> Ranking:
    """Return the comparable episodes: those with decisions, in a window where outcomes differ.

    Raises DatasetError if there are no such episodes, or if values have no logarithm.
    """
    value = _value(decisions, spec, config.outcome)
    if config.logarithm:
        value = _logarithm(value)
    window = decisions.episodes["window"].to_numpy()
    count = np.bincount(decisions.episode, minlength=len(value))
    first = np.searchsorted(decisions.episode, np.arange(len(value)))
    if (np.diff(decisions.episode) < 0).any():
        raise DatasetError("decisions are not ordered by episode")
    chosen, z, deviations, sizes = [], [], [], []
    for w in np.unique(window):
        of_window = np.flatnonzero((window == w) & (count > 0) & np.isfinite(value))
        if len(of_window) < 2 or (deviation := value[of_window].std()) == 0.0:
            continue
        chosen.append(of_window)
        z.append((value[of_window] - value[of_window].mean()) / deviation)
        deviations.append(deviation)
        sizes.append(len(of_window))
    if not chosen:
        raise DatasetError(
            "no window has two episodes with different outcomes, so there is nothing to compare; "
            "record several behaviours, or several episodes of a stochastic one, per window"
        )
    episode, size = np.concatenate(chosen), np.array(sizes)
    weight = np.repeat(np.array(deviations) ** config.deviation_power, size)
    return Ranking(
        episode, np.concatenate(z), weight / weight.mean(), first[episode], count[episode],
        np.cumsum(size) - size, size,
    )  # fmt: skip


def _value(decisions: Decisions, spec: Spec, outcome: str) -> NDArray[np.float64]:
    """Return the outcome by which each episode is judged, (E,), higher is better."""
    if not outcome:
        return decisions.episodes["return"].to_numpy().astype(np.float64)
    better = {o.name: o.better for o in spec.outcomes if o.better != "neither"}
    if outcome not in better:
        raise RecipeError(
            f"outcome is {outcome!r}, expected an outcome of which lower or higher is better; "
            f"{did_you_mean(outcome, better)}"
        )
    value = decisions.episodes[outcome].to_numpy().astype(np.float64)
    return value if better[outcome] == "higher" else -value


def _logarithm(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithms of values that are all above 0; of costs, minus those of their size."""
    finite = value[np.isfinite(value)]
    if not ((finite > 0.0).all() or (finite < 0.0).all()):
        raise DatasetError(
            "logarithm is true, but returns or outcomes are not all above 0 or all below 0; "
            "set logarithm = false"
        )
    logarithm: NDArray[np.float64] = np.sign(value) * np.log(np.abs(value))
    return logarithm


def draw_pairs(ranking: Ranking, pairs: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return positions (2, pairs) of two episodes of one window, windows drawn uniformly."""
    window = rng.integers(0, len(ranking.size), pairs)
    size = ranking.size[window]
    first = rng.integers(0, size)
    second = (first + rng.integers(1, size)) % size
    return ranking.start[window] + np.stack([first, second])


def preference_loss(log_pi: Tensor, better_by: Tensor, beta: float) -> tuple[Tensor, Info]:
    """Return the loss of the module's docstring.

    log_pi (2, P) is the mean log-probability of either episode, better_by (P,) is w * (z_1 - z_2).
    """
    margin = torch.sign(better_by) * (log_pi[0] - log_pi[1])
    loss = better_by.abs() * softplus(-beta * margin)
    weight = better_by.abs().sum().clamp(min=1e-12)
    agreement = (better_by.abs() * (margin > 0)).sum() / weight
    return loss.mean(), {"agreement": agreement.detach()}


def pair_loss(
    scorer: CandidateScorer,
    batches: Batches,
    ranking: Ranking,
    config: Config,
    pairs: NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[Tensor, Info]:
    """Return the loss of these pairs, on decisions drawn from them."""
    within = rng.integers(0, ranking.count[pairs][..., None], (*pairs.shape, config.decisions))
    batch = batches.at((ranking.first[pairs][..., None] + within).ravel())
    scores = scorer.packed(batch.candidates, batch.context, batch.mask)
    log_pi = log_probabilities(scores, batch.mask, batch.choice, batch.drawn)
    first, second = pairs
    better_by = (ranking.weight[first] * (ranking.z[first] - ranking.z[second])).astype(np.float32)
    means = log_pi.reshape(*pairs.shape, -1).mean(dim=-1)
    return preference_loss(means, torch.from_numpy(better_by).to(batches.device), config.beta)


def learner(task: Task, config: Config) -> Learner:
    """Return one training run, see `hindcast.policies.training.learner`."""
    weights_rng, rng = np.random.default_rng(task.seed).spawn(2)
    ranking = rank(task.decisions, task.spec, config)
    network = fit_network(task.decisions, task.spec, config.network)
    scorer = CandidateScorer(network, weights_rng).to(task.device)
    optimiser = torch.optim.AdamW(
        scorer.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
    )
    batches = Batches(task.decisions, network, task.device)

    def loss() -> tuple[Tensor, Info]:
        pairs = draw_pairs(ranking, config.pairs, rng)
        return pair_loss(scorer, batches, ranking, config, pairs, rng)

    held_out = validation_loss(task, config, network, lambda: scorer)
    return descent(network, scorer, scorer.weights, optimiser, rng, loss, held_out)


def validation_loss(
    task: Task, config: Config, network: Network, acting: Callable[[], CandidateScorer]
) -> Loss | None:
    """Return the loss of a scorer on the same validation pairs every time.

    The result is None if no validation episodes can be compared, which is no error.
    """
    if task.validation is None:
        return None
    try:
        ranking = rank(task.validation, task.spec, config)
    except DatasetError:
        return None
    batches = Batches(task.validation, network, task.device)

    def loss() -> tuple[Tensor, Info]:
        rng = np.random.default_rng(_VALIDATION_SEED)
        pairs = draw_pairs(ranking, _VALIDATED, rng)
        return pair_loss(acting(), batches, ranking, config, pairs, rng)

    return loss
