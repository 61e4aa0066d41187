"""Several trainings of one agent as one program; each ends in the folder of a training.

Trainings that share their shapes (networks, minibatches) form a stack, and take their steps
together; they may differ in their seed and in settings that are numbers. An agent offers this by
two functions of its implementation:

    alike(config)           shapes that a stack shares; None for a training that cannot be stacked
    stack(tasks, configs)   the learners of a stack

A stack is trained from its beginning: if it is interrupted, trainings that have been written are
kept, and the others begin again.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.storage.locks import writing
from hindcast.policies.networks.candidate_scorer import fit_network
from hindcast.policies.offline import Agent, read_config
from hindcast.policies.offline import agent as find_agent
from hindcast.policies.offline.resident import memory, padded_bytes
from hindcast.policies.offline.tasks import task_of
from hindcast.policies.offline.training import about, identity_of
from hindcast.policies.training.delivery.gates import decide_once
from hindcast.policies.training.delivery.training import write_training
from hindcast.policies.training.devices import repeatable
from hindcast.policies.training.fingerprint import Identity
from hindcast.policies.training.job import (
    DEFAULTS,
    Options,
    finished_key,
    open_folder,
)
from hindcast.policies.training.learner import Task
from hindcast.policies.training.loop import Callbacks, Progress, fit_together, quiet, untrained
from hindcast.policies.training.monitoring import measure_of

WIDTH: Final = 64  # most trainings of a stack
_LOGS: Final = 2 << 30  # bytes of a stack's decisions in main memory


@dataclass(frozen=True)
class Member:
    """One training of a stack.

    Attributes:
        settings: Settings of the agent to replace, by dotted names.
        seed: Seed of the training.
        out: Folder for its checkpoint.
    """

    settings: Mapping[str, Any]
    seed: int
    out: Path


@dataclass(frozen=True)
class _Training:
    """A member with its Task."""

    out: Path
    identity: Identity
    task: Task


def can_stack(agent: str, settings: Mapping[str, Any]) -> bool:
    """Return True if trainings of the agent with these settings can be stacked."""
    alike = getattr(find_agent(agent).implementation(), "alike", None)
    return alike is not None and alike(read_config(agent, settings)) is not None


def train_stacked(
    dataset: Path,
    agent: str,
    members: Sequence[Member],
    options: Options = DEFAULTS,
    progress: Progress | None = None,
) -> dict[Path, str]:
    """Train an agent once per member, several in one program, and write their folders.

    The folders are those of `hindcast.policies.offline.training.train`, without a state to resume
    from. Weights equal those of single trainings to rounding, so a single training in the same
    folder does not count as finished. Finished members are left unchanged. Members have their own
    seeds, not that of `options`. `progress` is called with the steps of all members together.

    Returns:
        The reasons of trainings that failed on their data or diverged, by their folders.

    Raises:
        UnknownName, RecipeError, DatasetError, StorageError, InputError: As `train` does.
    """
    wanted = find_agent(agent)
    configs = [read_config(agent, member.settings) for member in members]
    if options.gate == "folds":
        raise InputError("--gate folds repeats a training, which a stacked one cannot")
    opened = ds.open(dataset)
    if options.gate == "lookahead":
        decide_once(opened, 0, options.gate)  # raises InputError before any training
    waiting: list[tuple[Path, Identity]] = []
    for member, config in zip(members, configs, strict=True):
        single = identity_of(opened, wanted, config, replace(options, seed=member.seed))
        identity = replace(single, stacked=True)
        if finished_key(member.out) != identity.key:
            waiting.append((member.out, identity))
    failed: dict[Path, str] = {}
    done, total = 0, sum(identity.steps for _, identity in waiting)

    def read(group: list[tuple[Path, Identity]]) -> Iterator[_Training]:
        """Yield the trainings of a group with their decisions; `failed` gets those without."""
        for out, identity in group:
            try:
                task = task_of(opened, wanted, identity)
            except DatasetError as error:
                failed[out] = str(error)
                continue
            yield _Training(out, identity, task)

    for group in _groups(waiting, wanted.implementation().alike):
        for stack in _stacks(read(group)):
            told = quiet if progress is None else partial(_tell, progress, done, len(stack), total)
            failed |= _train(opened, wanted, stack, told)
            done += sum(one.identity.steps for one in stack)
    return failed


def _groups(
    waiting: Sequence[tuple[Path, Identity]], alike: Callable[[Any], Any]
) -> list[list[tuple[Path, Identity]]]:
    """Return the trainings that share their shapes, those with the same decisions side by side.

    Decisions depend on the seed and on how returns are discounted
    (hindcast.policies.offline.tasks). They are then sampled once and moved once.
    """
    groups: dict[Any, list[tuple[Path, Identity]]] = {}
    for one in waiting:
        groups.setdefault(alike(one[1].config), []).append(one)

    def sampled(one: tuple[Path, Identity]) -> tuple[int, str]:
        discount = [getattr(one[1].config, name, None) for name in ("discount", "discount_per")]
        return one[1].seed, repr(discount)

    return [sorted(group, key=sampled) for group in groups.values()]


def _stacks(members: Iterator[_Training]) -> Iterator[list[_Training]]:
    """Yield at most WIDTH trainings at a time, fewer if their decisions would not fit in memory.

    A training whose own decisions do not fit is yielded by itself.
    """
    stack: list[_Training] = []
    logs: dict[int, tuple[int, int]] = {}  # bytes of each log on the device, and in main memory
    for one in members:
        decisions = one.task.decisions
        size = _padded_bytes(one), _bytes(decisions)
        more = {**logs, id(decisions): size}
        on_device, here = (sum(column) for column in zip(*more.values(), strict=True))
        full = on_device > memory(one.task.device) or here > _LOGS or len(stack) == WIDTH
        if stack and full:
            yield stack
            stack, more = [], {id(decisions): size}
        stack.append(one)
        logs = more
    if stack:
        yield stack


def _padded_bytes(one: _Training) -> int:
    decisions, settings = one.task.decisions, one.identity.config.network
    return padded_bytes(decisions, fit_network(decisions, one.task.spec, settings))


def _bytes(decisions: Decisions) -> int:
    return sum(v.nbytes for v in vars(decisions).values() if isinstance(v, np.ndarray))


def _train(
    opened: ds.Dataset, agent: Agent, stack: Sequence[_Training], progress: Progress
) -> dict[Path, str]:
    """Train a stack and write its folders; return the reasons of those that diverged."""
    tasks, configs = [one.task for one in stack], [one.identity.config for one in stack]
    place, failed = tasks[0].device, {}
    with contextlib.ExitStack() as held:
        for one in stack:
            held.enter_context(writing(one.out))
        with repeatable(place) as setting:
            for one in stack:
                open_folder(one.out, setting)
            if len(stack) == 1 and _padded_bytes(stack[0]) > memory(place):
                learners = [agent.implementation().learner(tasks[0], configs[0])]
            else:
                learners = agent.implementation().stack(tasks, configs)
            begun = [
                untrained(learner, agent.name, c, task.spec, steps=task.steps, seed=task.seed)
                for learner, c, task in zip(learners, configs, tasks, strict=True)
            ]
            callbacks = [Callbacks(measure=measure_of(task)) for task in tasks]
            callbacks[0] = replace(callbacks[0], progress=progress)
            trained = fit_together(learners, begun, callbacks)
        for one, result in zip(stack, trained, strict=True):
            identity = one.identity
            described = about(opened, identity, one.task)
            try:
                decide = decide_once(opened, identity.seed, identity.gate)
                write_training(one.out, identity, result, described, decide)
            except DatasetError as error:
                failed[one.out] = str(error)
    return failed


def _tell(progress: Progress, before: int, width: int, total: int, step: int, _steps: int) -> None:
    """Report a step of a stack as steps of all trainings."""
    progress(before + step * width, total)
