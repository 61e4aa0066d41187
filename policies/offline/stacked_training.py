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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.storage.files import make_folder, remove_partials
from hindcast.pipeline.storage.locks import writing
from hindcast.pipeline.storage.provenance import begin_training, provenance
from hindcast.policies.delivery.checkpoints import write_training
from hindcast.policies.delivery.verdict import Gate
from hindcast.policies.networks.candidate_scorer import fit_network
from hindcast.policies.offline import agent as find_agent
from hindcast.policies.offline import read_config
from hindcast.policies.offline.fit import check_decisions, measure_of, trained_by, untrained
from hindcast.policies.offline.gates import decide_once
from hindcast.policies.offline.training import both_splits, data_of
from hindcast.policies.training.devices import find_device, repeatable, torch_setting
from hindcast.policies.training.fingerprint import finished, training_key
from hindcast.policies.training.learner import Task
from hindcast.policies.training.loop import Callbacks, Progress, fit_together
from hindcast.policies.training.resident import memory, padded_bytes
from hindcast.policies.training.run_folder import clear

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
class _Prepared:
    member: Member
    config: Any
    key: str
    task: Task


def can_stack(agent: str, settings: Mapping[str, Any]) -> bool:
    """Return True if trainings of the agent with these settings can be stacked."""
    alike = getattr(find_agent(agent).implementation(), "alike", None)
    return alike is not None and alike(read_config(agent, settings)) is not None


def train_stacked(
    dataset: Path,
    agent: str,
    members: Sequence[Member],
    *,
    steps: int,
    device: str = "auto",
    gate: Gate = "simulator",
    progress: Progress | None = None,
) -> dict[Path, str]:
    """Train an agent once per member, several in one program, and write their folders.

    The folders are those of `hindcast.policies.offline.training.train`, without a state to resume
    from. Weights equal those of single trainings to rounding, so a single training in the same
    folder does not count as finished. Finished members are left unchanged. `progress` is called
    with the steps of all members together.

    Returns:
        The reasons of trainings that failed on their data or diverged, by their folders.

    Raises:
        UnknownName, RecipeError, DatasetError, StorageError, InputError: As `train` does.
    """
    wanted, place = find_agent(agent), find_device(device)
    configs = [read_config(agent, member.settings) for member in members]
    if gate == "folds":
        raise InputError("--gate folds repeats a training, which a stacked one cannot")
    opened = ds.open(dataset)
    waiting: list[tuple[Member, Any, str]] = []
    for member, config in zip(members, configs, strict=True):
        key = training_key(
            agent, wanted.module, config, steps, member.seed, data_of(opened), place.type,
            gate=gate, stacked=True,
        )  # fmt: skip
        if not finished(member.out, key, None):
            waiting.append((member, config, key))
    failed: dict[Path, str] = {}
    done, total = 0, len(waiting) * steps

    def prepared(group: list[tuple[Member, Any, str]]) -> Iterator[_Prepared]:
        for member, config, key in group:
            try:
                decisions, validation = both_splits(opened, wanted, config, member.seed)
                check_decisions(wanted, decisions, opened.spec, config, steps)
            except DatasetError as error:
                failed[member.out] = str(error)
                continue
            task = Task(decisions, opened.spec, steps, member.seed, validation, place)
            yield _Prepared(member, config, key, task)

    for group in _groups(waiting, wanted.implementation().alike):
        for stack in _stacks(prepared(group)):
            told = _quiet if progress is None else partial(_tell, progress, done, len(stack), total)
            failed |= _train(opened, agent, stack, steps, gate, told)
            done += steps * len(stack)
    return failed


def _groups(
    waiting: Sequence[tuple[Member, Any, str]], alike: Callable[[Any], Any]
) -> list[list[tuple[Member, Any, str]]]:
    """Return the trainings that share their shapes, those with the same decisions side by side.

    Decisions depend on the seed and on how returns are discounted
    (hindcast.policies.offline.sample_cache). They are then sampled once and moved once.
    """
    groups: dict[Any, list[tuple[Member, Any, str]]] = {}
    for one in waiting:
        groups.setdefault(alike(one[1]), []).append(one)

    def sampled(one: tuple[Member, Any, str]) -> tuple[int, str]:
        discount = [getattr(one[1], name, None) for name in ("discount", "discount_per")]
        return one[0].seed, repr(discount)

    return [sorted(group, key=sampled) for group in groups.values()]


def _stacks(members: Iterator[_Prepared]) -> Iterator[list[_Prepared]]:
    """Yield at most WIDTH trainings at a time, fewer if their decisions would not fit in memory.

    A training whose own decisions do not fit is yielded by itself.
    """
    stack: list[_Prepared] = []
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


def _padded_bytes(one: _Prepared) -> int:
    decisions = one.task.decisions
    return padded_bytes(decisions, fit_network(decisions, one.task.spec, one.config.network))


def _bytes(decisions: Decisions) -> int:
    return sum(v.nbytes for v in vars(decisions).values() if isinstance(v, np.ndarray))


def _train(
    opened: ds.Dataset,
    agent: str,
    stack: Sequence[_Prepared],
    steps: int,
    gate: Gate,
    progress: Progress,
) -> dict[Path, str]:
    """Train a stack and write its folders; return the reasons of those that diverged."""
    wanted, tasks = find_agent(agent), [one.task for one in stack]
    place = tasks[0].device
    failed = {}
    with contextlib.ExitStack() as held:
        for one in stack:
            held.enter_context(writing(one.member.out))
            make_folder(one.member.out)
            remove_partials(one.member.out)
            clear(one.member.out)
            begin_training(one.member.out, provenance(torch=torch_setting(place)))
        with repeatable(place):
            configs = [one.config for one in stack]
            if len(stack) == 1 and _padded_bytes(stack[0]) > memory(place):
                learners = [wanted.implementation().learner(tasks[0], configs[0])]
            else:
                learners = wanted.implementation().stack(tasks, configs)
            made = [
                untrained(wanted, task, config, learner, steps)
                for task, config, learner in zip(tasks, configs, learners, strict=True)
            ]
            callbacks = [
                Callbacks(measure_of(one, task), progress if i == 0 else _quiet)
                for i, (one, task) in enumerate(zip(made, tasks, strict=True))
            ]
            fitted = fit_together(learners, steps, callbacks)
            trained = [trained_by(*parts) for parts in zip(made, learners, fitted, strict=True)]
        for one, result in zip(stack, trained, strict=True):
            data = {**data_of(opened), "decisions": len(one.task.decisions)}
            try:
                trained_on = {"dataset": data, "key": one.key, "of_steps": steps}
                write_training(
                    one.member.out, trained_on, result, decide_once(opened, one.member.seed, gate)
                )
            except DatasetError as error:
                failed[one.member.out] = str(error)
    return failed


def _tell(progress: Progress, before: int, width: int, total: int, step: int, _steps: int) -> None:
    """Report a step of a stack as steps of all trainings."""
    progress(before + step * width, total)


def _quiet(_done: int, _steps: int) -> None:
    """Ignore progress; the first training of a stack reports it for all."""
