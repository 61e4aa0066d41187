"""Gates of trainings on a log: what is delivered, see `hindcast.policies.training.delivery`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.errors import DatasetError, InputError, TraceError
from hindcast.pipeline.recipes.workload_source import RECORDED, load_source
from hindcast.pipeline.scenarios import decisions, load_scenario
from hindcast.policies.networks.checkpoint import Trained
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.training.delivery import agreement, ahead, folds, played, weighed
from hindcast.policies.training.delivery.folds import Without
from hindcast.policies.training.delivery.verdict import Decide, Verdict, judge_each


def gate_for(opened: ds.Dataset, asked: str | None) -> str:
    """Return the gate of a training on this log; `asked` is None for the usual one.

    Raises InputError for a gate that plays episodes of a log of decisions, which has no simulator.
    """
    elsewhere = opened.spec.scenario == decisions.NAME
    if asked is None:
        return "log" if elsewhere else "simulator"
    if elsewhere and asked != "log":
        raise InputError(
            f"--gate {asked} plays the episodes of {opened.folder} again, and its decisions were "
            "made elsewhere: there is no simulator; expected --gate log, which weighs the "
            "decisions of its validation split"
        )
    return asked


def decide_by(opened: ds.Dataset, seed: int, gate: str, without: Without) -> Decide:
    """Return the function that compares the checkpoints of a training with the best logged rule.

    `without` repeats the training for the gate "folds".
    """
    windows = _windows_of(opened, seed) if gate == "folds" else None
    if windows is not None:
        names, known = _rules_of(opened), windows
        return lambda candidates: played.with_columns(
            known, folds.decide(known, names, without, candidates)
        )
    return decide_once(opened, seed, gate)


def decide_once(opened: ds.Dataset, seed: int, gate: str) -> Decide:
    """Return such a function that repeats no training."""
    if opened.spec.scenario == decisions.NAME:
        return weighed.decide_on(opened)
    judge, windows = _gate_of(opened, seed, gate)

    def decide(candidates: Mapping[str, Trained]) -> tuple[Trained, Verdict] | None:
        judged = judge_each(list(candidates.values()), judge)
        if windows is not None and gate == "lookahead":
            judged = ahead.beside(windows, judged)
        return judged if windows is None else played.with_columns(windows, judged)

    return decide


def gate_of(opened: ds.Dataset, seed: int, gate: str) -> Callable[[LearnedPolicy], Verdict | None]:
    """Return the function that compares an agent of this log with the best of the log's rules.

    Any gate becomes "log" if the workload cannot be played.
    """
    return _gate_of(opened, seed, gate)[0]


def _gate_of(
    opened: ds.Dataset, seed: int, gate: str
) -> tuple[Callable[[LearnedPolicy], Verdict | None], played.Windows | None]:
    """Return the function of `gate_of`, and the windows that it plays, if it plays any.

    Raises InputError for the gate "lookahead" if nothing can look ahead on the windows.
    """
    windows = None if gate == "log" else _windows_of(opened, seed)
    if gate == "lookahead":
        if windows is None:
            raise InputError(
                f"--gate lookahead plays the episodes of {opened.folder} again, and its workload "
                "cannot be played here; expected --gate log"
            )
        ahead.check(windows)
    if windows is None:
        return partial(agreement.judge, opened, seed=seed), None
    return played.judge_of(windows, _rules_of(opened)), windows


def _rules_of(opened: ds.Dataset) -> list[str]:
    """Return the rules of the log, and the references of its scenario."""
    references = load_scenario(opened.recipe.scenario).references
    return sorted({*agreement.logged_rules(opened).values(), *references})


def _windows_of(opened: ds.Dataset, seed: int) -> played.Windows | None:
    """Return the windows of the log's recipe; None if the workload cannot be played.

    Where train windows were moved to other splits, they are those of the dataset itself.
    """
    if opened.recipe.trace.format == RECORDED:
        return None
    try:
        windows = played.windows_of(opened.recipe, load_source(opened.recipe), seed)
    except (TraceError, DatasetError):
        return None
    if (lineage := opened.manifest.lineage) is None or not lineage.divided:
        return windows
    split, window = opened.episodes()["split"], opened.episodes()["window"]
    train, validation = (
        window.filter(split == name).unique().sort().to_list() for name in ("train", "validation")
    )
    return replace(windows, train=train, validation=validation)
