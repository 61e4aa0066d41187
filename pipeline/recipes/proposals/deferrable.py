"""Proposal for `deferrable`: jobs that may wait, in slots, on a capacity of their mean work."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.recipes.proposals.load import demand, ratio
from hindcast.pipeline.recipes.proposals.plan import (
    ScenarioPlan,
    SplitFacts,
    Start,
    ranges,
    split_warnings,
)
from hindcast.pipeline.workloads.schema import Workload

DESCRIPTION: Final = "windows of {horizon} slots of {slot_s:g} s"
_SLOTS_S: Final = (60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
_LONGEST: Final = 8  # slots of a job, the default of the scenario
_SHORT_ENOUGH: Final = 0.9  # share of the jobs that are no longer
_HORIZONS: Final = (24, 12, 8)  # slots of a window, the preferred number first
_STRETCHES: Final = 10  # of the log for which a horizon is good
_USED: Final = 0.8  # share of the jobs in consecutive windows for which slots are good
_BETTER: Final = 0.05  # relative gain in jobs for which longer windows are given up
_DRAWS: Final = 60  # windows of all splits, for which stretches are drawn from several times
_MOST: Final = {"train": 120, "validation": 20, "test": 60}  # stretches
_JOBS_PER_SLOT: Final = 8.5
_DAY_S: Final = 86_400
_FEWEST: Final = 3

_BEHAVIOURS: Final[tuple[Mapping[str, Any], ...]] = (
    {"policy": "random_linear", "epsilon": 0.1, "episodes": 3},
    {"policy": "random", "episodes": 1},
    *({"policy": rule, "epsilon": 0.1, "episodes": 1}
      for rule in ("fifo", "sjf", "tetris", "fifo_skip", "knapsack", "knapsack_patient")),
)  # fmt: skip
_POLICIES: Final = (
    "random", "fifo", "sjf", "tetris", "fifo_skip", "largest_skip", "knapsack", "knapsack_patient",
)  # fmt: skip
_REFERENCES: Final = ("random", "fifo", "tetris", "knapsack", "knapsack_patient")


@dataclass(frozen=True)
class _Slots:
    """Slots of a window in s, their number, the consecutive windows with jobs, and these jobs."""

    slot_s: float
    horizon: int
    stretches: range
    jobs: int


def misfit(workload: Workload) -> str:
    """Return the reason that the scenario does not suit a workload, or ""."""
    return "" if workload.tasks.height else "the workload has no tasks"


def plan(workload: Workload, start: Start) -> ScenarioPlan:
    """Return a proposal. Raises InputError if the workload is too short."""
    del start  # the time of day is no feature
    tasks = workload.tasks
    reserved = tasks.height
    if "priority" in tasks.columns:  # of Azure: VMs of priority 0 are the on-demand load
        tasks = tasks.filter(pl.col("priority").fill_null(1) != 0)
    reserved -= tasks.height
    submit, durations = tasks["submit_s"].to_numpy(), tasks["duration_s"].to_numpy()
    chosen_slots = _slots(durations, submit)
    slot_s, horizon, stretches = chosen_slots.slot_s, chosen_slots.horizon, chosen_slots.stretches
    slots = np.maximum(np.ceil(durations / slot_s), 1.0)
    short = slots <= _LONGEST
    draws = max(1, -(-_DRAWS // len(stretches)))
    of_stretch = np.floor(submit / (slot_s * horizon)).astype(np.int64)
    chosen = {
        name: range(stretches.start + windows.start, stretches.start + windows.stop)[
            -_MOST[name] if name != "test" else 0 : None if name != "test" else _MOST[name]
        ]
        for name, windows in ranges(len(stretches)).items()
    }
    cores = np.maximum(np.ceil(tasks["cores"].to_numpy() - 1e-9), 1.0)
    train = short & _within(of_stretch, chosen["train"])
    rate = float(train.sum()) / (len(chosen["train"]) * horizon)
    drawn = max(min(rate, _JOBS_PER_SLOT), 1.0 / horizon)
    capacity = drawn * float((cores * slots)[train].mean())
    splits = []
    for name, windows in chosen.items():
        rows = short & _within(of_stretch, windows)
        splits.append(
            _measured(name, windows, draws, submit[rows], slots[rows], cores[rows], slot_s, horizon,
                      capacity * rate / drawn)
        )  # fmt: skip
    inside = _within(of_stretch, stretches)
    counted = _within(of_stretch, range(0))
    for windows in chosen.values():
        counted |= _within(of_stretch, windows)
    left_out = {
        "on-demand load (priority 0), which makes the capacity": reserved,
        f"longer than {_LONGEST} slots of {slot_s:g} s": int((~short).sum()),
        "before or after the longest time without a window that has no job": int(
            (short & ~inside).sum()
        ),
        "in windows beyond those that make a run take minutes": int(
            (short & inside & ~counted).sum()
        ),
    }
    config: dict[str, Any] = {
        "jobs": "trace",
        "horizon": horizon,
        "slot_s": slot_s,
        "jobs_per_slot": float(f"{drawn:.4g}"),
        "capacity": float(f"{capacity:.4g}"),
        "draws_per_window": draws,
    }
    warnings = split_warnings(splits)
    warnings.append(
        "no log says which jobs may wait: notices and latest starts are drawn, see "
        "docs/scenarios/deferrable.md"
    )
    return ScenarioPlan(
        config=config,
        splits=splits,
        left_out={reason: count for reason, count in left_out.items() if count > 0},
        comments={
            "slot_s": f"{short.mean():.0%} of the jobs last at most {_LONGEST} slots",
            "jobs_per_slot": f"the train windows have {rate:.3g}; so many are drawn from them",
            "capacity": "cores; the mean work of these jobs",
            "draws_per_window": f"{len(stretches)} stretches of the log, drawn from so many times",
        },
        facts=[f"slots of {slot_s:g} s, windows of {horizon} slots"],
        warnings=warnings,
        behaviours=_BEHAVIOURS,
        policies=_POLICIES,
        references=_REFERENCES,
    )


def _slots(durations: NDArray[np.float64], submit: NDArray[np.float64]) -> _Slots:
    """Return the first usual slot and window that use most jobs, else the best of all.

    Slots in which many jobs would be too long are not considered. Raises InputError if the
    workload is too short.
    """
    long_enough = [s for s in _SLOTS_S if (durations <= _LONGEST * s).mean() >= _SHORT_ENOUGH]
    best = _Slots(0.0, 0, range(0), 0)
    for slot_s in long_enough or _SLOTS_S[-1:]:
        short = submit[durations <= _LONGEST * slot_s]
        for horizon in _HORIZONS:
            candidate = _slots_of(short, float(submit.max()), slot_s, horizon)
            if len(candidate.stretches) >= _STRETCHES and candidate.jobs >= _USED * len(submit):
                return candidate
            enough = [min(len(slots.stretches), _STRETCHES) for slots in (best, candidate)]
            if enough[1] > enough[0] or (
                enough[1] == enough[0] and candidate.jobs > (1 + _BETTER) * best.jobs
            ):
                best = candidate
    if len(best.stretches) < _FEWEST:
        raise InputError(
            f"the workload has {len(best.stretches)} consecutive windows with a job in each, "
            f"expected at least {_FEWEST}: it is too short, or its jobs are too far apart"
        )
    return best


def _slots_of(submit: NDArray[np.float64], last: float, slot_s: float, horizon: int) -> _Slots:
    """Return the most consecutive windows that all have a job."""
    count = int(np.ceil(last / slot_s)) // horizon
    window = np.floor(submit / (slot_s * horizon)).astype(np.int64)
    jobs = np.bincount(np.clip(window[window >= 0], 0, count), minlength=count + 1)
    jobs[count] = 0  # after the last whole window
    ends = np.flatnonzero(jobs == 0)
    begins = np.concatenate([[0], ends[:-1] + 1])
    longest = int(np.argmax(ends - begins))
    stretches = range(int(begins[longest]), int(ends[longest]))
    return _Slots(slot_s, horizon, stretches, int(jobs[stretches.start : stretches.stop].sum()))


def _within(of_stretch: NDArray[np.int64], stretches: range) -> NDArray[np.bool_]:
    return (of_stretch >= stretches.start) & (of_stretch < stretches.stop)


def _measured(
    name: str, stretches: range, draws: int, submit: NDArray[np.float64],
    slots: NDArray[np.float64], cores: NDArray[np.float64], slot_s: float, horizon: int,
    capacity: float,
) -> SplitFacts:  # fmt: skip
    """Return the facts of a split; `capacity` is scaled to all its jobs, not to those drawn."""
    seconds = len(stretches) * horizon * slot_s
    demanded = demand(np.floor(submit / slot_s), slots, cores)
    return SplitFacts(
        name=name,
        windows=range(stretches.start * draws, stretches.stop * draws),
        jobs=len(submit),
        days=seconds / _DAY_S,
        load=ratio(float(cores @ slots) * slot_s, capacity, seconds),
        contended=demanded.share_above(capacity),
    )
