"""The plan of `hindcast whatif`: how a log is split, and the recipes of its parts.

    OUT/train.toml     overlapping windows for training and validation
    OUT/recipe.toml    windows of the test part
    OUT/before.toml    the 30 % of the log before the test part, as one run
    OUT/run.toml       the test part, the last 30 % of the log, as one run

    jobs of the log   0 ........ 40 % ......... 60 % .... 70 % ............ 100 %
                      train windows ............ | validat. | test windows, one run
                                 | one run, by which rules are chosen |

The best rule is chosen on the run before the test part, so the choice does not favour it in the
test part.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hindcast.pipeline.recipes.splits import evenly_spaced
from hindcast.pipeline.recipes.toml import table_toml
from hindcast.pipeline.whatif.record import Record

RECIPE: Final = "recipe.toml"
TRAIN: Final = "train.toml"
RUN: Final = "run.toml"
BEFORE: Final = "before.toml"
FEWEST_JOBS: Final = 400
RECORDED: Final = "recorded"
STRICT: Final = "fcfs"  # needs config.allow_wait
RULES: Final = (
    "fcfs_easy", "sjf_easy", "saf_easy", "lxf_easy", "wfp3_easy", "unicef_easy", "aged_area_easy",
    "aged_expected_easy", "wsept_easy", "steady_area_easy", "conservative",
)  # fmt: skip
CLAIRVOYANT: Final = ("saf_clairvoyant", "lxf_clairvoyant")

_JOBS, _FOLLOW = 256, 1024  # of a window of a long log
_WINDOWS: Final = 24  # of a short log, counted with the follow-on jobs of the last one
_FEWEST_IN_WINDOW: Final = 16
_MOST_TEST_WINDOWS: Final = 128
# Training windows are long: an agent that learns on short ones starves jobs in a long run.
_TRAIN_JOBS: Final = 2048
_TRAIN_SHARE: Final = 0.07  # of a short log
_TRAIN_WINDOWS, _VALIDATION_WINDOWS = 120, 8  # a gate needs six
_SPLIT: Final = (0.4, 0.6, 0.7)  # beginnings of the run before, of validation, of the test part
_GUARD: Final = (
    "lxf_easy",
    "steady_area_easy",
    "aged_expected_easy",
)  # two that starve no job, and a strong one


@dataclass(frozen=True)
class Plan:
    """Windows and runs of a log.

    Attributes:
        log_jobs: Jobs of the log that can be used.
        jobs: Counted jobs of a window.
        follow: Jobs after a window that arrive as well.
        train_jobs: Counted jobs of a train window; a quarter more follow.
        train: First jobs of the train windows.
        validation: First jobs of the validation windows.
        test: First jobs of the test windows.
        before: First job of the run before the test part.
        validation_first: First job after the train windows.
        test_first: First job of the test part.
        test_last: First job after the test part.
        warm: Whether windows and runs begin as the log did.
        held: Whether jobs were eligible later than submitted.
    """

    log_jobs: int
    jobs: int
    follow: int
    train_jobs: int
    train: tuple[int, ...]
    validation: tuple[int, ...]
    test: tuple[int, ...]
    before: int
    validation_first: int
    test_first: int
    test_last: int
    warm: bool
    held: bool


def plan(record: Record, part: tuple[int, int]) -> Plan:
    """Return the plan of a record.

    Args:
        record: The record.
        part: The first job of the run, and the first one after it.
    """
    size, (test, stop) = len(record.submit), part
    usual = (test, stop) == (int(size * _SPLIT[2]), size)
    before, validation = (int(size * share) for share in _SPLIT[:2])
    if not usual:  # as long as the run, before it
        before = max(0, 2 * test - stop)
        validation = before + (test - before) * 2 // 3
    jobs = min(_JOBS, max(_FEWEST_IN_WINDOW, (stop - test) // _WINDOWS))
    follow = min(_FOLLOW, 4 * jobs)
    train_jobs = min(_TRAIN_JOBS, int(_TRAIN_SHARE * size))
    last = min(stop - jobs, size - jobs - follow)
    return Plan(
        log_jobs=size,
        jobs=jobs,
        follow=follow,
        train_jobs=train_jobs,
        train=_spread(0, validation - train_jobs * 5 // 4, _TRAIN_WINDOWS),
        validation=_spread(validation, test - train_jobs * 5 // 4, _VALIDATION_WINDOWS),
        test=tuple(evenly_spaced(range(test, last + 1, jobs), _MOST_TEST_WINDOWS)),
        before=before,
        validation_first=validation,
        test_first=test,
        test_last=stop,
        warm=bool(record.known.any()),
        held=bool((record.arrive > record.submit).any()),
    )


def _spread(first: int, last: int, count: int) -> tuple[int, ...]:
    """Return at most `count` different numbers from `first` to `last`, evenly spread."""
    return tuple(map(int, np.unique(np.linspace(first, max(first, last), count).astype(int))))


def recipes(
    plan: Plan, name: str, trace: Mapping[str, Any], about: str,
    machine: Mapping[str, Any] | None = None,
) -> dict[str, str]:  # fmt: skip
    """Return the texts of the recipes by file name.

    Args:
        plan: The plan of the log.
        name: Beginning of the ids of the recipes.
        trace: The section [trace]: format, path, settings.
        about: The log in words, for the descriptions.
        machine: What the machine has beside processors, as settings of `queue`.
    """
    train, validation = len(plan.train), len(plan.train) + len(plan.validation)
    policies = [*((RECORDED,) if plan.warm else ()), *RULES, *CLAIRVOYANT]
    shared = {
        "warm": plan.warm, **({"arrive": "eligible"} if plan.held else {}), **(machine or {})
    }  # fmt: skip
    evaluated = {
        "policies": policies,
        "references": [*((RECORDED,) if plan.warm else ()), RULES[0]],
        "seeds": 1,
    }
    windows = {
        "config": {**shared, "jobs": plan.jobs, "follow": plan.follow, "starts": plan.test},
        "split": {"test": f"0..{len(plan.test) - 1}"},
    }
    training = {
        "config": {
            **shared, "jobs": plan.train_jobs, "follow": plan.train_jobs // 4,
            "starts": [*plan.train, *plan.validation],
        },
        "split": {"train": f"0..{train - 1}", "validation": f"{train}..{validation - 1}"},
        "online": _training(plan),
    }  # fmt: skip
    before = {
        "config": {
            **shared, "jobs": plan.test_first - plan.before, "starts": [plan.before],
            "follow": 0,  # jobs that follow are those of the test part
        },
        "split": {"test": "0..0"},
    }  # fmt: skip
    run = {
        "config": {**shared, "whole": True, "starts": [plan.test_first]},
        "split": {"test": "0..0"},
    }
    if plan.test_last < plan.log_jobs:
        jobs = plan.test_last - plan.test_first
        run["config"] = {**shared, "jobs": jobs, "starts": [plan.test_first], "follow": 0}
    parts = [
        (RECIPE, "", "windows of the last 30 %", windows),
        (TRAIN, "-train", "train windows of the first 60 %", training),
        (BEFORE, "-before", "one run over the 30 % before the last 30 %", before),
        (RUN, "-run", "the last 30 % as one run", run),
    ]
    return {
        file: table_toml({
            "id": f"{name}{suffix}", "description": f"{about}: {text}", "scenario": "queue",
            "objective": "bounded_slowdown", "seed": 1, "trace": dict(trace), **sections,
            "evaluate": evaluated,
        })
        for file, suffix, text, sections in parts
        if _has_jobs(plan, file)
    }  # fmt: skip


def _has_jobs(plan: Plan, file: str) -> bool:
    """Return whether a recipe has windows: a short log has none, and a run may begin the log."""
    if file == TRAIN:
        return plan.log_jobs >= FEWEST_JOBS and len(plan.validation) > 0
    return bool(plan.test) if file == RECIPE else file == RUN or plan.before < plan.test_first


def _training(plan: Plan) -> dict[str, Any]:
    """Return [online]: CMA-ES over a linear score of five logarithms, as in queue-kth-online."""
    span = plan.test_first - plan.validation_first
    return {
        "agent": "evolution",
        "iterations": 14,
        "seeds": [0, 1, 2],
        "guard": {
            "references": list(_GUARD),
            "config": {
                "starts": [plan.validation_first], "jobs": min(span, 4000), "follow": 0,
            },
        },
        "settings": {
            "step": 0.5,
            "order": "drawn",
            "fitness": "log",
            "network": {
                "hidden": [], "quadratic": False, "logs": False,
                "columns": ["log_waited", "log_requested", "log_predicted", "log_similar",
                            "log_processors"],
            },
            "sampling": {"trajectories": 12, "windows": 4, "stay": 1, "baseline": "none"},
        },
    }  # fmt: skip
