"""Checkpoints of a finished training, and the choice of the one that is compared with a rule."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.notes import tell
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage.files import remove_folder
from hindcast.pipeline.storage.run_files import BEST, CURVES, DELIVERED, DESCRIPTION
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
from hindcast.policies.training.delivery.verdict import LOG, Verdict, deliver
from hindcast.policies.training.fingerprint import finished
from hindcast.policies.training.run_folder import write_curves

SELECTED: Final = "selected"
LAST: Final = "last"
# Function of the checkpoints of a training, by kind, that returns the one which is compared with
# the rule, and its verdict; None if nothing can be compared.
Decide = Callable[[Mapping[str, Trained]], tuple[Trained, Verdict] | None]


# Keys of a description's training that `save` or `_write` adds.
_OWN: Final = frozenset({"steps", "seed", "config", "packages", "metrics", "best", "delivered"})


def write_training(out: Path, trained_on: dict[str, Any], trained: Trained, decide: Decide) -> None:
    """Write curves, checkpoints and what is delivered; `out/checkpoint.json` comes last.

    `trained_on` describes the training, with its length `of_steps`. Raises DatasetError if a weight
    is not finite.
    """
    write_curves(trained.metrics, out / CURVES)
    _write(out, trained_on, trained, decide)


def finished_otherwise(out: Path, keys: Iterable[str], checkpoint_every: int | None) -> bool:
    """Return True if the folder holds a whole training, best checkpoint too, with one of the keys.

    They are the keys of the same training with any gate.
    """
    if not any(finished(out, key, checkpoint_every) for key in keys):
        return False
    try:
        if "best" in read_description(out)["training"]:
            load_policy(out / BEST)
    except DatasetError:
        return False
    return True


def decide_again(out: Path, spec: Spec, key: str, steps: int, decide: Decide) -> None:
    """Decide by another gate what a finished training delivers; its weights and curves stay.

    `key` is the training's key with that gate, `steps` the number of steps that was asked for; an
    agent may have taken fewer. The checkpoints have the bytes of a training with this gate from the
    start. If the call is interrupted, the same call finishes it.
    """
    trained, trained_on = _read(out, spec)
    tell(f"{out}: the training is finished; another gate judges its checkpoints")
    _write(out, {**trained_on, "key": key, "of_steps": steps}, trained, decide)


def _write(out: Path, trained_on: dict[str, Any], trained: Trained, decide: Decide) -> None:
    """Write the checkpoints of a training and what it delivers."""
    best, steps = trained.best, trained_on["of_steps"]
    candidates = {LAST: trained}
    told = {key: value for key, value in trained_on.items() if key != "of_steps"}
    if best is not None:
        told["best"] = {"step": best.step, "metric": best.metric, "score": best.score}
        chosen = replace(trained, steps=best.step, weights=best.weights, metrics=(), best=None)
        candidates = {SELECTED: chosen, LAST: trained}
    for candidate in candidates.values():
        require_finite(candidate)
    judged = decide(candidates)  # may take hours: an older result stays whole until it returns
    if best is not None:
        save(candidates[SELECTED], out / BEST, {**told, "of_steps": steps})
    if judged is None:
        remove_folder(out / DELIVERED)
    elif judged[1].delivered == LOG:  # no checkpoint plays what the log did
        remove_folder(out / DELIVERED)
        told["delivered"] = judged[1].as_table()
    else:
        deliver(*judged, out, told, steps)
    save(trained, out, told)


def _read(out: Path, spec: Spec) -> tuple[Trained, dict[str, Any]]:
    """Return a finished training and its description, as `_write` takes it but for `of_steps`."""
    policy, training = load_policy(out), read_description(out)["training"]
    told = {key: value for key, value in training.items() if key not in _OWN}
    best = None
    if "best" in training:
        best = Selected(**training["best"], weights=load_policy(out / BEST).weights)
    metrics = tuple(Metric(**point) for point in training["metrics"])
    trained = Trained(
        policy.name, spec, policy.network, policy.weights, training["config"], training["steps"],
        training["seed"], metrics, best,
    )  # fmt: skip
    return trained, told


def policies_of(out: Path) -> dict[str, LearnedPolicy]:
    """Return the policies of a finished training, by kind of checkpoint."""
    kinds = {SELECTED: out / BEST, LAST: out}
    return {kind: load_policy(f) for kind, f in kinds.items() if (f / DESCRIPTION).is_file()}
