"""Imitation before play for a network that scores the jobs of a slot at once: that of score_ppo.

    scores     of all startable jobs as the slot began; those that were started are passed over
    p(job)     softmax of the scores / TEMPERATURE over the jobs that wait, whether or not they fit
    p(close)   the sum of p over those that do not fit: a slot ends at the first that is refused
    loss       mean over decisions of KL(logged distribution || p)

That is the action of the network as it acts, made soft: scores with Gumbel noise of the size of
TEMPERATURE, drawn once a slot, start the jobs in the order of Plackett and Luce, of which p is the
next one given those started so far. So the decisions of a slot can be learned from one by one.

The scores are means between -1 and 1, with which softmax itself could not prefer a job more than
e^2 times; divided by TEMPERATURE they can be as certain as a rule. Being bounded they settle.

No scores close a slot while all that waits would fit. Decisions at which the log more likely than
not does so are left out (`left_out`: their share), and of the others such a close does not count:
rules that hold jobs back, knapsack_patient say, are imitated as far as an order can.

Only the mean is imitated. The head of the deviation keeps the weights that it was drawn with, so
play begins as noisy as without imitation, around another mean (what it reads, the encoder, has
moved, and the deviation a little with it); so does the value, which is learned by playing. What the
auxiliary module says is not listened to: it learns fast in play, and would take the mean with it.
The inputs that read it have weight 0 afterwards, which the gradient of play moves from there.

Sources: Luce, "Individual Choice Behavior", 1959; Plackett, "The Analysis of Permutations", 1975.
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.dataset.decisions import Decisions
from pipeline.errors import DatasetError
from pipeline.scenarios.deferrable.features import ROW
from pipeline.scenarios.deferrable.slotwise import begun_slots, waiting_jobs
from pipeline.simulation.seeds import generator
from policies.networks.candidate_scorer import FILL
from policies.online.imitation import Steps, cloning
from policies.papers.osdec.network import SlotScoresNetwork
from policies.papers.osdec.rollouts import look
from policies.papers.osdec.torch_network import SlotNetwork
from policies.training.learner import Info, Learner, Task
from policies.training.losses import LossAt, tilted_loss

TEMPERATURE: Final = 0.2
_STEPS: Final = Steps(minibatch=128, learning_rate=5e-3, validated=1024)
_Mask = NDArray[np.bool_]


def imitator(
    task: Task,
    _config: Any,
    network: SlotScoresNetwork,
    shown: NDArray[np.float32],
    held_out: NDArray[np.float32] | None,
) -> Learner:
    """The learner of an imitation before play, see policies.online.imitation.

    Decisions are whole observations. Raises DatasetError where no scores could choose as they do.
    """
    net = SlotNetwork(network, generator(task.seed, "imitation weights"))
    net.mute_auxiliary()
    net.to(task.device)
    decisions, wanted = representable(task.decisions, shown)
    if len(decisions) == 0:
        raise DatasetError(
            "its best behaviours only ever close slots into which all jobs would fit; scores of a "
            "slot never do"
        )
    left_out = torch.tensor(1.0 - len(decisions) / len(task.decisions))
    validation, others = task.validation, held_out
    if validation is not None and held_out is not None:
        validation, others = representable(validation, held_out)

    def loss_of(decisions: Decisions, targets: NDArray[np.float32]) -> LossAt:
        def loss(rows: NDArray[np.int64]) -> tuple[Tensor, Info]:
            some = decisions.take(rows)
            fits, refused, close = (torch.from_numpy(m).to(task.device) for m in kinds(some))
            scores = _scores(net, network, some, task.device)
            own = torch.from_numpy(targets[rows]).to(task.device)
            trace_probabilities = log_probabilities_of(scores / TEMPERATURE, fits, refused, close)
            loss, _ = tilted_loss(trace_probabilities, trace_probabilities > FILL, own)
            best = torch.where(fits | refused, scores, FILL).argmax(dim=1, keepdim=True)
            chosen = torch.where(fits.gather(1, best), best, close.int().argmax(1, keepdim=True))
            agreement = (chosen[:, 0] == own.argmax(dim=1)).float().mean()
            return loss, {"agreement": agreement, "left_out": left_out}

        return loss

    task = replace(task, decisions=decisions, validation=validation)
    return cloning(task, network, net, net.weights, loss_of, wanted, others, _STEPS)


def kinds(decisions: Decisions) -> tuple[_Mask, _Mask, _Mask]:
    """Which rows (D, K) are jobs that fit, jobs that could start but do not fit, and the close."""
    waits = decisions.candidates[:, :, ROW.is_startable] == 1.0
    fits = waits & decisions.mask
    return fits, waits & ~fits, decisions.candidates[:, :, ROW.closes] == 1.0


def representable(
    decisions: Decisions, shown: NDArray[np.float32]
) -> tuple[Decisions, NDArray[np.float32]]:
    """The decisions that scores could make, and their distributions among what scores could do."""
    fits, refused, close = kinds(decisions)
    kept = shown * (fits | (close & refused.any(axis=1, keepdims=True)))
    share = kept.sum(axis=1)
    rows = np.flatnonzero(share >= 0.5)
    return decisions.take(rows), kept[rows] / share[rows, None]


def log_probabilities_of(scores: Tensor, fits: Tensor, refused: Tensor, close: Tensor) -> Tensor:
    """Logarithms of p (B, K), FILL where it is 0; all (B, K), and some job waits in every row."""
    every = torch.where(fits | refused, scores, FILL).logsumexp(dim=1, keepdim=True)
    ends = torch.where(refused, scores, FILL).logsumexp(dim=1, keepdim=True)
    trace_probabilities = torch.where(fits, scores - every, FILL)
    return torch.where(close & refused.any(dim=1, keepdim=True), ends - every, trace_probabilities)


def _scores(
    net: SlotNetwork, network: SlotScoresNetwork, decisions: Decisions, device: torch.device
) -> Tensor:
    """Mean scores (B, K) of the jobs that wait, as their slots began; 0 in other rows."""
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
