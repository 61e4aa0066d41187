"""Settings of `rlscheduler`, and the checks of their values."""

from dataclasses import dataclass
from typing import Literal

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.scenario import ONE_PER_WINDOW


@dataclass(frozen=True)
class RLSchedulerConfig:
    """Settings of `rlscheduler`.

    Attributes:
        compat: Program that is reproduced.
        trace_name: Log of the workload: "lublin_256" (Lublin-1 in the paper's tables),
            "lublin_256_new2" (Lublin-2), "SDSC-SP2" or "HPC2N".
        starts: Number of the first job of each window, counted from 0 in order of job numbers;
            empty for windows side by side, of which window k begins at job k * `jobs`.
        jobs: Number of consecutive jobs of the log in a window, at least 1.
        backfill: Whether waiting jobs may start while the chosen job does not fit.
        observation: "all" for one row per waiting job; "published" for the 128 rows of the
            published program, padded, of which others cannot be chosen.
    """

    compat: Literal["rlscheduler"] = "rlscheduler"
    trace_name: str = "lublin_256"
    starts: tuple[int, ...] = number((), "from 0 to 1,000,000,000", metadata=ONE_PER_WINDOW)
    jobs: int = number(1024, "from 1 to 1,000,000")
    backfill: bool = False
    observation: Literal["all", "published"] = "all"


def check_config(config: RLSchedulerConfig) -> None:
    """Raise InputError for a setting that is out of its range."""
    check_ranges(config, "config")
    if len(set(config.starts)) < len(config.starts):
        twice = next(s for s in config.starts if config.starts.count(s) > 1)
        raise InputError(f"config.starts has {twice} twice, expected every first job once")
