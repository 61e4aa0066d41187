"""Probabilities of a trajectory's choices in torch, with gradients.

A row that several decisions share is scored once; its gradient is the sum of their gradients.
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
    inputs: NetworkInputs, advantage: NDArray[np.float64], network: Network, device: torch.device
) -> PolicyBatch:
    """Expand features; `advantage` is (T,) of the decisions or (M,) of their candidates."""
    count = np.diff(inputs.starts)
    images = inputs.image if network.pixels else None
    arrays = (
        network.candidates.expand(inputs.rows),
        expand_moment(network, inputs.context, images),
        inputs.row_of,
        inputs.index,
        np.repeat(np.arange(len(count)), count),
        inputs.chosen,
        advantage.astype(np.float32),
    )
    return PolicyBatch(*(torch.from_numpy(array).to(device) for array in arrays))


def merged(
    parts: Iterable[tuple[NetworkInputs, NDArray[np.float64]]], candidates: int
) -> Iterator[tuple[NetworkInputs, NDArray[np.float64]]]:
    """Yield joined parts of at least `candidates` candidates each, except the last."""
    pending: list[tuple[NetworkInputs, NDArray[np.float64]]] = []
    count = 0
    for part in parts:
        pending.append(part)
        count += len(part[0].index)
        if count >= candidates:
            yield _joined(pending)
            pending, count = [], 0
    if pending:
        yield _joined(pending)


def _joined(
    parts: Sequence[tuple[NetworkInputs, NDArray[np.float64]]],
) -> tuple[NetworkInputs, NDArray[np.float64]]:
    inputs, advantages = zip(*parts, strict=True)
    return join(inputs), np.concatenate(advantages)


def join(parts: Sequence[NetworkInputs]) -> NetworkInputs:
    """Join the decisions of all parts, in order; equal rows of different parts stay separate."""
    if len(parts) == 1:
        return parts[0]
    rows, decisions, candidates = (
        np.cumsum([0, *(len(getattr(part, name)) for part in parts)])
        for name in ("rows", "chosen", "index")
    )
    cat = np.concatenate
    return NetworkInputs(
        rows=cat([part.rows for part in parts]),
        row_of=cat([part.row_of + n for part, n in zip(parts, decisions, strict=False)]),
        context=cat([part.context for part in parts]),
        image=cat([part.image for part in parts]),
        index=cat([part.index + n for part, n in zip(parts, rows, strict=False)]),
        starts=cat(
            [
                *(part.starts[:-1] + n for part, n in zip(parts, candidates, strict=False)),
                candidates[-1:],
            ]
        ),
        chosen=cat([part.chosen + n for part, n in zip(parts, candidates, strict=False)]),
        decision=cat([part.decision for part in parts]),
    )


def log_softmax(scorer: CandidateScorer, batch: PolicyBatch) -> Tensor:
    """Return the log-probability (M,) of every feasible candidate of every decision."""
    scores = scorer.ragged(batch.rows, batch.context, batch.row_of).index_select(0, batch.index)
    count = len(batch)
    highest = scores.new_full((count,), -torch.inf).scatter_reduce(
        0, batch.decision, scores.detach(), "amax"
    )
    scores = scores - highest.index_select(0, batch.decision)
    total = scores.new_zeros(count).index_add(0, batch.decision, scores.exp())
    return scores - total.log().index_select(0, batch.decision)


def policy_gain(log_probability: Tensor, batch: PolicyBatch) -> Tensor:
    """Return the sum of advantage * log pi(choice); its gradient is the policy gradient."""
    return batch.advantage @ log_probability.index_select(0, batch.chosen)


def entropy(log_probability: Tensor) -> Tensor:
    """Return the sum over decisions of the policy's entropy."""
    return -(log_probability.exp() * log_probability).sum()
