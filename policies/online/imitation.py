"""Imitation before play: an online agent's own network begins as the best behaviours of a dataset.

    loss = mean over decisions of KL(logged distribution || softmax of the scores)

Whole logged distributions say more than the choices that were drawn from them, see
policies.offline.advantage_cloning; of a mixed log only the behaviours that did best are imitated
(`share` of its episodes). Where a dataset has no probabilities, the choices stand for them.

An agent whose network is no candidate scorer has in its module

    imitator(task, config, network, shown) -> Learner

with `task` of policies.offline.learner and `shown` the distributions (D, K) to imitate; the learner
gives weights by the names of network.shapes. OUT/imitation is the checkpoint that comes of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline import dataset as ds
from pipeline.decisions import Decisions, decision_bytes
from pipeline.errors import DatasetError, InputError
from pipeline.sampling import sample_decisions
from pipeline.schema import Spec
from pipeline.seeds import generator
from pipeline.storage import make_folder, remove_partials
from policies.checkpoint import Trained, load_policy, save
from policies.kinds import AnyNetwork, acting
from policies.learned import Network, Weights
from policies.networks import CandidateScorer
from policies.offline.advantage_cloning import tilted_loss
from policies.offline.advantages import best_behaviours, of_behaviours
from policies.offline.identity import finished, training_key
from policies.offline.learner import Criterion, Info, Learner, Task, descend
from policies.offline.loop import Watching, fit
from policies.offline.minibatches import Batches, draw_rows, spaced_rows
from policies.offline.resume import ResumeFile
from policies.online import online_agent

FOLDER: Final = "imitation"
_CANDIDATES: Final = 32
_PER_EPISODE: Final = 200
_MEMORY: Final = 512 << 20  # bytes of decisions
_VALIDATED: Final = 4096  # decisions
_LOOK: Final = Criterion("validation_loss", "lower")


@dataclass(frozen=True)
class Imitation:
    """What is imitated before play, and how.

    share   of the dataset's episodes: its best behaviours, until they have that many
    """

    dataset: Path
    steps: int = 2000
    minibatch: int = 512
    learning_rate: float = 3e-3
    share: float = 0.3

    def told(self) -> dict[str, Any]:
        """The dataset by its digests, and how it is imitated; DatasetError where it is none."""
        if self.steps < 1:
            raise InputError(f"imitation: steps is {self.steps}, expected at least 1")
        opened = ds.open(self.dataset)
        own = {key: value for key, value in asdict(self).items() if key != "dataset"}
        return {
            "recipe": opened.recipe.id,
            "digest": opened.manifest.digest,
            "episodes_sha256": opened.manifest.episodes.sha256,
            **own,
        }


@dataclass(frozen=True)
class Imitator:
    """An agent that is about to imitate: its name, settings and network, and where it does so."""

    agent: str
    config: Any
    network: AnyNetwork
    spec: Spec
    seed: int
    device: torch.device


def imitate(imitation: Imitation, imitator: Imitator, out: Path, resume_s: float) -> Weights:
    """Weights of the network after imitation; of an earlier call, where that was finished.

    Interrupted, the same call goes on and ends in the same weights. Raises DatasetError for a
    dataset of other features than the network's, or without decisions to imitate; InputError for
    an agent that cannot imitate.
    """
    i, told = imitator, imitation.told()
    key = training_key(
        f"{i.agent} {FOLDER}", i.config, imitation.steps, i.seed, told, i.device.type
    )
    if not finished(out, key, None):
        make_folder(out)
        remove_partials(out)
        resume = ResumeFile(out, key, interval_s=resume_s)
        learner = _learner(imitation, imitator)
        watching = Watching(lambda _weights: {}, lambda _done, _all: None, resume=resume)
        fitted = fit(learner, imitation.steps, watching)
        made = Trained(
            f"{i.agent}_{FOLDER}", i.spec, i.network, learner.weights(), asdict(i.config),
            imitation.steps, i.seed, fitted.metrics,
        )  # fmt: skip
        save(made, out, {"dataset": told, "key": key})
        resume.remove()
    return load_policy(out).weights


def _learner(imitation: Imitation, imitator: Imitator) -> Learner:
    """The learner of an imitation, over decisions of the dataset's best behaviours."""
    i, opened = imitator, ds.open(imitation.dataset)
    zeros = {name: np.zeros(shape, np.float32) for name, shape in i.network.shapes.items()}
    acting(i.agent, i.network, zeros, i.spec.context, i.spec.candidates).check(opened.spec)
    names = best_behaviours(opened.episodes("train"), imitation.share)

    def sample(split: str, memory: int) -> tuple[Decisions, NDArray[np.float32]]:
        images = i.network.pixels > 0
        each = decision_bytes(
            i.spec, _CANDIDATES, transitions=False, images=images, probabilities=True
        )
        found = sample_decisions(
            opened, split, generator(i.seed, f"imitate {split}"), k=_CANDIDATES,
            per_episode=_PER_EPISODE, limit=max(1, memory // each), images=images,
            probabilities=True,
        )  # fmt: skip
        kept = of_behaviours(found.episodes, names)[found.episode] & (found.mask.sum(axis=1) > 1)
        decisions = found.take(np.flatnonzero(kept))
        return decisions, distributions(decisions)

    decisions, shown = sample("train", _MEMORY)
    if len(decisions) == 0:
        raise DatasetError(f"{imitation.dataset}: its best behaviours never had a choice")
    validation = None
    if (opened.episodes()["split"] == "validation").any():
        validation = sample("validation", _MEMORY // 10)
        validation = validation if len(validation[0]) else None
    task = Task(
        decisions, i.spec, imitation.steps, i.seed, validation[0] if validation else None, i.device
    )
    own = getattr(import_module(online_agent(i.agent).module), "imitator", None)
    if own is not None:
        learner: Learner = own(task, i.config, i.network, shown)
        return learner
    if not isinstance(i.network, Network) or i.network.outputs != 1:
        raise InputError(f"{i.agent} cannot imitate: its module has no `imitator`")
    return scorer_imitator(task, imitation, i.network, shown, validation[1] if validation else None)


def distributions(decisions: Decisions) -> NDArray[np.float32]:
    """What the behaviours would have done (D, K); what they did, where nothing else is known."""
    if decisions.probabilities is not None:
        total = decisions.probabilities.sum(axis=1)
        if (total > 0.0).all():
            shares: NDArray[np.float32] = decisions.probabilities / total[:, None]
            return shares
    found = np.zeros(decisions.mask.shape, np.float32)
    found[np.arange(len(decisions)), decisions.choice] = 1.0
    return found


def scorer_imitator(
    task: Task,
    imitation: Imitation,
    network: Network,
    shown: NDArray[np.float32],
    held_out: NDArray[np.float32] | None,
) -> Learner:
    """Imitation by a candidate scorer of this shape; `held_out` are those of task.validation."""
    scorer = CandidateScorer(network, generator(task.seed, "imitation weights")).to(task.device)
    rng = generator(task.seed, "imitation")
    optimiser = torch.optim.Adam(scorer.parameters(), lr=imitation.learning_rate)

    def batch_of(
        decisions: Decisions, targets: NDArray[np.float32]
    ) -> Callable[[NDArray[np.int64]], tuple[torch.Tensor, Info]]:
        batches = Batches(decisions, network, task.device)
        wanted = torch.from_numpy(targets).to(task.device)

        def loss(rows: NDArray[np.int64]) -> tuple[torch.Tensor, Info]:
            batch = batches.at(rows)
            scores = scorer.packed(batch.candidates, batch.context, batch.mask)
            return tilted_loss(scores, batch.mask, wanted[torch.from_numpy(rows).to(task.device)])

        return loss

    loss_of = batch_of(task.decisions, shown)

    def step(_number: int) -> Info:
        loss, info = loss_of(draw_rows(len(task.decisions), imitation.minibatch, rng))
        descend(optimiser, loss)
        return {"loss": loss.detach(), **info}

    def validate() -> Mapping[str, float]:
        if task.validation is None or held_out is None:
            return {}
        loss, info = held_out_loss(spaced_rows(len(task.validation), _VALIDATED))
        return {"validation_loss": float(loss), "validation_agreement": float(info["agreement"])}

    if task.validation is not None and held_out is not None:
        held_out_loss = batch_of(task.validation, held_out)
    return Learner(
        network=network,
        weights=scorer.weights,
        modules={"scorer": scorer},
        optimisers={"adam": optimiser},
        rng=rng,
        step=step,
        validate=validate,
        criterion=_LOOK,
    )
