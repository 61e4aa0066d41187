"""Imitation before play for a network that gives an application a value at every cluster.

    loss = mean over decisions of KL(logged distribution || softmax of the values of the rows)

The values that come of it order choices as the log does; what they are worth is learned by playing.
An application's rows stand together, so that it is computed once for all its clusters.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.decisions import Decisions
from pipeline.seeds import generator
from policies.clusters import CLUSTER, ClustersNetwork
from policies.offline.advantage_cloning import tilted_loss
from policies.offline.learner import Criterion, Info, Learner, Task, descend
from policies.offline.minibatches import draw_rows
from policies.online.value_network import make_value_network, weights_of

_MINIBATCH = 128
_LEARNING_RATE = 1e-3


def value_imitator(task: Task, network: ClustersNetwork, shown: NDArray[np.float32]) -> Learner:
    """The learner of an imitation of the distributions `shown` (D, K), by Adam."""
    rng = generator(task.seed, "imitation")
    drawn = generator(task.seed, "imitation weights")
    scorer = make_value_network(network, None, drawn).to(task.device)
    optimiser = torch.optim.Adam(scorer.parameters(), lr=_LEARNING_RATE)
    place = [f.name for f in task.spec.candidates].index(CLUSTER)

    def step(_number: int) -> Info:
        rows = draw_rows(len(task.decisions), _MINIBATCH, rng)
        inputs, index, clusters = asked(task.decisions, rows, network, place)
        values = scorer(torch.from_numpy(inputs).to(task.device))
        scores = values[torch.from_numpy(index), torch.from_numpy(clusters)]
        mask = torch.from_numpy(task.decisions.mask[rows]).to(task.device)
        targets = torch.from_numpy(shown[rows]).to(task.device)
        loss, info = tilted_loss(_reshaped(scores, mask), mask, targets)
        descend(optimiser, loss)
        return {"loss": loss.detach(), **info}

    return Learner(
        network=network,
        weights=lambda: weights_of(scorer),
        modules={"scorer": scorer},
        optimisers={"adam": optimiser},
        rng=rng,
        step=step,
        validate=dict,
        criterion=Criterion("validation_loss", "lower"),
    )


def asked(
    decisions: Decisions, rows: NDArray[np.int64], network: ClustersNetwork, place: int
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Inputs (U, I) of the applications of decisions `rows`, without those that stand repeated.

    With the input (B * K,) of every candidate, and its cluster (B * K,), in column `place`.
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


def _reshaped(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.reshape(mask.shape)
