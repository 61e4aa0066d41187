"""The parts of a proposal for one scenario, and the rules that all proposals share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hindcast.pipeline.workloads.schema import Workload

# Shares of a workload by split, in order of time.
SHARES: Final[Mapping[str, float]] = {"train": 0.6, "validation": 0.1, "test": 0.3}
FEWEST_WINDOWS: Final = 20  # of the test; with fewer, intervals over windows are wide
_IDLE: Final = 0.3  # offered load below which jobs hardly compete
NO_CONTENTION: Final = 0.02  # share of the time with more demand than capacity
_OTHER_LOAD: Final = 0.25  # relative difference of loads from that of train
REQUESTED_RUN: Final = 0.95  # share of jobs with requested_s == duration_s that are no requests


@dataclass(frozen=True)
class SplitFacts:
    """A split of a proposed recipe, measured.

    Attributes:
        name: Name of the split.
        windows: Its windows.
        jobs: Jobs that its windows count.
        days: Time from its first submission to its last one.
        load: Work of its jobs as a share of what the machines can do in that time, or in the median
            run time if that is longer.
        contended: Share of the time in which its jobs would need more than there is if none waited.
        in_use: Share of the machine that was in use in the log; None if that is unknown.
        wait_h: Mean wait in the log in hours; None if that is unknown.
    """

    name: str
    windows: range
    jobs: int
    days: float
    load: float
    contended: float
    in_use: float | None = None
    wait_h: float | None = None


@dataclass(frozen=True)
class ScenarioPlan:
    """Settings of one scenario for a workload, with the splits and warnings that follow from them.

    Attributes:
        config: Settings of the scenario.
        splits: The splits, measured.
        left_out: Tasks of the workload that no window counts, by reason.
        comments: Reasons for the settings by their names, for the recipe.
        facts: Sentences about the workload and its machine.
        warnings: Limits of the results.
        behaviours: Behaviours of the dataset: policy and the other keys of [[behaviours]].
        policies: Policies to evaluate.
        references: Policies with which the others are compared.
    """

    config: Mapping[str, Any]
    splits: Sequence[SplitFacts]
    left_out: Mapping[str, int]
    comments: Mapping[str, str]
    facts: Sequence[str]
    warnings: Sequence[str]
    behaviours: Sequence[Mapping[str, Any]]
    policies: Sequence[str]
    references: Sequence[str]


@dataclass(frozen=True)
class Start:
    """The moment of second 0 of a log.

    Attributes:
        clock_s: Local seconds since Monday, 00:00; None if the log does not say.
        text: The moment in words.
        warning: Sentence on what is not known about the moment, or "".
    """

    clock_s: int | None = None
    text: str = ""
    warning: str = field(default="the log does not say at which time of day it begins")


def has_requests(workload: Workload) -> bool:
    """Return whether jobs have requested times that are not just their run times."""
    tasks = workload.tasks
    if "requested_s" not in tasks.columns:
        return False
    share_equal = (tasks["requested_s"] == tasks["duration_s"]).mean()
    return float(share_equal or 0.0) < REQUESTED_RUN  # type: ignore[arg-type]


def has_memory(workload: Workload) -> bool:
    """Return whether any task needs memory."""
    return bool((workload.tasks["memory"] > 0).any())


def ranges(size: int) -> dict[str, range]:
    """Return the items of each split, from `size` items in order of time; no split is empty.

    `size` is at least 3.
    """
    train = max(1, min(round(SHARES["train"] * size), size - 2))
    test = max(train + 1, min(round((1 - SHARES["test"]) * size), size - 1))
    return {
        "train": range(train),
        "validation": range(train, test),
        "test": range(test, size),
    }


def split_warnings(splits: Sequence[SplitFacts]) -> list[str]:
    """Return warnings about results that follow from the windows and loads of the splits."""
    warnings = []
    by_name = {split.name: split for split in splits}
    train, test = by_name["train"], by_name["test"]
    if len(test.windows) < FEWEST_WINDOWS:
        warnings.append(
            f"the test has {len(test.windows)} windows: intervals over so few are wide, and small "
            f"differences cannot be shown; {FEWEST_WINDOWS} or more need a longer log"
        )
    if test.load < _IDLE or test.contended < NO_CONTENTION:
        warnings.append(
            f"the machine is nearly idle: the test offers {test.load:.0%} of what it can do, and "
            f"jobs compete {test.contended:.1%} of the time, so that policies will hardly differ"
        )
    if train.contended < NO_CONTENTION:
        warnings.append(
            f"jobs of train compete {train.contended:.1%} of the time: there is next to nothing to "
            "learn, and the recipe has no [train]"
        )
    differing = [
        split
        for split in (by_name["validation"], test)
        if train.load > 0 and abs(split.load / train.load - 1) > _OTHER_LOAD
    ]
    warnings += [
        f"{split.name} offers {split.load / train.load:.2f} times the load of train, so that what "
        "was learned there may not hold"
        for split in differing
    ]
    return warnings
