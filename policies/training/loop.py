"""The training loop: step sizes, curves, checkpoints, the best checkpoint, resuming after a kill.

    restore -> { step size -> step -> curves -> [point, best] -> [checkpoint] -> [state] } -> done

Curves, checkpoints and states only observe: the weights are the same with and without them.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.networks.checkpoint import Selected, Trained
from hindcast.policies.training.curves import Curves
from hindcast.policies.training.learner import Learner
from hindcast.policies.training.resume import ResumeFile

Progress = Callable[[int, int], None]
# The score of a checkpoint from its metrics: higher is better, None for no score.
Select = Callable[[Mapping[str, float]], float | None]
Point = Callable[[int, Mapping[str, float]], None]  # receives a point of the curves


def _nothing(_trained: Trained) -> Mapping[str, float]:
    return {}


def quiet(_done: int, _steps: int) -> None:
    """Ignore the progress of a training."""


@dataclass(frozen=True)
class Callbacks:
    """Callbacks of a training run; none of them affects the weights.

    Attributes:
        measure: Returns metrics of a checkpoint.
        progress: Called with (done, steps) at every point of the curves.
        point: Called with the step and metrics of every point of the curves.
        every: Steps between two checkpoints, or None for no checkpoints. With a number, the last
            step has a checkpoint too.
        keep: Called with every checkpoint.
        select: Scores a checkpoint to choose the best one; None means the learner's criterion.
        selected_by: Name of `select`.
        resume: File of the state, or None to keep no state.
    """

    measure: Callable[[Trained], Mapping[str, float]] = _nothing
    progress: Progress = quiet
    point: Point | None = None
    every: int | None = None
    keep: Callable[[Trained], None] | None = None
    select: Select | None = None
    selected_by: str = ""
    resume: ResumeFile | None = None


def untrained(
    learner: Learner, agent: str, config: Any, spec: Spec, *, steps: int, seed: int
) -> Trained:
    """Return the result of a training without its weights and curves.

    Its number of steps is at most the largest one that the learner can use.
    """
    taken = min(steps, learner.most_steps or steps)
    return Trained(agent, spec, learner.network, {}, dataclasses.asdict(config), taken, seed)


def fit(learner: Learner, begun: Trained, callbacks: Callbacks) -> Trained:
    """Return `begun` after its number of steps, or after those that an interrupted call has left.

    `begun` is the result of `untrained`.
    """
    run = _Run(learner, begun, callbacks)
    for step in range(run.done + 1, begun.steps + 1):
        run.take(step)
    return run.trained()


def fit_together(
    learners: Sequence[Learner], begun: Sequence[Trained], callbacks: Sequence[Callbacks]
) -> list[Trained]:
    """Train learners that take their steps together; their callbacks have no file of a state."""
    runs = [_Run(*parts) for parts in zip(learners, begun, callbacks, strict=True)]
    for step in range(1, begun[0].steps + 1):
        for run in runs:
            run.take(step)
    return [run.trained() for run in runs]


class _Run:
    """One learner between two steps: its curves and its best checkpoint.

    Attributes:
        done: Number of steps that an interrupted call has taken.
    """

    def __init__(self, learner: Learner, begun: Trained, callbacks: Callbacks) -> None:
        self._learner, self._begun, self._callbacks = learner, begun, callbacks
        self._curves = Curves(begun.steps)
        self._best: Selected | None = None
        self.done = 0
        if callbacks.resume is not None:
            self.done, self._best = callbacks.resume.restore(learner, self._curves)
        optimisers = learner.optimisers.values()
        self._sizes = [(group, group["lr"]) for o in optimisers for group in o.param_groups]

    def take(self, step: int) -> None:
        """Take one step, and draw, keep and save what is due after it."""
        learner, callbacks, curves = self._learner, self._callbacks, self._curves
        steps = self._begun.steps
        for group, size in self._sizes:
            lost = (1.0 - learner.floor) * (step - 1) / steps if learner.decays else 0.0
            group["lr"] = size * (1.0 - lost)
        curves.add(learner.step(step))
        if curves.due(step):
            self._point(step)
            callbacks.progress(step, steps)
        if callbacks.every and callbacks.keep and (step % callbacks.every == 0 or step == steps):
            reached = replace(self._begun, steps=step, weights=learner.weights())
            callbacks.keep(replace(reached, metrics=tuple(curves.rows)))
        if callbacks.resume is not None and callbacks.resume.due():
            callbacks.resume.write(step, learner, curves, self._best)

    def trained(self) -> Trained:
        """Return the result with its weights, its curves and the best checkpoint."""
        weights, metrics = self._learner.weights(), tuple(self._curves.rows)
        return replace(self._begun, weights=weights, metrics=metrics, best=self._best)

    @torch.no_grad()
    def _point(self, step: int) -> None:
        """Draw a point, and keep the checkpoint if it is the best so far."""
        learner, callbacks, best = self._learner, self._callbacks, self._best
        weights = learner.weights()
        measured = callbacks.measure(replace(self._begun, weights=weights))
        drawn = self._curves.point(step, {**measured, **learner.validate()})
        metrics = {m.metric: m.value for m in drawn}
        if callbacks.point is not None:
            callbacks.point(step, metrics)
        if callbacks.select is None:
            name, score = learner.criterion.metric, learner.criterion.score(metrics)
        else:
            name, score = callbacks.selected_by, callbacks.select(metrics)
        # A score that is not finite is ignored; every comparison with a NaN would be false.
        if score is None or not abs(score) < float("inf"):
            return
        if best is None or score > best.score:
            self._best = Selected(step, name, score, weights)
