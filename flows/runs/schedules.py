"""Schedules from the words of a command: windows of recipes, and runs of logs."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from hindcast.flows.parser import with_trace
from hindcast.flows.runs.starts import Source, read
from hindcast.flows.runs.whatif import source_of
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.evaluation.evaluate import Job, make_job
from hindcast.pipeline.recipes.checkpoints import built_from
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import check_trace
from hindcast.pipeline.schedules.log_runs import run_schedule
from hindcast.pipeline.schedules.schedule import Schedule
from hindcast.pipeline.schedules.windows import (
    require_schedules,
    require_window,
    schedule_window,
)
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.traces.first_look import no_such_file
from hindcast.pipeline.whatif.orders import policy_of
from hindcast.pipeline.whatif.playing import play_placed
from hindcast.pipeline.whatif.replay import replay_placed
from hindcast.pipeline.whatif.run import run_of
from hindcast.policies.entrants import entrants

_RECORDED: Final = "recorded"


def is_recipe(name: str) -> bool:
    """Return whether a name is a recipe's: no path, a dataset, or a file of TOML with `scenario`.

    A TOML file without it is the mapping of a table.
    """
    path = location(name)
    if path.is_dir():
        return (path / "recipe.toml").exists() or built_from(path) is not None
    if not path.is_file():
        return not path.suffix and "/" not in name
    if path.suffix != ".toml":
        return False
    try:
        return "scenario" in tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return True  # whose loading says what is wrong


def check_source(request: Any) -> None:
    """Raise InputError for a source, policy, window or option of `schedule` that is not valid."""
    if is_recipe(request.source):
        if request.format is not None:
            raise InputError("--format is for a log; leave it out")
        behaviours_of(job_of(request)[0].recipe, [request.policy])
        return
    if not location(request.source).exists():
        no_such_file(location(request.source), "a recipe or a log of jobs")
    for name in ("window", "trace"):
        if getattr(request, name) is not None:
            raise InputError(f"--{name} is for a recipe; leave it out for the run of a log")
    if request.play:
        raise InputError("--play is for a recipe; leave it out for the run of a log")
    source_of(_log(request))
    _require_rule(request.policy)


def _log(request: Any) -> Source:
    return Source(request.source, request.format, request.overrides)


def _require_rule(policy: str) -> None:
    if policy != _RECORDED and policy_of(policy) is None:
        raise InputError(
            f"--policy {policy}: a log is played by rules that are priorities, and by {_RECORDED}; "
            "`hindcast whatif LOG --policy POLICY` plays other policies, and writes their "
            "schedules to jobs/"
        )


def job_of(request: Any) -> tuple[Job, int]:
    """Return the problem of a request's recipe, and the window that it asks for.

    Raises InputError for a scenario without schedules, or a window that does not exist.
    """
    name = getattr(request, "recipe", None) or request.source
    recipe = load_recipe(name, with_trace(request.overrides, request.trace))
    require_schedules(recipe.scenario)
    check_trace(recipe, request.trace)
    split = "test" if "test" in recipe.split else next(iter(recipe.split))
    job = make_job(recipe, split, Path())
    window = job.windows[0] if request.window is None else request.window
    require_window(job, window, "--window")
    return job, window


def behaviours_of(recipe: Recipe, names: Sequence[str]) -> list[Behaviour]:
    """Return one policy for every name; raise InputError for a name of several."""
    found = []
    for name in names:
        of = entrants(recipe, [name])
        if len(of) != 1:
            raise InputError(f"{name}: stands for {len(of)} policies, expected one")
        found.append(of[0].behaviour)
    return found


def make(request: Any) -> Schedule:
    """Return the schedule that a request of `hindcast schedule` asks for."""
    if is_recipe(request.source):
        job, window = job_of(request)
        (behaviour,) = behaviours_of(job.recipe, [request.policy])
        return schedule_window(job, behaviour, window, request.play)
    workload, record = read(_log(request))
    run = run_of(record, record.first, warm=bool(record.known.any()))
    rule = policy_of(request.policy)
    if rule is None and not record.known.any():
        raise InputError(f"--policy {_RECORDED}: the log does not say when its jobs started")
    starts, kinds = replay_placed(run) if rule is None else play_placed(run, *rule)
    row = np.asarray(record.row)
    return run_schedule(workload, row, [run], [starts], [kinds], request.policy)
