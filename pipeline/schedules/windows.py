"""The schedule of a window under a policy, for every scenario that has jobs."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.evaluation.evaluate import Job
from hindcast.pipeline.recipes.proposals.proposal import second_zero
from hindcast.pipeline.schedules.of_machines import (
    binpack_choice,
    binpack_schedule,
    gpupack_schedule,
    multicluster_schedule,
)
from hindcast.pipeline.schedules.of_queue import queue_schedule
from hindcast.pipeline.schedules.of_slots import (
    deferrable_schedule,
    slots_schedule,
    thermal_choice,
    thermal_schedule,
)
from hindcast.pipeline.schedules.playback import Played, play_window
from hindcast.pipeline.schedules.schedule import (
    Schedule,
    file_name,
    make_schedule,
    write_schedule,
)
from hindcast.pipeline.simulation.arrays import EpisodeArrays
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.storage.files import make_folder
from hindcast.pipeline.storage.run_files import JOBS
from hindcast.pipeline.workloads.schema import Workload

Tables = Callable[[Played], tuple[pl.DataFrame, dict[str, Any]]]
TABLES: Final[Mapping[str, Tables]] = {
    "binpack": binpack_schedule,
    "deferrable": deferrable_schedule,
    "gpupack": gpupack_schedule,
    "multicluster": multicluster_schedule,
    "queue": queue_schedule,
    "slots": slots_schedule,
    "thermal": thermal_schedule,
}
# What has to be noted before each choice, where the memory at the end does not tell it.
LOOKS: Final[Mapping[str, Callable[[EpisodeArrays, int], Any]]] = {
    "binpack": binpack_choice,
    "thermal": thermal_choice,
}


def require_schedules(scenario: str) -> None:
    """Raise InputError for a scenario without schedules."""
    if scenario not in TABLES:
        raise InputError(
            f"scenario {scenario!r} has no schedules, expected one of {', '.join(TABLES)}"
        )


def require_window(job: Job, window: int, option: str) -> None:
    """Raise InputError, which names the option, for a window without a schedule."""
    require_schedules(job.scenario.name)
    known = job.scenario.windows(job.recipe.config, job.workload)
    if window >= known:
        raise InputError(
            f"{option} {window}: expected 0 to {known - 1:,}, windows of {job.recipe.id}"
        )


def write_window(job: Job, behaviours: Iterable[Behaviour], window: int) -> list[Path]:
    """Write the schedule of a window under every policy; return the paths.

    They are jobs/POLICY.parquet in the folder of the evaluation. Of a policy that draws, it is the
    first play.
    """
    folder, paths = make_folder(job.out / JOBS), []
    for behaviour in behaviours:
        paths.append(folder / f"{file_name(behaviour.name)}.parquet")
        write_schedule(schedule_window(job, behaviour, window), paths[-1])
    return paths


def schedule_window(job: Job, behaviour: Behaviour, window: int, seed: int = 0) -> Schedule:
    """Return the schedule of a window under a policy, played as an evaluation plays it.

    Raises InputError for a scenario without schedules, or a policy that does not tell its choices.
    """
    require_schedules(job.scenario.name)
    return schedule_of(play_window(job, behaviour, window, seed, LOOKS.get(job.scenario.name)))


def schedule_of(played: Played) -> Schedule:
    """Return the schedule of a window that was played with the scenario's entry of LOOKS."""
    jobs, facts = TABLES[played.job.scenario.name](played)
    recipe = played.job.recipe
    known = {
        "policy": played.behaviour.name,
        "scenario": played.job.scenario.name,
        "source": {"recipe": recipe.id, "digest": recipe.digest},
        "window": played.window,
        "seed": played.seed if played.behaviour.stochastic else None,
    }
    return make_schedule(jobs, whole_facts({**known, **facts}, played.job.workload))


def whole_facts(facts: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    """Return facts with those that most scenarios do not have, and the epoch of a log."""
    moment = second_zero(workload)[0]
    epoch = None if moment is None or facts.get("clock", "s") != "s" else moment.timestamp()
    return {
        "per_unit": dict.fromkeys(facts["capacity"], 1), "levels": {}, "machines": {},
        "machine": None, "clock": "s", "epoch": epoch, **facts,
    }  # fmt: skip
