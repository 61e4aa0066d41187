"""Schedules of scenarios whose clock goes in steps: `deferrable`, `slots` and `thermal`."""

from typing import Any

import numpy as np
import polars as pl

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.deferrable import layout as d
from hindcast.pipeline.scenarios.slots import layout as s
from hindcast.pipeline.scenarios.thermal import layout as t
from hindcast.pipeline.schedules.of_queue import blank_unstarted
from hindcast.pipeline.schedules.playback import Played
from hindcast.pipeline.schedules.schedule import bounded
from hindcast.pipeline.simulation.arrays import EpisodeArrays


def _blocks(played: Played, size: int, *places: int) -> list[Any]:
    """Return the blocks of the integer memory that begin at these places, (size,) each."""
    ints = played.ints
    return [ints[ints[at] : ints[at] + size].copy() for at in places]


def deferrable_schedule(played: Played) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the jobs of a window of `deferrable`, and the facts of a Schedule.

    The capacity changes by slot. A job is eligible at its earliest start, from which its wait
    counts. On a grid, jobs that are due start in the last slot whether they fit or not.

    Raises InputError for jobs that pause.
    """
    if played.job.recipe.config.pausable:
        raise InputError(
            "config.pausable: jobs that pause have more than one start, so they have no schedule"
        )
    n, slots = int(played.ints[d.JOBS]), int(played.ints[d.HORIZON])
    cores, duration, earliest, submitted, start = _blocks(
        played, n, d.CORES_AT, d.DURATION_AT, d.EARLIEST_AT, d.SUBMITTED_AT, d.START_AT
    )
    (capacity,) = _blocks(played, slots, d.CAPACITY_AT)
    slot_s = float(played.floats[d.SLOT_S])
    begin = _first_slot(played) * slot_s
    frame = _in_steps(
        np.arange(n), submitted, earliest, start, duration, cores, np.ones(n, bool), begin, slot_s
    )
    changes = np.flatnonzero(np.diff(capacity, prepend=-1))
    return frame, {
        "capacity": {"processors": int(capacity.max(initial=0))},
        "unit": "cores",
        "levels": {"processors": [[begin + slot_s * int(at), int(capacity[at])] for at in changes]},
        "from_s": begin,
        "to_s": begin + slot_s * int(played.ints[d.SLOT]),
    }


def _first_slot(played: Played) -> int:
    """Return the slot of the trace at which a window begins; 0 for generated jobs."""
    config = played.job.recipe.config
    if config.jobs != "trace":
        return 0
    return int(played.window // config.draws_per_window * config.horizon)


def slots_schedule(played: Played) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the jobs of a sequence of `slots`, and the facts of a Schedule.

    A job is eligible when it enters the queue or its backlog; one that is dropped does not count.
    """
    n = int(played.ints[s.JOBS])
    arrive, length, cpu, memory, enter, finish = _blocks(
        played, n, s.ARRIVE_AT, s.LENGTH_AT, s.CPU_AT, s.MEMORY_AT, s.ENTER_AT, s.FINISH_AT
    )
    entered, size, step_s = enter >= 0, int(played.ints[s.SLOTS]), float(played.floats[s.STEP_S])
    start = np.where(finish >= 0, finish - length, -1)
    eligible = np.where(entered, enter, arrive)
    frame = _in_steps(
        np.arange(n), np.minimum(arrive, eligible), eligible, start, length, cpu, entered, 0.0,
        step_s,
    ).with_columns(memory=pl.Series(memory))  # fmt: skip
    return frame, {
        "capacity": {"processors": size, "memory": size},
        "unit": "slots",
        "from_s": 0.0,
        "to_s": step_s * int(played.ints[s.NOW]),
    }


def thermal_choice(episode: EpisodeArrays, choice: int) -> tuple[int, int, int]:
    """Return the job that is due, the chosen server, and the start there."""
    ints = episode.ints
    return int(ints[t.NOW]), choice, int(ints[ints[t.START_AT] + choice])


def thermal_schedule(played: Played) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the jobs of `thermal`, and the facts of a Schedule; rejected jobs have no start."""
    n, servers = int(played.ints[t.JOBS]), int(played.ints[t.SERVERS])
    resources, process = _blocks(played, n, t.RESOURCES_AT, t.PROCESS_AT)
    start, server = np.full((2, n), -1)
    for job, chosen, at in played.notes:
        start[job], server[job] = at, chosen
    submit, capacity = np.arange(n), int(played.ints[t.CAPACITY])
    frame = _in_steps(
        submit, submit, submit, start, process, resources, np.ones(n, bool), 0.0, 1.0
    ).with_columns(machine=pl.Series([[int(one)] if one >= 0 else None for one in server]))
    return frame, {
        "capacity": {"processors": servers * capacity},
        "unit": "resources",
        "machines": {"processors": [capacity] * servers},
        "machine": "server",
        "clock": "step",
        "from_s": 0.0,
        "to_s": float(played.ints[t.NOW]),
    }


def _in_steps(
    job: Any, submit: Any, eligible: Any, start: Any, length: Any, processors: Any, counted: Any,
    begin: float, step_s: float,
) -> pl.DataFrame:  # fmt: skip
    """Return jobs whose times (N,) are steps from `begin` on; a start of -1 is none."""
    wait, run = (start - eligible) * step_s, length * step_s
    frame = pl.DataFrame({
        "job": job,
        "submit_s": begin + submit * step_s,
        "eligible_s": begin + eligible * step_s,
        "start_s": begin + start * step_s,
        "end_s": begin + (start + length) * step_s,
        "processors": processors,
        "counted": counted,
        "wait_s": wait,
        "bounded_slowdown": bounded(wait, run),
    })  # fmt: skip
    return blank_unstarted(frame, start >= 0, counted)
