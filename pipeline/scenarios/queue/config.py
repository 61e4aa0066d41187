"""Settings of `queue`, and the checks of their values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.settings.ranges import check_ranges, number, ranged
from hindcast.pipeline.simulation.scenario import LEFT_OUT_WHEN_DEFAULT, ONE_PER_WINDOW

WIDE: Final = 0.25  # share of the machine from which a job is wide
LONG_S: Final = 4 * 3600  # requested seconds from which a job is long
STARVED_S: Final = 48 * 3600  # wait above which a job is starved
_CAPACITY: Final = "from 1 to 1,000,000,000,000"


@dataclass(frozen=True)
class QueueConfig:
    """Settings of `queue`.

    Attributes:
        jobs: Number of consecutive jobs of the log in one window, at least 1.
        starts: Number of the first job of each window, counted from 0 in order of submission;
            empty for windows side by side, of which window k begins at job k * `jobs`.
        follow: Number of jobs after the window that arrive as well and are not counted, at least
            0. With 0 the queue drains.
        whole: Whether a window extends to the end of the log. `jobs` and `starts` still say where
            windows begin, and `follow` has no effect.
        warm: Whether the machine and the queue begin as they were in the log, which must say when
            jobs started. Otherwise they begin empty.
        allow_wait: Whether waiting for the next event is a choice.
        reserve: Whether a job that does not fit can be chosen, and then gets the reservation.
        visible: Number of waiting jobs in an observation, the oldest ones; 0 for all.
        kill: Whether jobs end when their requested time is over.
        clock_s: Local time at second 0 of the log, in seconds since Monday, 00:00, for the
            features of the time of day and of the week.
        arrive: Moment at which a job can be started: "submit", or "eligible", when its holds and
            dependencies had ended, which the log must say; jobs are then counted in this order,
            and the time before is no wait.
        resources: What jobs ask for and the machine has: "processors", then "gpus" or types of them
            such as "gpus:a100", in the order in which a job that takes any type tries them, and
            "memory". "gpus" stands for the types that the capacity has, greatest first. A resource
            without a capacity is left out.
        capacity: Amount of each resource: processors (by default those of the log's machine),
            GPUs, and memory in MiB.
        pools: Capacity by pool. A pool is a machine of its own for the jobs of some partitions; its
            name is that of its partition, or of several that share it, joined by +. By default
            there is one machine for all.
        run_times: Whether candidates have the columns `log_weight` and `log_expected`, run times
            that are learned from all jobs as they complete.
        compat: "none". The published simulator of RLScheduler is scenario `rlscheduler`.
    """

    jobs: int = number(256, "from 1 to 10,000,000")
    starts: tuple[int, ...] = number((), "from 0 to 1,000,000,000", metadata=ONE_PER_WINDOW)
    follow: int = number(1024, "from 0 to 10,000,000")
    whole: bool = False
    warm: bool = True
    allow_wait: bool = False
    reserve: bool = True
    visible: int = number(0, "from 0 to 10,000,000")
    kill: bool = False
    clock_s: int = number(0, "from 0 to 604,799", "s", metadata=LEFT_OUT_WHEN_DEFAULT)
    arrive: Literal["submit", "eligible"] = field(default="submit", metadata=LEFT_OUT_WHEN_DEFAULT)
    run_times: bool = field(default=False, metadata=LEFT_OUT_WHEN_DEFAULT)
    resources: tuple[str, ...] = field(default=("processors",), metadata=LEFT_OUT_WHEN_DEFAULT)
    capacity: Mapping[str, int] = field(
        default_factory=dict, metadata={**LEFT_OUT_WHEN_DEFAULT, **ranged(_CAPACITY)}
    )
    pools: Mapping[str, Mapping[str, int]] = field(
        default_factory=dict, metadata={**LEFT_OUT_WHEN_DEFAULT, **ranged(_CAPACITY)}
    )
    compat: Literal["none"] = "none"


def check_config(config: QueueConfig) -> None:
    """Raise InputError for a setting that is out of its range."""
    check_ranges(config, "config")
    if len(set(config.starts)) < len(config.starts):
        twice = next(s for s in config.starts if config.starts.count(s) > 1)
        raise InputError(f"config.starts has {twice} twice, expected every first job once")
