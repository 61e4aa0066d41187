"""Trainings that end with a delivery, in one folder and whatever interrupts them.

    open the folder -> prepare: read the data, make the learner -> loop -> result
    the result, or a training that another gate judged -> judge -> write checkpoints and delivery

Offline and online trainings differ in how they prepare. The same call after an interruption
continues from the state in the folder (hindcast.policies.training.resume).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

import polars as pl

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.notes import tell
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage.files import remove_folder, table_writer, write_atomically
from hindcast.pipeline.storage.run_files import (
    BEST,
    CURVES,
    DELIVERED,
    DESCRIPTION,
    FOLDS,
    step_folder,
)
from hindcast.policies.networks.checkpoint import (
    Metric,
    Selected,
    Trained,
    load_policy,
    read_description,
    require_finite,
    save,
)
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.training.delivery.folds import FOLDS as COUNT
from hindcast.policies.training.delivery.folds import Without
from hindcast.policies.training.delivery.verdict import (
    LAST,
    SELECTED,
    Decide,
    Gate,
    delivered,
)
from hindcast.policies.training.devices import repeatable
from hindcast.policies.training.fingerprint import Identity
from hindcast.policies.training.job import Reporting, TrainingJob, finished_key, open_folder
from hindcast.policies.training.loop import fit
from hindcast.policies.training.resume import ResumeFile
from hindcast.policies.training.tensorboard import open_tensorboard

# Keys of a description's training that are not about its data.
_OWN: Final = frozenset(
    {"key", "steps", "seed", "config", "packages", "metrics", "best", "delivered"}
)


def train_and_deliver(
    job: TrainingJob, out: Path, gate: Callable[[Without], Decide], reporting: Reporting
) -> Path:
    """Train in the folder `out` and write the checkpoints and what is delivered.

    `gate` makes the function that compares the checkpoints with the best rule, from one that trains
    again without a fold. A finished training is left unchanged. One that was finished with another
    gate is judged again: its weights and curves stay, and its checkpoints get the bytes of a
    training with this gate from the start. If that is interrupted, the same call finishes it.
    """
    identity = job.identity
    held = finished_key(out, reporting.checkpoint_every)
    if held == identity.key:
        return out
    decide = gate(partial(_train_without, job, out, reporting.resume_s))
    others = [replace(identity, gate=other).key for other in get_args(Gate)]
    found = _read(out, job.spec) if held in others else None
    if found is None:
        _fit_and_write(job, out, decide, reporting)
    else:
        tell(f"{out}: the training is finished; another gate judges its checkpoints")
        _write(out, identity, *found, decide)
    remove_folder(out / FOLDS)
    return out


def _train_without(
    job: TrainingJob, out: Path, resume_s: float, number: int, windows: Sequence[int]
) -> dict[str, LearnedPolicy]:
    """Return the policies of a training without some windows, by kind of checkpoint.

    They lie in OUT/folds.
    """
    rest, folder = job.without(windows), out / FOLDS / str(number)
    if finished_key(folder) != rest.identity.key:
        tell(f"fold {number + 1} of {COUNT}: trained without {len(windows)} windows")
        _fit_and_write(rest, folder, lambda _: None, Reporting(resume_s=resume_s))
    kinds = {SELECTED: folder / BEST, LAST: folder}
    return {kind: load_policy(f) for kind, f in kinds.items() if (f / DESCRIPTION).is_file()}


def _fit_and_write(job: TrainingJob, out: Path, decide: Decide, reporting: Reporting) -> None:
    resume = ResumeFile(out, job.identity.key, interval_s=reporting.resume_s)
    trained, about = fit_in(job, out, reporting, resume)
    write_training(out, job.identity, trained, about, decide)
    resume.remove()


def fit_in(
    job: TrainingJob, out: Path, reporting: Reporting, resume: ResumeFile
) -> tuple[Trained, Mapping[str, Any]]:
    """Train in the folder `out`, and return the result with the description of its data.

    A state in `resume` is continued.
    """
    identity = job.identity
    run = f"{identity.agent}-seed{identity.seed}"
    draw, close = open_tensorboard(reporting.tensorboard, run)

    def point(step: int, metrics: Mapping[str, float]) -> None:
        for call in filter(None, (draw, reporting.point)):
            call(step, metrics)

    try:
        with repeatable(identity.device) as setting:
            open_folder(out, setting, continued=resume.waits())
            training = job.prepare(out, reporting.resume_s)
            told = {**training.about, "key": identity.key, "of_steps": identity.steps}
            callbacks = replace(
                training.callbacks,
                point=point,
                every=reporting.checkpoint_every,
                keep=partial(_keep, out, told),
                resume=resume,
            )
            if reporting.progress is not None:
                callbacks = replace(callbacks, progress=reporting.progress)
            return fit(training.learner, training.begun, callbacks), training.about
    finally:
        close()


def _keep(out: Path, told: Mapping[str, Any], reached: Trained) -> None:
    """Write a checkpoint on the way; `told` describes its training."""
    save(reached, step_folder(out, reached.steps), told)


def write_training(
    out: Path, identity: Identity, trained: Trained, about: Mapping[str, Any], decide: Decide
) -> None:
    """Write curves, checkpoints and what is delivered; `out/checkpoint.json` comes last.

    `about` describes the data. Raises DatasetError if a weight is not finite.
    """
    curves = pl.DataFrame(
        [(m.step, m.metric, m.value) for m in trained.metrics],
        schema={"step": pl.Int64, "metric": pl.String, "value": pl.Float64},
        orient="row",
    )
    write_atomically(out / CURVES, table_writer(curves))
    _write(out, identity, trained, about, decide)


def _write(
    out: Path, identity: Identity, trained: Trained, about: Mapping[str, Any], decide: Decide
) -> None:
    """Write the checkpoints of a training and what it delivers.

    An agent may have taken fewer steps than `identity` asks for.
    """
    best, told = trained.best, {**about, "key": identity.key}
    candidates = {LAST: trained}
    if best is not None:
        told["best"] = {"step": best.step, "metric": best.metric, "score": best.score}
        chosen = replace(trained, steps=best.step, weights=best.weights, metrics=(), best=None)
        candidates = {SELECTED: chosen, LAST: trained}
    for candidate in candidates.values():
        require_finite(candidate)
    judged = decide(candidates)  # may take hours: an older result stays whole until it returns
    verdict = {} if judged is None else {"delivered": judged[1].as_table()}
    handed = None if judged is None else delivered(*judged)
    beside = {**told, "of_steps": identity.steps}  # of the checkpoints in folders of their own
    if best is not None:
        save(candidates[SELECTED], out / BEST, beside)
    if handed is not None:
        save(handed, out / DELIVERED, {**beside, **verdict})
    else:
        remove_folder(out / DELIVERED)
        told |= verdict
    save(trained, out, told)


def _read(out: Path, spec: Spec) -> tuple[Trained, dict[str, Any]] | None:
    """Return a finished training and the description of its data; None if its best is damaged."""
    policy, training = load_policy(out), read_description(out)["training"]
    about = {key: value for key, value in training.items() if key not in _OWN}
    best = None
    if "best" in training:
        try:
            best = Selected(**training["best"], weights=load_policy(out / BEST).weights)
        except DatasetError:
            return None
    metrics = tuple(Metric(**point) for point in training["metrics"])
    trained = Trained(
        policy.name, spec, policy.network, policy.weights, training["config"], training["steps"],
        training["seed"], metrics, best,
    )  # fmt: skip
    return trained, about
