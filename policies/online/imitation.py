"""Imitation before play: the network of an online agent first imitates a dataset's best behaviours.

    loss = mean over decisions of KL(logged distribution || softmax of the scores)

Logged distributions carry more information than the choices drawn from them, see
hindcast.policies.offline.regression.advantage_cloning. Of a mixed log, only the best behaviours are
imitated (`share` of its episodes). If a dataset has no probabilities, the choices are imitated.

The module of an agent whose network is not a candidate scorer has

    imitator(task, config, network, targets, held_out) -> Learner

with a Task of hindcast.policies.training.learner, the distributions `targets` (D, K) to imitate and
`held_out`, those of task.validation, or None. The learner returns weights by the names of
network.shapes. `cloning` makes such learners for networks with a gradient.

Decisions have 32 of their feasible candidates. If the agent needs whole observations, they have all
candidates, feasible or not. OUT/imitation is the resulting checkpoint.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import nn

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.decisions import Columns, Decisions
from hindcast.pipeline.dataset.sampling import sample_decisions
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage.files import make_folder, remove_partials
from hindcast.policies.networks import AnyNetwork, acting
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.networks.checkpoint import load_policy, network_digest, save
from hindcast.policies.networks.settings import Network, Weights
from hindcast.policies.online import online_agent
from hindcast.policies.training.fingerprint import Identity
from hindcast.policies.training.job import finished_key
from hindcast.policies.training.learner import Learner, Task, descent
from hindcast.policies.training.loop import Callbacks, fit, untrained
from hindcast.policies.training.losses import LossAt, drawn_loss, imitation_loss, spaced_loss
from hindcast.policies.training.resume import ResumeFile
from hindcast.policies.training.returns import best_behaviours, of_behaviours

FOLDER: Final = "imitation"
_CANDIDATES: Final = 32
_PER_EPISODE: Final = 200
_MEMORY: Final = 512 << 20  # bytes of decisions


@dataclass(frozen=True)
class Imitation:
    """Settings of imitation before play.

    Attributes:
        dataset: Folder of the dataset.
        steps: Gradient steps, at least 1.
        minibatch: Decisions per gradient step, at least 1.
        learning_rate: Step size of Adam, above 0.
        share: Share of the dataset's episodes to imitate: its best behaviours, until they have that
            many; 0 to 1.
        left_out: Windows whose episodes are not imitated.
    """

    dataset: Path
    steps: int = 2000
    minibatch: int = 512
    learning_rate: float = 3e-3
    share: float = 0.3
    left_out: tuple[int, ...] = ()

    def provenance(self) -> dict[str, Any]:
        """Return the dataset's digests and the settings; raise DatasetError without a dataset."""
        if self.steps < 1:
            raise InputError(f"imitation: steps is {self.steps}, expected at least 1")
        opened = ds.open(self.dataset)
        settings = {key: value for key, value in asdict(self).items() if key != "dataset"}
        if not self.left_out:
            del settings["left_out"]
        return {
            "recipe": opened.recipe.id,
            "digest": opened.manifest.digest,
            "episodes_sha256": opened.manifest.episodes.sha256,
            **settings,
        }


@dataclass(frozen=True)
class Imitator:
    """The network that imitates, and the training that it is for."""

    identity: Identity
    network: AnyNetwork
    spec: Spec


def imitate(imitation: Imitation, imitator: Imitator, out: Path, resume_s: float) -> Weights:
    """Return the weights of the network after imitation, or those of an earlier finished call.

    After an interruption, the same call continues and ends with the same weights. Raises
    DatasetError if the dataset has other features than the network or no decisions to imitate;
    InputError if the agent does not support imitation.
    """
    identity, provenance = imitator.identity, imitation.provenance()
    steps = imitation.steps
    data = {**provenance, "network": network_digest(imitator.network)}
    named = f"{identity.agent} {FOLDER}"
    key = replace(identity, agent=named, steps=steps, data=data, gate="simulator").key
    if finished_key(out) != key:
        make_folder(out)
        remove_partials(out)
        resume = ResumeFile(out, key, interval_s=resume_s)
        learner = _learner(imitation, imitator)
        begun = untrained(
            learner,
            f"{identity.agent}_{FOLDER}",
            identity.config,
            imitator.spec,
            steps=steps,
            seed=identity.seed,
        )
        save(
            fit(learner, begun, Callbacks(resume=resume)), out, {"dataset": provenance, "key": key}
        )
        resume.remove()
    return load_policy(out).weights


def _learner(imitation: Imitation, imitator: Imitator) -> Learner:
    """Return the learner of an imitation, over decisions of the dataset's best behaviours."""
    i, network, spec = imitator.identity, imitator.network, imitator.spec
    opened = ds.open(imitation.dataset).without(imitation.left_out)
    zeros = {name: np.zeros(shape, np.float32) for name, shape in network.shapes.items()}
    try:
        acting(i.agent, network, zeros, spec.context, spec.candidates).check(opened.spec)
    except DatasetError as error:
        raise DatasetError(f"{imitation.dataset}: decisions of other features; {error}") from error
    names = best_behaviours(opened.episodes("train"), imitation.share)
    agent = online_agent(i.agent)
    k = _largest(opened) if agent.whole else _CANDIDATES

    def sample(split: str, memory: int) -> tuple[Decisions, NDArray[np.float32]]:
        """Return decisions of the best behaviours, and their logged distributions (D, K).

        Decisions with one candidate teach nothing. `memory` bounds the bytes of what is read.
        """
        further = network.rules.further(str(imitation.dataset))
        columns = Columns(k, images=network.pixels > 0, more=("probabilities",), further=further)
        drawn = sample_decisions(
            opened, split, generator(i.seed, f"imitate {split}"), columns,
            per_episode=_PER_EPISODE, limit=max(1, memory // columns.bytes(spec)),
        )  # fmt: skip
        best = of_behaviours(drawn.episodes, names)[drawn.episode] & (drawn.mask.sum(axis=1) > 1)
        decisions = drawn.take(np.flatnonzero(best))
        return decisions, distributions(decisions)

    decisions, targets = sample("train", _MEMORY)
    if len(decisions) == 0:
        raise DatasetError(f"{imitation.dataset}: its best behaviours never have two candidates")
    validation, held_out = None, None
    if (opened.episodes()["split"] == "validation").any():
        validation, held_out = sample("validation", _MEMORY // 10)
        if len(validation) == 0:
            validation, held_out = None, None
    task = Task(decisions, spec, imitation.steps, i.seed, validation, i.device)
    imitator_of_agent = getattr(import_module(agent.module), "imitator", None)
    if imitator_of_agent is not None:
        try:
            learner: Learner = imitator_of_agent(task, i.config, network, targets, held_out)
        except DatasetError as error:
            raise DatasetError(f"{imitation.dataset}: {error}") from error
        return learner
    if not isinstance(network, Network) or network.outputs != 1:
        raise InputError(f"{i.agent} does not support imitation: its module has no `imitator`")
    return scorer_imitator(task, imitation, network, targets, held_out)


def _largest(dataset: ds.Dataset) -> int:
    """Return the largest number of candidates of a decision."""
    sizes = dataset.transitions().select(pl.col("feasible").list.len().max())
    return int(sizes.collect(engine="streaming").item())


def distributions(decisions: Decisions) -> NDArray[np.float32]:
    """Return the logged distributions (D, K); one-hot choices if the log has no probabilities."""
    if decisions.probabilities is not None:
        total = decisions.probabilities.sum(axis=1)
        if (total > 0.0).all():
            shares: NDArray[np.float32] = decisions.probabilities / total[:, None]
            return shares
    one_hot = np.zeros(decisions.mask.shape, np.float32)
    one_hot[np.arange(len(decisions)), decisions.choice] = 1.0
    return one_hot


def scorer_imitator(
    task: Task,
    imitation: Imitation,
    network: Network,
    targets: NDArray[np.float32],
    held_out: NDArray[np.float32] | None,
) -> Learner:
    """Return the learner of a candidate scorer; `held_out` are those of task.validation."""
    scorer = CandidateScorer(network, generator(task.seed, "imitation weights")).to(task.device)

    def loss_of(decisions: Decisions, targets: NDArray[np.float32]) -> LossAt:
        return imitation_loss(scorer, network, decisions, targets, task.device)

    steps = Steps(imitation.minibatch, imitation.learning_rate)
    return cloning(task, network, scorer, scorer.weights, loss_of, targets, held_out, steps)


@dataclass(frozen=True)
class Steps:
    """Settings of imitation by gradient; `validated` is the number of validation decisions."""

    minibatch: int
    learning_rate: float
    validated: int = 4096


def cloning(
    task: Task,
    network: AnyNetwork,
    scorer: nn.Module,
    weights: Callable[[], Weights],
    loss_of: Callable[[Decisions, NDArray[np.float32]], LossAt],
    targets: NDArray[np.float32],
    held_out: NDArray[np.float32] | None,
    steps: Steps,
) -> Learner:
    """Return the learner that imitates with Adam; `weights` returns those of `network`.

    loss_of maps decisions and their distributions (D, K) to the loss at some rows, with `agreement`
    and other metrics; held_out are the distributions of task.validation, or None.
    """
    rng = generator(task.seed, "imitation")
    optimiser = torch.optim.Adam(scorer.parameters(), lr=steps.learning_rate)
    count, validated = len(task.decisions), None
    loss = drawn_loss(loss_of(task.decisions, targets), count, steps.minibatch, rng)
    if task.validation is not None and held_out is not None and len(held_out):
        validation_loss = loss_of(task.validation, held_out)
        validated = spaced_loss(validation_loss, len(held_out), steps.validated)
    return descent(network, scorer, weights, optimiser, rng, loss, validated)
