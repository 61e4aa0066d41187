"""Proposal for `queue`: windows of jobs over the whole log, apart from each other by split."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.recipes.proposals.load import demand, ratio
from hindcast.pipeline.recipes.proposals.plan import (
    SHARES,
    ScenarioPlan,
    SplitFacts,
    Start,
    has_requests,
    ranges,
    split_warnings,
)
from hindcast.pipeline.recipes.proposals.resources import resources_hint
from hindcast.pipeline.scenarios.queue.instances import Log, read_log, usable
from hindcast.pipeline.workloads.schema import Workload

DESCRIPTION: Final = "windows of {jobs} jobs and {follow} that follow"
_JOBS: Final = (256, 128, 64, 32, 16, 8)  # of a window, the preferred number first
_FOLLOW: Final = 4  # windows of jobs that arrive after a window
_LEAST: Final = {"train": 8, "validation": 3, "test": 8}  # windows for which _JOBS is good
_MOST: Final = {"train": 96, "validation": 16, "test": 48}  # windows, so that a run takes minutes
_LONG_QUEUE: Final = 128  # waiting jobs from which an observation shows the oldest ones alone
_DAY_S: Final = 86_400
_WAITED_S: Final = 60
_FEW: Final = 0.05
_HELD: Final = 0.01  # of the jobs were eligible later than submitted
_OVER: Final = 0.01

_BEHAVIOURS: Final[tuple[Mapping[str, Any], ...]] = (
    {"policy": "random_linear", "temperature": 0.3, "episodes": 4},
    {"policy": "random", "episodes": 1},
    *({"policy": rule, "epsilon": 0.1, "episodes": 1}
      for rule in ("sjf_easy", "saf_easy", "lxf_easy", "aged_area_easy")),
)  # fmt: skip
_POLICIES: Final = (
    "random", "fcfs_easy", "sjf_easy", "saf_easy", "lxf_easy", "aged_area_easy",
    "aged_expected_easy", "steady_area_easy", "conservative", "saf_clairvoyant",
)  # fmt: skip
_REFERENCES: Final = (
    "random", "fcfs_easy", "sjf_easy", "saf_easy", "lxf_easy", "aged_area_easy",
    "aged_expected_easy",
)  # fmt: skip


def misfit(workload: Workload) -> str:
    """Return the reason that the scenario does not suit a workload, or ""."""
    if workload.machines is None:
        return "the workload has no machine"
    if not has_requests(workload):
        return "jobs have no requested times"
    return ""


def plan(workload: Workload, start: Start) -> ScenarioPlan:
    """Return a proposal. Raises InputError if the log has too few jobs."""
    log, is_usable = read_log(workload), usable(workload)
    held = bool((log.arrive > log.submit).mean() > _HELD)
    if held:
        log = read_log(workload, "eligible")
    size = len(log.submit)
    jobs = _window_length(size)
    follow = _FOLLOW * jobs
    starts: list[int] = []
    windows: dict[str, range] = {}
    split_ranges = ranges(size)
    for name, jobs_of_split in split_ranges.items():
        first_jobs = _starts(jobs_of_split, jobs, follow, _MOST[name])
        windows[name] = range(len(starts), len(starts) + len(first_jobs))
        starts += first_jobs
    splits = [
        _measured(log, name, split_ranges[name], windows[name], starts, jobs)
        for name in split_ranges
    ]
    n_too_wide = int((~is_usable).sum()) - _unknown_runs(workload)
    left_out = {
        "wider than the machine": n_too_wide,
        "without a known run time": _unknown_runs(workload),
        **_not_counted(size, starts, jobs, follow),
    }
    config: dict[str, Any] = {"jobs": jobs, "follow": follow, "warm": log.has_starts}
    comments = {
        "jobs": _why_jobs(jobs, size),
        "follow": "jobs that arrive after a window and are not counted, so that the queue stays",
        "warm": "windows begin with what ran and waited in the log"
        if log.has_starts
        else "the log has no start times, so windows begin with an empty machine",
        "starts": "first job of each window; the follow-on jobs are in the same split",
    }
    if held:
        config["arrive"] = "eligible"
        comments["arrive"] = "held jobs wait from the moment at which they were eligible"
    if start.clock_s is not None:
        config["clock_s"] = start.clock_s
        comments["clock_s"] = start.text
    if log.has_starts and _queue_length(log, starts) > _LONG_QUEUE:
        config["visible"] = _LONG_QUEUE
        comments["visible"] = "the queue is often longer; the oldest jobs are seen"
    hint = resources_hint(workload)
    if hint:
        comments["resources"] = hint
    config["starts"] = starts
    return ScenarioPlan(
        config=config,
        splits=splits,
        left_out={reason: count for reason, count in left_out.items() if count > 0},
        comments=comments,
        facts=[f"{log.processors:,} processors", *_in_use_at_once(log)],
        warnings=[
            *_warnings(log),
            *([hint] if hint else []),
            *([start.warning] if start.warning else []),
            *split_warnings(splits),
        ],
        behaviours=_BEHAVIOURS,
        policies=(*_POLICIES, *(["recorded"] if log.has_starts else [])),
        references=_REFERENCES,
    )


def _unknown_runs(workload: Workload) -> int:
    tasks = workload.tasks
    return int(tasks["run_unknown"].sum()) if "run_unknown" in tasks.columns else 0


def _window_length(size: int) -> int:
    """Return the number of jobs of a window for which every split has enough windows."""
    parts = ranges(max(size, 3))
    counts = {}
    for jobs in _JOBS:
        counts[jobs] = {n: len(part) // jobs - _FOLLOW for n, part in parts.items()}
        if all(counts[jobs][name] >= least for name, least in _LEAST.items()):
            return jobs
    for jobs in reversed(_JOBS):
        if min(counts[jobs].values()) > 0:
            return jobs
    needed = int((_FOLLOW + 1) * _JOBS[-1] / SHARES["validation"])
    raise InputError(
        f"the log has {size:,} usable jobs, expected at least {needed:,} for windows of "
        f"{_JOBS[-1]} jobs in three splits; choose a recipe by hand, such as datasets/queue-swf"
    )


def _starts(part: range, jobs: int, follow: int, most: int) -> list[int]:
    """Return first jobs of windows that stay within a split, evenly spaced if there are many."""
    last = part.stop - follow - jobs
    count = min((last - part.start) // jobs + 1, most)
    step = max(jobs, (last - part.start) // max(count - 1, 1)) if count == most else jobs
    return [part.start + step * place for place in range(count)]


def _why_jobs(jobs: int, size: int) -> str:
    if jobs == _JOBS[0]:
        return "as in the recipes that come with Hindcast"
    return f"the longest windows of which {size:,} jobs make enough for every split"


def _measured(
    log: Log, name: str, part: range, windows: range, starts: list[int], jobs: int
) -> SplitFacts:
    rows = slice(part.start, part.stop)
    submit, run, cpu = log.submit[rows], log.run[rows], log.cpu[rows]
    # Arrays of jobs can be submitted within a second, in which no machine does any work.
    begin = int(submit[0])
    end = max(int(submit[-1]), begin + int(np.median(run)))
    demanded = demand(submit, run, cpu)
    in_use = wait_h = None
    if log.has_starts:
        ends = log.start + log.run
        held_s = np.clip(np.minimum(ends, end) - np.maximum(log.start, begin), 0, None)
        in_use = ratio(float(held_s @ log.cpu), log.processors, end - begin)
        wait_h = float((log.start[rows] - submit).mean()) / 3600
    counted = {job for k in windows for job in range(starts[k], starts[k] + jobs)}
    return SplitFacts(
        name=name,
        windows=windows,
        jobs=len(counted),
        days=int(submit[-1] - begin) / _DAY_S,
        load=ratio(float(run @ cpu), log.processors, end - begin),
        contended=demanded.share_above(log.processors, until=end),
        in_use=in_use,
        wait_h=wait_h,
    )


def _not_counted(size: int, starts: list[int], jobs: int, follow: int) -> dict[str, int]:
    counted, after = np.zeros(size, bool), np.zeros(size, bool)
    for first in starts:
        counted[first : first + jobs] = True
        after[first + jobs : first + jobs + follow] = True
    return {
        "in no window, but follow-on jobs of one": int((after & ~counted).sum()),
        "between windows, which are spread over the log": int((~after & ~counted).sum()),
    }


def _queue_length(log: Log, starts: list[int]) -> float:
    """Return the number of waiting jobs of the log at the begin of windows, 90th percentile."""
    waiting = [
        int((log.start[:first] >= log.submit[first]).sum()) for first in starts
    ]  # as hindcast.pipeline.scenarios.queue.instances.select_jobs
    return float(np.quantile(np.array(waiting), 0.9))


def _in_use_at_once(log: Log) -> list[str]:
    if not log.has_starts:
        return []
    in_use = demand(log.start, log.run, log.cpu)
    fact = f"at most {in_use.peak:,.0f} in use at once in the log"
    if (over := in_use.share_above(log.processors)) > 0:
        fact += f", more than there are for {over:.1%} of the time"
    return [fact]


def _warnings(log: Log) -> list[str]:
    """Return what hindcast.pipeline.workloads.log_caveats does not say."""
    warnings = []
    users = log.user[log.user >= 0]
    if len(np.unique(users)) < 2:
        warnings.append("users are unknown, so that run times are not predicted from earlier jobs")
    if not log.has_starts:
        return warnings
    waits: NDArray[np.int64] = log.start - log.submit
    waited = float((waits >= _WAITED_S).mean())
    if waited < _FEW:
        warnings.append(f"{waited:.1%} of the jobs waited a minute or more in the log")
    in_use = demand(log.start, log.run, log.cpu)
    if (over := in_use.share_above(log.processors)) > _OVER:
        warnings.append(
            f"the log uses more processors than the machine has {over:.1%} of the time: is "
            f"{log.processors:,} its size?"
        )
    return warnings
