"""Imitation before play for the network of score_ppo, which scores the jobs of a slot at once.

    scores     of all startable jobs at the beginning of the slot; jobs already started are skipped
    p(job)     softmax of scores / TEMPERATURE over the waiting jobs, whether or not they fit
    p(close)   sum of p over the jobs that do not fit: a slot ends at the first job that is refused
    loss       mean over decisions of KL(logged distribution || p)

p is a soft version of how the network acts. Scores with Gumbel noise of scale TEMPERATURE, drawn
once per slot, start the jobs in an order with the Plackett-Luce distribution, and p is the
distribution of the next job given those already started. The decisions of a slot can therefore be
learned from one by one.

The scores are means between -1 and 1, for which a plain softmax could prefer one job to another by
a factor of e^2 at most. Division by TEMPERATURE allows preferences as certain as those of a rule.
Since the scores are bounded, they converge.

No scores close a slot while all waiting jobs would fit. Decisions at which the log closes such a
slot with probability above 1/2 are left out (`left_out` is their share); at the others, that
probability is ignored. Rules that hold jobs back, such as knapsack_patient, are thus imitated as
far as an order of jobs can imitate them.

Only the mean is imitated. The head of the deviation keeps its initial weights, so play begins about
as noisy as without imitation, around another mean; the deviation changes a little because the
encoder that it reads has changed. The value head also keeps its initial weights and is learned by
playing. The outputs of the auxiliary module are muted: the module learns fast during play, which
would shift the mean. The weights of its inputs are 0 after imitation and are learned during play.

Sources: Luce, "Individual Choice Behavior", 1959; Plackett, "The Analysis of Permutations", 1975.
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindcast.flows.papers.osdec.network import SlotScoresNetwork
from hindcast.flows.papers.osdec.rollouts import look
from hindcast.flows.papers.osdec.slotwise import begun_slots, waiting_jobs
from hindcast.flows.papers.osdec.torch_network import SlotNetwork
from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.scenarios.deferrable.features import ROW
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.networks.candidate_scorer import FILL
from hindcast.policies.online.imitation import Steps, cloning
from hindcast.policies.training.learner import Info, Learner, Task
from hindcast.policies.training.losses import LossAt, tilted_loss

TEMPERATURE: Final = 0.2
_STEPS: Final = Steps(minibatch=128, learning_rate=5e-3, validated=1024)
_Mask = NDArray[np.bool_]


def imitator(
    task: Task,
    _config: Any,
    network: SlotScoresNetwork,
    targets: NDArray[np.float32],
    held_out: NDArray[np.float32] | None,
) -> Learner:
    """Return the learner of an imitation before play, see hindcast.policies.online.imitation.

    The decisions of the task have all K candidates of their observations, feasible or not.
    `targets` (D, K) and `held_out` are the logged distributions of task.decisions and
    task.validation. Raises DatasetError if no scores can imitate any decision.
    """
    net = SlotNetwork(network, generator(task.seed, "imitation weights"))
    net.mute_auxiliary()
    net.to(task.device)
    decisions, targets = representable(task.decisions, targets)
    if len(decisions) == 0:
        raise DatasetError(
            "the best behaviours of the dataset only close slots into which all jobs would fit, "
            "which scores of a slot cannot imitate; choose another dataset"
        )
    left_out = torch.tensor(1.0 - len(decisions) / len(task.decisions))
    validation = task.validation
    if validation is not None and held_out is not None:
        validation, held_out = representable(validation, held_out)

    def loss_of(decisions: Decisions, targets: NDArray[np.float32]) -> LossAt:
        def loss(rows: NDArray[np.int64]) -> tuple[Tensor, Info]:
            batch = decisions.take(rows)
            fits, refused, close = (torch.from_numpy(m).to(task.device) for m in kinds(batch))
            scores = _scores(net, network, batch, task.device)
            logged = torch.from_numpy(targets[rows]).to(task.device)
            log_probabilities = log_probabilities_of(scores / TEMPERATURE, fits, refused, close)
            loss, _ = tilted_loss(log_probabilities, log_probabilities > FILL, logged)
            best = torch.where(fits | refused, scores, FILL).argmax(dim=1, keepdim=True)
            chosen = torch.where(fits.gather(1, best), best, close.int().argmax(1, keepdim=True))
            agreement = (chosen[:, 0] == logged.argmax(dim=1)).float().mean()
            return loss, {"agreement": agreement, "left_out": left_out}

        return loss

    task = replace(task, decisions=decisions, validation=validation)
    return cloning(task, network, net, net.weights, loss_of, targets, held_out, _STEPS)


def kinds(decisions: Decisions) -> tuple[_Mask, _Mask, _Mask]:
    """Return masks (D, K) of jobs that fit, startable jobs that do not fit, and the close row."""
    waits = decisions.candidates[:, :, ROW.is_startable] == 1.0
    fits = waits & decisions.mask
    return fits, waits & ~fits, decisions.candidates[:, :, ROW.closes] == 1.0


def representable(
    decisions: Decisions, targets: NDArray[np.float32]
) -> tuple[Decisions, NDArray[np.float32]]:
    """Return the decisions that scores can imitate, and their rows of `targets` (D, K).

    The distributions are normalised over the choices that scores can make.
    """
    fits, refused, close = kinds(decisions)
    kept = targets * (fits | (close & refused.any(axis=1, keepdims=True)))
    share = kept.sum(axis=1)
    rows = np.flatnonzero(share >= 0.5)
    return decisions.take(rows), kept[rows] / share[rows, None]


def log_probabilities_of(scores: Tensor, fits: Tensor, refused: Tensor, close: Tensor) -> Tensor:
    """Return log p (B, K), with FILL where p is 0; p is that of the module's docstring.

    All arguments are (B, K), and every row has at least one waiting job.
    """
    every = torch.where(fits | refused, scores, FILL).logsumexp(dim=1, keepdim=True)
    ends = torch.where(refused, scores, FILL).logsumexp(dim=1, keepdim=True)
    log_probabilities = torch.where(fits, scores - every, FILL)
    return torch.where(close & refused.any(dim=1, keepdim=True), ends - every, log_probabilities)


def _scores(
    net: SlotNetwork, network: SlotScoresNetwork, decisions: Decisions, device: torch.device
) -> Tensor:
    """Return mean scores (B, K) of waiting jobs, at the beginning of their slots; 0 elsewhere."""
    slots = begun_slots(decisions.context, decisions.candidates)
    with torch.no_grad():
        seen, _history = look(net, network, slots, device)
    means = net(replace(seen, information=torch.zeros_like(seen.information))).mean
    decision, row, place = [], [], []
    for b, (candidates, jobs) in enumerate(zip(decisions.candidates, slots.rows, strict=True)):
        waiting, places = waiting_jobs(candidates, jobs[: slots.counts[b, 0]])
        decision.append(np.full(len(waiting), b))
        row.append(waiting)
        place.append(places)
    at, i, k = (torch.from_numpy(np.concatenate(x)).to(device) for x in (decision, row, place))
    found: Tensor = means.new_zeros(*decisions.mask.shape).index_put((at, i), means[at, k])
    return found
