"""The training loop: step sizes, curves, checkpoints, the best checkpoint, resuming after a kill.

    restore -> { step size -> step -> curves -> [point, best] -> [checkpoint] -> [state] } -> done

Curves, checkpoints and states only observe: the weights are the same with and without them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from hindcast.policies.networks.checkpoint import Metric, Selected
from hindcast.policies.networks.settings import Weights
from hindcast.policies.training.curves import Curves
from hindcast.policies.training.learner import Criterion, Learner
from hindcast.policies.training.resume import ResumeFile

Progress = Callable[[int, int], None]
# The score of a checkpoint from its weights and metrics: higher is better, None for no score.
Select = Callable[[Weights, Mapping[str, float]], float | None]
Point = Callable[[int, Mapping[str, float]], None]  # receives a point of the curves
Keep = Callable[[int, Weights, tuple[Metric, ...]], None]


@dataclass(frozen=True)
class Callbacks:
    """Callbacks of a training run; none of them affects the weights.

    Attributes:
        measure: Returns metrics of the acting scorer with the given weights.
        progress: Called with (done, steps) at every point of the curves.
        point: Called with the step and metrics of every point of the curves.
        every: Steps between two checkpoints, or None for no checkpoints. With a number, the last
            step has a checkpoint too.
        keep: Called with every checkpoint.
        select: Scores a checkpoint to choose the best one; None means the learner's criterion.
        selected_by: Name of `select`.
        resume: File of the state, or None to keep no state.
    """

    measure: Callable[[Weights], Mapping[str, float]]
    progress: Progress
    point: Point | None = None
    every: int | None = None
    keep: Keep | None = None
    select: Select | None = None
    selected_by: str = ""
    resume: ResumeFile | None = None


@dataclass(frozen=True)
class Fitted:
    """The curves of a finished run, and its best checkpoint if there is a score."""

    metrics: tuple[Metric, ...]
    best: Selected | None


def fit(learner: Learner, steps: int, callbacks: Callbacks) -> Fitted:
    """Train the learner for `steps` steps, or for those that an interrupted call has left."""
    run = _Run(learner, steps, callbacks)
    for step in range(run.done + 1, steps + 1):
        run.take(step)
    return run.fitted()


def fit_together(
    learners: Sequence[Learner], steps: int, callbacks: Sequence[Callbacks]
) -> list[Fitted]:
    """Train learners that take their steps together; their callbacks have no file of a state."""
    runs = [_Run(one, steps, each) for one, each in zip(learners, callbacks, strict=True)]
    for step in range(1, steps + 1):
        for run in runs:
            run.take(step)
    return [run.fitted() for run in runs]


class _Run:
    """One learner between two steps: its curves and its best checkpoint.

    Attributes:
        done: Number of steps that an interrupted call has taken.
    """

    def __init__(self, learner: Learner, steps: int, callbacks: Callbacks) -> None:
        self._learner, self._steps, self._callbacks = learner, steps, callbacks
        self._curves = Curves(steps)
        self._best: Selected | None = None
        self.done = 0
        if callbacks.resume is not None:
            self.done, self._best = callbacks.resume.restore(learner, self._curves)
        optimisers = learner.optimisers.values()
        self._sizes = [(group, group["lr"]) for o in optimisers for group in o.param_groups]

    def take(self, step: int) -> None:
        """Take one step, and draw, keep and save what is due after it."""
        learner, steps, callbacks, curves = (
            self._learner, self._steps, self._callbacks, self._curves,
        )  # fmt: skip
        for group, size in self._sizes:
            lost = (1.0 - learner.floor) * (step - 1) / steps if learner.decays else 0.0
            group["lr"] = size * (1.0 - lost)
        curves.add(learner.step(step))
        if curves.due(step):
            self._best = _point(learner, curves, step, callbacks, self._best)
            callbacks.progress(step, steps)
        if callbacks.every and callbacks.keep and (step % callbacks.every == 0 or step == steps):
            callbacks.keep(step, learner.weights(), tuple(curves.rows))
        if callbacks.resume is not None and callbacks.resume.due():
            callbacks.resume.save(step, learner, curves, self._best)

    def fitted(self) -> Fitted:
        """Return the curves and the best checkpoint."""
        return Fitted(tuple(self._curves.rows), self._best)


@torch.no_grad()
def _point(
    learner: Learner, curves: Curves, step: int, callbacks: Callbacks, best: Selected | None
) -> Selected | None:
    """Draw a point, and return the better of `best` and the current checkpoint."""
    weights = learner.weights()
    drawn = curves.point(step, {**callbacks.measure(weights), **learner.validate()})
    metrics = {m.metric: m.value for m in drawn}
    if callbacks.point is not None:
        callbacks.point(step, metrics)
    if callbacks.select is None:
        name, score = learner.criterion.metric, _score(learner.criterion, metrics)
    else:
        name, score = callbacks.selected_by, callbacks.select(weights, metrics)
    # A score that is not finite is ignored; every comparison with a NaN would be false.
    if score is None or not abs(score) < float("inf"):
        return best
    return Selected(step, name, score, weights) if best is None or score > best.score else best


def _score(criterion: Criterion, metrics: Mapping[str, float]) -> float | None:
    value = metrics.get(criterion.metric)
    if value is None or criterion.better == "higher":
        return value
    return -value
