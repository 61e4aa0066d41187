"""Imitation before play for the network of Liu et al., which values applications at clusters.

    loss = mean over decisions of KL(logged distribution || softmax of the values of the rows)

The resulting values rank choices as the log does; their scale is learned by playing. The rows of an
application are adjacent, so each application is computed once for all its clusters.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindcast.flows.papers.timecritical.network import CLUSTER, ClustersNetwork
from hindcast.flows.papers.timecritical.torch_network import make_value_network, weights_of
from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.networks.candidate_scorer import FILL
from hindcast.policies.online.imitation import Steps, cloning
from hindcast.policies.training.learner import Info, Learner, Task
from hindcast.policies.training.losses import LossAt, tilted_loss

_STEPS = Steps(minibatch=128, learning_rate=1e-3, validated=1024)


def imitator(
    task: Task,
    _config: Any,
    network: ClustersNetwork,
    shown: NDArray[np.float32],
    held_out: NDArray[np.float32] | None,
) -> Learner:
    """Return the learner of an imitation before play, see hindcast.policies.online.imitation."""
    rng = generator(task.seed, "imitation weights")
    scorer = make_value_network(network, None, rng).to(task.device)
    place = [f.name for f in task.spec.candidates].index(CLUSTER)

    def loss_of(decisions: Decisions, targets: NDArray[np.float32]) -> LossAt:
        def loss(rows: NDArray[np.int64]) -> tuple[Tensor, Info]:
            inputs, index, clusters = asked(decisions, rows, network, place)
            values = scorer(torch.from_numpy(inputs).to(task.device))
            scores = values[torch.from_numpy(index), torch.from_numpy(clusters)]
            mask = torch.from_numpy(decisions.mask[rows]).to(task.device)
            wanted = torch.from_numpy(targets[rows]).to(task.device)
            scores = torch.where(mask, scores.reshape(mask.shape), FILL)
            return tilted_loss(scores, mask, wanted)

        return loss

    return cloning(
        task, network, scorer, lambda: weights_of(scorer), loss_of, shown, held_out, _STEPS
    )


def asked(
    decisions: Decisions, rows: NDArray[np.int64], network: ClustersNetwork, place: int
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Return network inputs for the candidates of decisions `rows`, B decisions of K candidates.

    The result is inputs (U, I) without adjacent repetitions, the index (B * K,) of each candidate's
    input, and each candidate's cluster (B * K,), which is read from column `place`.
    """
    candidates = decisions.candidates[rows]
    count, most = candidates.shape[:2]
    own = candidates[:, :, network.candidates.columns]
    new = np.ones((count, most), np.bool_)
    new[:, 1:] = (own[:, 1:] != own[:, :-1]).any(axis=2)
    index = np.cumsum(new.ravel()) - 1
    flat = candidates.reshape(count * most, -1)
    kept = np.flatnonzero(new.ravel())
    moment = network.context.expand(decisions.context[rows])
    inputs = np.concatenate([network.candidates.expand(flat[kept]), moment[kept // most]], axis=1)
    last = network.settings.clusters - 1
    return inputs, index, np.clip(flat[:, place], 0, last).astype(np.int64)
