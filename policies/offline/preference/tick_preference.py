"""Tick preference: trajectory preference for whole episodes and, beside it, for stretches of them.

    g_t   = return to go of decision t, standardised among decisions of the same tenth of its
            window's episodes
    V     minimises  mean (g_t - V(s_t))^2
    A     = mean over decisions drawn from a stretch of  g_t - V(s_t)
    l     = mean over the same decisions of log pi(choice)
    loss  = (1 - tick) * loss of trajectory preference
            + tick * |A_1 - A_2| * softplus(-beta * sign(A_1 - A_2) * (l_1 - l_2))

over pairs of the same stretch (of `stretches` equal ones) of two episodes of one window. Whole
episodes are compared by all they came to, so every decision gets the same credit, those of a bad
start too that later ones made good. A stretch is credited with what came after it beyond what its
observations promised, V: in which a bad start, once it is seen in the state, counts no more. It is
still compared inside the window, where exploration that is consistent over an episode shows. tick 0
is `trajectory_preference`; V takes no part in acting.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.dataset.decisions import Decisions
from pipeline.errors import DatasetError, RecipeError
from pipeline.simulation.spec import Spec
from policies.networks.candidate_scorer import CandidateScorer, fit_network, log_probabilities
from policies.networks.settings import Network, NetworkSettings
from policies.offline.actor_critic.critics import StateValue
from policies.offline.preference import trajectory_preference
from policies.offline.preference.trajectory_preference import (
    Ranking,
    draw_pairs,
    preference_loss,
    rank,
)
from policies.training.learner import Criterion, Info, Learner, Task, descend, nothing_to_validate
from policies.training.minibatches import Batches
from policies.training.returns import standardised_to_go

_VALIDATED: Final = 256  # pairs
_VALIDATION_SEED: Final = 0


@dataclass(frozen=True)
class Config(trajectory_preference.Config):
    """Settings of tick preference: those of trajectory preference and some more.

    tick                 share of the loss that compares stretches, 0 to 1
    stretches            that an episode is cut into, of equal numbers of decisions
    stretch_decisions    drawn of each of the two stretches, with replacement
    value_rate           learning rate of V
    value_network        what V reads
    """

    tick: float = 0.5
    stretches: int = 8
    stretch_decisions: int = 10
    value_rate: float = 2e-3
    value_network: NetworkSettings = field(
        default_factory=lambda: NetworkSettings(hidden=(32,), quadratic=False, context=True)
    )


class _Log:
    """What pairs are drawn from: episodes that can be compared, and the decisions of a split."""

    def __init__(
        self,
        decisions: Decisions,
        ranking: Ranking,
        scored: Network,
        valued: Network,
        device: torch.device,
    ) -> None:
        self.ranking = ranking
        self.scored, self.valued = (Batches(decisions, n, device) for n in (scored, valued))
        self.to_go = torch.from_numpy(standardised_to_go(decisions)).to(device)


def stretch_rows(
    ranking: Ranking,
    pairs: NDArray[np.int64],
    stretches: int,
    decisions: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Rows (2, P, decisions) of one stretch of each pair (2, P): the same one of both episodes."""
    at = rng.integers(0, stretches, pairs.shape[1])
    count = ranking.count[pairs]
    start = count * at // stretches
    stop = np.maximum(count * (at + 1) // stretches, start + 1)  # fewer decisions than stretches
    within = rng.integers(start[..., None], stop[..., None], (*pairs.shape, decisions))
    rows: NDArray[np.int64] = ranking.first[pairs][..., None] + within
    return rows


def learner(task: Task, config: Config) -> Learner:
    """One training run, see `policies.training.learner`."""
    if not 0.0 <= config.tick <= 1.0 or config.stretches < 1:
        raise RecipeError(
            f"tick is {config.tick}, expected 0 to 1; stretches is {config.stretches}, at least 1"
        )
    weights_rng, rng = np.random.default_rng(task.seed).spawn(2)
    network = fit_network(task.decisions, task.spec, config.network)
    valued = fit_network(task.decisions, task.spec, config.value_network)
    scorer = CandidateScorer(network, weights_rng).to(task.device)
    state = StateValue(valued, weights_rng).to(task.device)
    optimiser = torch.optim.AdamW(
        [
            {"params": scorer.parameters(), "weight_decay": config.weight_decay},
            {"params": state.parameters(), "lr": config.value_rate, "weight_decay": 0.0},
        ],
        lr=config.learning_rate,
    )
    log = _Log(
        task.decisions,
        rank(task.decisions, task.spec, config.outcome),
        network,
        valued,
        task.device,
    )

    def stretch_loss(of: _Log, count: int, own: np.random.Generator) -> tuple[Tensor, Info]:
        pairs = draw_pairs(of.ranking, count, own)
        rows = stretch_rows(of.ranking, pairs, config.stretches, config.stretch_decisions, own)
        shape, flat = rows.shape, rows.ravel()
        to_go = of.to_go[torch.from_numpy(flat).to(task.device)]
        error = to_go - state(of.valued.at(flat))
        batch = of.scored.at(flat)
        scores = scorer.packed(batch.candidates, batch.context, batch.mask)
        log_pi = log_probabilities(scores, batch.mask, batch.choice, batch.drawn)
        advantage = error.detach().reshape(shape).mean(dim=2)
        loss, info = preference_loss(
            log_pi.reshape(shape).mean(dim=2), advantage[0] - advantage[1], config.beta
        )
        value_loss = error.square().mean()
        return config.tick * loss + value_loss, {
            "stretch_loss": loss.detach(),
            "stretch_agreement": info["agreement"],
            "value_loss": value_loss.detach(),
        }

    def loss(of: _Log, count: int, own: np.random.Generator) -> tuple[Tensor, Info]:
        total, found = stretch_loss(of, count, own)
        pairs = draw_pairs(of.ranking, count, own)
        whole, info = trajectory_preference.pair_loss(
            scorer, of.scored, of.ranking, config, pairs, own
        )
        return total + (1.0 - config.tick) * whole, {**info, **found}

    def step(_number: int) -> Info:
        total, info = loss(log, config.pairs, rng)
        descend(optimiser, total)
        return {"loss": total.detach(), **info}

    validate = nothing_to_validate
    others = _comparable(task.validation, task.spec, config, network, valued, task.device)
    if others is not None:

        @torch.no_grad()
        def validate() -> Mapping[str, float]:
            total, info = loss(others, _VALIDATED, np.random.default_rng(_VALIDATION_SEED))
            found = {"loss": total, **info}
            return {f"validation_{name}": float(value) for name, value in found.items()}

    return Learner(
        network=network,
        weights=scorer.weights,
        modules={"scorer": scorer, "value": state},
        optimisers={"adam": optimiser},
        rng=rng,
        step=step,
        validate=validate,
        criterion=Criterion("validation_agreement", "higher"),
    )


def _comparable(
    validation: Decisions | None,
    spec: Spec,
    config: Config,
    network: Network,
    valued: Network,
    device: torch.device,
) -> _Log | None:
    """Validation without comparable episodes adds no points to the curves; it is no error."""
    if validation is None:
        return None
    try:
        ranking = rank(validation, spec, config.outcome)
    except DatasetError:
        return None
    return _Log(validation, ranking, network, valued, device)
