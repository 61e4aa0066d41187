"""Episode regression: how well an episode went, as a linear function of what was chosen in it.

    x_i  = mean over the decisions of episode i of phi(choice) - mean of phi over the feasible
    z_i  = outcome of episode i, standardised among the episodes of its window
    w    = argmin  sum_i (z_i - w . x_i)^2 + ridge * E * v * |w|^2         x_i centred in its window

in closed form, E the number of episodes and v the mean variance of the x_i. It acts by the score
w . phi(candidate). The x_i say which way an episode leaned, so the log should hold episodes that
lean differently on the same window: of several behaviours, `random_linear` among them. Where
candidates were cut to K, the mean over all is estimated from the ones that are there. It is ridge
regression (Hoerl & Kennard, Technometrics 1970) of per-episode credit by comparison inside the
window, the idea of `trajectory_preference` without its iterations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pipeline.dataset.decisions import Decisions
from pipeline.errors import RecipeError
from policies.networks.candidate_scorer import fit_network
from policies.networks.features import FeatureMap
from policies.networks.settings import NetworkSettings, Weights
from policies.offline.preference.trajectory_preference import Ranking, rank, try_rank
from policies.training.learner import Info, Learner, Task, nothing_to_validate

_BLOCK: Final = 4096  # decisions expanded at a time


@dataclass(frozen=True)
class Config:
    """Settings of episode regression.

    ridge     penalty, relative to how much the x_i vary
    outcome   what makes an episode better: a name of Spec.outcomes, or "" for its return
    """

    ridge: float = 0.01
    outcome: str = ""
    network: NetworkSettings = field(default_factory=NetworkSettings)


class _Solution(nn.Module):
    """w (E,), zero until it is solved for."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.w: torch.Tensor
        self.register_buffer("w", torch.zeros(size, dtype=torch.float64))


def learner(task: Task, config: Config) -> Learner:
    """One training run, see `policies.training.learner`; RecipeError for a network with layers."""
    shape = config.network
    if shape.hidden or shape.context or shape.image or shape.kind != "mlp":
        raise RecipeError(
            "episode_regression: network has hidden layers, context or an image; it is a linear "
            "score of the candidate, with or without quadratic"
        )
    if config.ridge <= 0.0:
        raise RecipeError(f"episode_regression: ridge is {config.ridge}, expected more than 0")
    network = fit_network(task.decisions, task.spec, shape)
    ranking = rank(task.decisions, task.spec, config.outcome)
    solution = _Solution(network.candidates.size)

    def step(_number: int) -> Info:
        x, z = leanings(task.decisions, network.candidates, ranking), ranking.z
        penalty = config.ridge * len(x) * float((x**2).mean())
        w = np.linalg.solve(x.T @ x + max(penalty, 1e-12) * np.eye(x.shape[1]), x.T @ z)
        solution.w.copy_(torch.from_numpy(w))
        return {"loss": torch.tensor(float(((z - x @ w) ** 2).mean()))}

    def weights() -> Weights:
        w = solution.w.numpy().astype(np.float32)
        return {"layer0.weight": w[None], "layer0.bias": np.zeros(1, np.float32)}

    validate = nothing_to_validate
    held_out = try_rank(task.validation, task.spec, config.outcome)
    if task.validation is not None and held_out is not None:
        x = leanings(task.validation, network.candidates, held_out)

        def validate() -> Mapping[str, float]:
            """Mean squared error on validation episodes; 1 is that of knowing nothing."""
            return {"validation_loss": float(((held_out.z - x @ solution.w.numpy()) ** 2).mean())}

    return Learner(
        network=network,
        weights=weights,
        modules={"solution": solution},
        optimisers={},
        rng=np.random.default_rng(task.seed),
        step=step,
        validate=validate,
        most_steps=1,
    )


def leanings(
    decisions: Decisions, feature_map: FeatureMap, ranking: Ranking
) -> NDArray[np.float64]:
    """The x_i (E, F) of the episodes of a ranking, centred in their windows."""
    leant = np.zeros((len(decisions), feature_map.size), np.float64)
    for start in range(0, len(decisions), _BLOCK):
        rows = slice(start, start + _BLOCK)
        mask, choice = decisions.mask[rows], decisions.choice[rows]
        expanded = feature_map.expand(decisions.candidates[rows][mask]).astype(np.float64)
        shown = mask.sum(axis=1)
        first = np.cumsum(shown) - shown
        inside = np.cumsum(mask, axis=1)[np.arange(len(choice)), choice] - 1
        chosen = expanded[first + inside]
        others = np.add.reduceat(expanded, first) - chosen
        mean = others / np.maximum(shown - 1, 1)[:, None]
        # chosen - mean over all N, of which the others stand for N - 1
        drawn = decisions.drawn[rows]
        leant[rows] = (chosen - mean) * ((drawn - 1) / drawn)[:, None]
    sums = np.zeros((len(decisions.episodes), feature_map.size))
    np.add.at(sums, decisions.episode, leant)
    x = sums[ranking.episode] / ranking.count[:, None]
    means = np.add.reduceat(x, ranking.start) / ranking.size[:, None]
    centred: NDArray[np.float64] = x - np.repeat(means, ranking.size, axis=0)
    return centred
