"""Checkpoints of a finished training, and the choice of the one that is compared with a rule."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pipeline.storage.run_files import BEST, CURVES, DESCRIPTION
from policies.delivery.verdict import Verdict, deliver
from policies.networks.checkpoint import Trained, load_policy, save
from policies.networks.policy import LearnedPolicy
from policies.training.run_folder import write_curves

SELECTED: Final = "selected"
LAST: Final = "last"
# Function of the checkpoints of a training, by kind, that returns the one which is compared with
# the rule, and its verdict; None if nothing can be compared.
Decide = Callable[[Mapping[str, Trained]], tuple[Trained, Verdict] | None]


def write_training(out: Path, trained_on: dict[str, Any], trained: Trained, decide: Decide) -> None:
    """Write curves, checkpoints and what is delivered; `out/checkpoint.json` comes last.

    `trained_on` describes the training, with its length `of_steps`. Raises DatasetError if a weight
    is not finite.
    """
    write_curves(trained.metrics, out / CURVES)
    best, steps = trained.best, trained_on["of_steps"]
    candidates = {LAST: trained}
    told = {key: value for key, value in trained_on.items() if key != "of_steps"}
    if best is not None:
        told["best"] = {"step": best.step, "metric": best.metric, "score": best.score}
        chosen = replace(trained, steps=best.step, weights=best.weights, metrics=(), best=None)
        save(chosen, out / BEST, {**told, "of_steps": steps})
        candidates = {SELECTED: chosen, LAST: trained}
    judged = decide(candidates)
    if judged is not None:
        deliver(*judged, out, told, steps)
    save(trained, out, told)


def policies_of(out: Path) -> dict[str, LearnedPolicy]:
    """Return the policies of a finished training, by kind of checkpoint."""
    kinds = {SELECTED: out / BEST, LAST: out}
    return {kind: load_policy(f) for kind, f in kinds.items() if (f / DESCRIPTION).is_file()}
