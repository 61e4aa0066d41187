"""The value network, which predicts the return-to-go in training and is not needed to act.

Its inputs exist in every scenario and do not depend on the order of the candidates:

    x   context | mean and maximum of the feasible candidates' columns | log1p of how many | time
    V   mean + deviation * mlp((x - mean of x) / deviation of x)

Heavy-tailed columns are read as logs. The moments of x are those of all inputs so far. Mean and
deviation of V are those of the latest targets; when they change, the last layer is rescaled so that
all values stay the same (van Hasselt et al., "Learning values across many orders of magnitude",
NeurIPS 2016). Time is an input because the objective is the return of a whole, finite episode.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hindcast.pipeline.simulation.spec import Feature
from hindcast.policies.networks.features import unscaled_map
from hindcast.policies.networks.settings import Network
from hindcast.policies.online.problem import PIECE, Problem
from hindcast.policies.rollouts.trajectories import Trajectory, network_inputs

_FAR = 10.0  # deviations at which inputs are clipped
_SMALLEST = 1e-6  # deviation below which a number counts as constant


class PopArtValue(nn.Module):
    """Value network from summaries x (T, X) to V (T,), initialised like a scorer."""

    count: Tensor  # () inputs so far
    mean: Tensor  # (X,) their mean
    square: Tensor  # (X,) sum of their squared distances to the mean
    level: Tensor  # () mean of the latest targets
    scale: Tensor  # () their deviation; 0 before the first targets, so that all values are 0

    def __init__(self, inputs: int, hidden: Sequence[int], rng: np.random.Generator) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for before, after in pairwise((inputs, *hidden, 1)):
            layer = nn.Linear(before, after)
            bound = 1.0 / np.sqrt(before)  # as torch does, but drawn from `rng`
            for parameter in (layer.weight, layer.bias):
                drawn = rng.uniform(-bound, bound, parameter.shape)
                parameter.data = torch.from_numpy(drawn.astype(np.float32))
            self.layers.append(layer)
        double = torch.float64
        self.register_buffer("count", torch.zeros((), dtype=double))
        self.register_buffer("mean", torch.zeros(inputs, dtype=double))
        self.register_buffer("square", torch.zeros(inputs, dtype=double))
        self.register_buffer("level", torch.zeros(()))
        self.register_buffer("scale", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """Return (values - level) / scale, (T,)."""
        deviation = (self.square / self.count.clamp(min=1.0)).sqrt()
        constant = deviation <= _SMALLEST * (1.0 + self.mean.abs())
        inverse = torch.where(constant, 0.0, 1.0 / deviation.clamp(min=_SMALLEST))
        h = ((x - self.mean) * inverse).clamp(-_FAR, _FAR).float()
        for number, layer in enumerate(self.layers):
            h = layer(h)
            if number + 1 < len(self.layers):
                h = h.tanh()
        return h.squeeze(-1)

    @torch.no_grad()
    def values(self, x: Tensor) -> Tensor:
        """Return values (T,) in the unit of the rewards."""
        values: Tensor = self.level + self.scale * self(x)
        return values

    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the mean squared error, in units of `scale`."""
        error: Tensor = self(x) - (target - self.level) / self.scale
        return error.square().mean()

    @torch.no_grad()
    def meet(self, x: Tensor) -> None:
        """Add inputs x, float64, to the moments."""
        count, mean = float(len(x)), x.mean(dim=0)
        shift, total = mean - self.mean, self.count + count
        self.square += (x - mean).square().sum(dim=0) + shift**2 * (self.count * count / total)
        self.mean += shift * (count / total)
        self.count += count

    @torch.no_grad()
    def retarget(self, target: Tensor) -> None:
        """Take level and scale from these targets without changing any value.

        The first targets only set level and scale.
        """
        level, scale = target.mean(), target.std(correction=0)
        is_first = self.scale == 0.0
        fallback = torch.where(is_first, torch.ones_like(scale), self.scale)
        scale = torch.where(scale > _SMALLEST * level.abs(), scale, fallback)
        weight, bias = list(self.layers[-1].parameters())
        share = torch.where(is_first, torch.ones_like(scale), self.scale / scale)
        shift = torch.where(is_first, torch.zeros_like(scale), (self.level - level) / scale)
        weight.mul_(share)
        bias.mul_(share).add_(shift)
        self.level.copy_(level)
        self.scale.copy_(scale)


def summary_size(problem: Problem) -> int:
    """Return X, the length of a summary."""
    spec = problem.spec
    return len(spec.context) + 2 * len(spec.learned_candidates) + 2


def summaries(
    problem: Problem, played: Sequence[Trajectory], network: Network
) -> NDArray[np.float64]:
    """Return the value network's inputs (sum of T, X), trajectory after trajectory."""
    spec = problem.spec
    columns = list(spec.learned_candidates)
    everything = tuple(range(len(spec.context)))
    settings = replace(network.settings, context=True, kind="mlp", image=0)
    reader = Network(
        settings, network.candidates, unscaled_map(spec.context, everything, quadratic=False)
    )

    def summary(trajectory: Trajectory) -> NDArray[np.float64]:
        parts = []
        for inputs in network_inputs(problem.scenario, spec, trajectory, reader, piece=PIECE):
            rows = _tamed(inputs.rows, spec.candidates)[:, columns][inputs.index]
            first, count = inputs.starts[:-1], np.diff(inputs.starts)
            mean = np.add.reduceat(rows, first) / count[:, None]
            highest = np.maximum.reduceat(rows, first)
            context = _tamed(inputs.context, spec.context)
            parts.append(np.column_stack([context, mean, highest, np.log1p(count)]))
        return np.column_stack([np.concatenate(parts), trajectory.time_s])

    with ThreadPoolExecutor(problem.workers) as pool:
        return np.concatenate(list(pool.map(summary, played)))


def _tamed(values: NDArray[np.float64], features: Sequence[Feature]) -> NDArray[np.float64]:
    """Return the columns, with heavy-tailed ones as logs that keep the sign."""
    heavy = [at for at, feature in enumerate(features) if feature.heavy_tailed]
    tamed = values.copy()
    tamed[:, heavy] = np.sign(values[:, heavy]) * np.log1p(np.abs(values[:, heavy]))
    return tamed
