"""Probabilities of a trajectory's choices in torch, with gradients.

The score of a row that several decisions share is computed once; its gradient is the sum of theirs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindcast.policies.networks.candidate_scorer import CandidateScorer, expand_moment
from hindcast.policies.networks.settings import Network
from hindcast.policies.rollouts.trajectories import NetworkInputs


@dataclass(frozen=True)
class PolicyBatch:
    """Inputs of a scorer for T decisions, expanded from `NetworkInputs`.

    Attributes:
        rows: (U, E) unique candidates.
        context: (T, G + P) context and image.
        row_of: (U,) decision of each row.
        index: (M,) row of every feasible candidate.
        decision: (M,) decision of every feasible candidate.
        chosen: (T,) place of the choice among the M candidates.
        advantage: (T,) of the choices, or (M,) of all feasible candidates.
    """

    rows: Tensor
    context: Tensor
    row_of: Tensor
    index: Tensor
    decision: Tensor
    chosen: Tensor
    advantage: Tensor

    def __len__(self) -> int:
        return len(self.chosen)


def policy_batch(
    looked: NetworkInputs, advantage: NDArray[np.float64], network: Network, device: torch.device
) -> PolicyBatch:
    """Expand features; `advantage` is (T,) of the decisions or (M,) of their candidates."""
    count = np.diff(looked.starts)
    images = looked.image if network.pixels else None
    arrays = (
        network.candidates.expand(looked.rows),
        expand_moment(network, looked.context, images),
        looked.row_of,
        looked.index,
        np.repeat(np.arange(len(count)), count),
        looked.chosen,
        advantage.astype(np.float32),
    )
    return PolicyBatch(*(torch.from_numpy(array).to(device) for array in arrays))


def merged(
    parts: Iterable[tuple[NetworkInputs, NDArray[np.float64]]], candidates: int
) -> Iterator[tuple[NetworkInputs, NDArray[np.float64]]]:
    """Yield small parts joined, so that only the last may have fewer than `candidates`."""
    waiting: list[tuple[NetworkInputs, NDArray[np.float64]]] = []
    count = 0
    for part in parts:
        waiting.append(part)
        count += len(part[0].index)
        if count >= candidates:
            yield _joined(waiting)
            waiting, count = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(
    parts: Sequence[tuple[NetworkInputs, NDArray[np.float64]]],
) -> tuple[NetworkInputs, NDArray[np.float64]]:
    looked, advantages = zip(*parts, strict=True)
    return join(looked), np.concatenate(advantages)


def join(looked: Sequence[NetworkInputs]) -> NetworkInputs:
    """Join the decisions of all parts, in order; equal rows of different parts stay separate."""
    if len(looked) == 1:
        return looked[0]
    rows, decisions, candidates = (
        np.cumsum([0, *(len(getattr(one, name)) for one in looked)])
        for name in ("rows", "chosen", "index")
    )
    cat = np.concatenate
    return NetworkInputs(
        rows=cat([one.rows for one in looked]),
        row_of=cat([one.row_of + n for one, n in zip(looked, decisions, strict=False)]),
        context=cat([one.context for one in looked]),
        image=cat([one.image for one in looked]),
        index=cat([one.index + n for one, n in zip(looked, rows, strict=False)]),
        starts=cat(
            [
                *(one.starts[:-1] + n for one, n in zip(looked, candidates, strict=False)),
                candidates[-1:],
            ]
        ),
        chosen=cat([one.chosen + n for one, n in zip(looked, candidates, strict=False)]),
        decision=cat([one.decision for one in looked]),
    )


def log_softmax(scorer: CandidateScorer, asked: PolicyBatch) -> Tensor:
    """Return the log-probability (M,) of every feasible candidate of every decision."""
    scores = scorer.ragged(asked.rows, asked.context, asked.row_of).index_select(0, asked.index)
    count = len(asked)
    highest = scores.new_full((count,), -torch.inf).scatter_reduce(
        0, asked.decision, scores.detach(), "amax"
    )
    scores = scores - highest.index_select(0, asked.decision)
    total = scores.new_zeros(count).index_add(0, asked.decision, scores.exp())
    return scores - total.log().index_select(0, asked.decision)


def policy_gain(log_probability: Tensor, asked: PolicyBatch) -> Tensor:
    """Return the sum of advantage * log pi(choice); its gradient is the policy gradient."""
    return asked.advantage @ log_probability.index_select(0, asked.chosen)


def entropy(log_probability: Tensor) -> Tensor:
    """Return the sum over decisions of the policy's entropy."""
    return -(log_probability.exp() * log_probability).sum()
