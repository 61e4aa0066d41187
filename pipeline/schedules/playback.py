"""Windows played decision by decision: the choices of a policy, and the memory that they lead to.

A policy is played as `hindcast evaluate` plays it, with the same draws, and its choices are kept.
They are then made again in a fresh episode, in which everything can be looked at. A rule over the
memory chooses there itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.dataset.building.recorder import L_CHOICE, Recording, make_log
from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.errors import HindcastError, InputError
from hindcast.pipeline.evaluation.evaluate import Job
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import EpisodeArrays, begin_episode
from hindcast.pipeline.simulation.memory_rules import MemoryRule
from hindcast.pipeline.simulation.players import episode_runner
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import Planner
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.simulation.spec import Spec

Ints = NDArray[np.int64]
# choose(number of the decision, episode as it was observed) -> row
Choose = Callable[[int, EpisodeArrays], int]
_ROWS, _CANDIDATES = 4096, 200_000  # of the log in which a rule's choices are recorded


@runtime_checkable
class ChoosingPlanner(Planner, Protocol):
    """A planner that tells its choices."""

    def choices(self, scenario: Scenario, spec: Spec, instance: Instance) -> Ints:
        """Play one episode on an instance; return the chosen rows, (T,)."""


@dataclass(frozen=True)
class Played:
    """A window that a policy has played.

    Attributes:
        job: The problem, with the columns that the policy reads.
        behaviour: The policy.
        window: Number of the window.
        seed: Number of the play; 0 for a policy that does not draw.
        instance: The memory before the first decision.
        choices: The chosen rows, (T,).
        ints, floats: The memory at the end, see hindcast.pipeline.simulation.kernel.
        notes: What `look` of `play_window` returned for each decision.
    """

    job: Job
    behaviour: Behaviour
    window: int
    seed: int
    instance: Instance
    choices: Ints
    ints: Ints
    floats: NDArray[np.float64]
    notes: tuple[Any, ...] = ()


def play_window(
    job: Job,
    behaviour: Behaviour,
    window: int,
    seed: int = 0,
    look: Callable[[EpisodeArrays, int], Any] | None = None,
) -> Played:
    """Play a window as an evaluation does.

    Args:
        job: The problem.
        behaviour: The policy.
        window: Number of the window.
        seed: Number of the play, for a policy that draws.
        look: Called as look(episode, choice) before every choice is made, with the episode as it
            was observed; what it returns is kept.

    Raises:
        InputError: The policy does not tell its choices.
        HindcastError: The policy made an infeasible choice.
    """
    job = job.seen_by(behaviour)
    instance = job.instance(window)
    choose = chooser_of(job, instance, behaviour, window, seed)
    episode = begin_episode(job.spec, instance)
    choices, notes = list[int](), list[Any]()
    for choice in decisions(job, episode, choose):
        choices.append(choice)
        if look is not None:
            notes.append(look(episode, choice))
    return Played(
        job, behaviour, window, seed, instance, np.array(choices, np.int64), episode.ints,
        episode.floats, tuple(notes),
    )  # fmt: skip


def decisions(job: Job, episode: EpisodeArrays, choose: Choose) -> Iterator[int]:
    """Play an episode to its end; yield every choice when it is observed and before it is made.

    Raises HindcastError for a choice that is not feasible.
    """
    at, status = 0, k.RUNNING
    while status == k.RUNNING:
        job.scenario.observe(*episode)
        choice = choose(at, episode)
        yield choice
        status = make_choice(job, episode, choice)
        at += 1


def make_choice(job: Job, episode: EpisodeArrays, choice: int) -> int:
    """Make a choice in an episode; return its status, or raise HindcastError if it must not be."""
    outputs = np.zeros(k.TERMS + len(job.spec.reward_terms))
    status = int(job.scenario.step(episode.ints, episode.floats, choice, outputs))
    if status == k.INFEASIBLE:
        raise HindcastError(
            f"choice {choice} at {episode.floats[k.TIME]:g} of the episode is not feasible"
        )
    return status


def chooser_of(
    job: Job, instance: Instance, behaviour: Behaviour, window: int, seed: int = 0
) -> Choose:
    """Return the function that makes the choices of a policy on an instance, see `play_window`."""
    policy: object = behaviour.policy
    problem = job.scenario, job.spec, instance
    if isinstance(policy, MemoryRule):  # it writes into the memory, so its choices are not enough
        if policy.check is not None:
            policy.check(instance)
        select = policy.choose
        return lambda _at, episode: int(select(episode.ints, episode.floats))
    rng = generator(job.recipe.seed, f"evaluate {behaviour.name}", window, seed)
    if isinstance(policy, Heuristic):
        choices = _recorded(*problem, behaviour, rng)
    elif isinstance(policy, ChoosingPlanner):
        choices = policy.choices(*problem)
    elif isinstance(policy, Planner):
        raise InputError(
            f"{behaviour.name}: this policy plays whole episodes and does not tell its choices, so "
            "it has no schedule; expected a rule or a checkpoint"
        )
    else:
        choices = episode_runner(*problem, behaviour).play(rng).choices
    return lambda at, _episode: int(choices[at])


def _recorded(
    scenario: Scenario, spec: Spec, instance: Instance, behaviour: Behaviour,
    rng: np.random.Generator,
) -> Ints:  # fmt: skip
    """Return the choices of a compiled rule, from a recording of which nothing else is kept."""
    recording = Recording(scenario, spec, instance, behaviour, rng, 0)
    log = make_log(spec, _ROWS, max(_CANDIDATES, 3 * instance.capacity))
    choices, over = list[Ints](), False
    while not over:
        over = recording.go_on(log)
        choices.append(log.labels[L_CHOICE, : log.rows].copy())
        log.clear()
    whole = np.concatenate(choices)
    made: Ints = whole[whole != NO_CHOICE]
    return made
