"""The training loop: step sizes, curves, checkpoints, the best checkpoint, resuming after a kill.

    restore -> { step size -> step -> curves -> [point, best] -> [checkpoint] -> [state] } -> done

Curves, checkpoints and states only observe: the weights are the same with and without them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from policies.networks.checkpoint import Metric, Selected
from policies.networks.settings import Weights
from policies.training.curves import Curves
from policies.training.learner import Criterion, Learner
from policies.training.resume import ResumeFile

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
    curves = Curves(steps)
    done, best = 0, None
    if callbacks.resume is not None:
        done, best = callbacks.resume.restore(learner, curves)
    sizes = [(group, group["lr"]) for o in learner.optimisers.values() for group in o.param_groups]
    for step in range(done + 1, steps + 1):
        for group, size in sizes:
            lost = (1.0 - learner.floor) * (step - 1) / steps if learner.decays else 0.0
            group["lr"] = size * (1.0 - lost)
        curves.add(learner.step(step))
        if curves.due(step):
            best = _point(learner, curves, step, callbacks, best)
            callbacks.progress(step, steps)
        if callbacks.every and callbacks.keep and (step % callbacks.every == 0 or step == steps):
            callbacks.keep(step, learner.weights(), tuple(curves.rows))
        if callbacks.resume is not None and callbacks.resume.due():
            callbacks.resume.save(step, learner, curves, best)
    return Fitted(tuple(curves.rows), best)


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
