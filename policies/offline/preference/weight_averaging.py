"""Means of weights: over the last steps of a run, and over linear scorers trained side by side.

Sources: Polyak & Juditsky, "Acceleration of Stochastic Approximation by Averaging", SIAM Journal on
Control and Optimization 1992; for networks Izmailov et al., "Averaging Weights Leads to Wider
Optima and Better Generalization", UAI 2018.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.networks.settings import Weights


class TailAverage(nn.Module):
    """The mean of a scorer's weights over the steps from `first` on, held in buffers."""

    def __init__(self, scorer: CandidateScorer, first: int) -> None:
        super().__init__()
        self._first = first
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        for name, value in scorer.named_parameters():
            self.register_buffer(name, torch.zeros_like(value))

    @torch.no_grad()
    def add(self, step: int, scorer: CandidateScorer) -> None:
        """Add the weights after `step`; steps before `first` do not count."""
        if step < self._first:
            return
        buffers = dict(self.named_buffers())
        buffers["count"] += 1
        for name, value in scorer.named_parameters():
            buffers[name] += (value - buffers[name]) / buffers["count"]

    def weights(self, scorer: CandidateScorer) -> Weights:
        """Return the mean so far, or the scorer's current weights before step `first`."""
        if int(dict(self.named_buffers())["count"]) == 0:
            return scorer.weights()
        return {
            name.replace("_", "."): value.detach().cpu().numpy().copy()
            for name, value in self.named_buffers()
            if name != "count"
        }


def mean_weights(sets: Sequence[Weights]) -> Weights:
    """Return means of weights of one shape, summed in the given order; exact for a single one."""
    return {
        name: (np.sum([w[name] for w in sets], axis=0) / np.float32(len(sets))).astype(np.float32)
        for name in sets[0]
    }
