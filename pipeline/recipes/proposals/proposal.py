"""Proposal of a recipe for a workload: its scenario, its settings, and the reasons for them.

The first scenario of PROPOSALS that suits the workload is proposed, unless one is given. Settings
come from the workload. Tasks that they leave out are counted; limits of the results are warnings.
"""

import json
import re
import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hindcast.pipeline.errors import InputError, printable, unknown_name
from hindcast.pipeline.plugins import Registry, import_module
from hindcast.pipeline.recipes.loading import parse_recipe
from hindcast.pipeline.recipes.proposals.plan import NO_CONTENTION, ScenarioPlan, Start
from hindcast.pipeline.workloads.caveats import of_provenance
from hindcast.pipeline.workloads.log_caveats import log_caveats, mostly_unread
from hindcast.pipeline.workloads.schema import Workload

_FOLDER: Final = "hindcast.pipeline.recipes.proposals"
# Scenario -> module, in the order in which they are considered. It has `misfit`, `plan` and
# DESCRIPTION for a workload, or `propose` for a table that only this scenario reads.
PROPOSALS: Final = Registry[str]("proposals", {
    "queue": f"{_FOLDER}.queue",
    "binpack": f"{_FOLDER}.binpack",
    "deferrable": f"{_FOLDER}.deferrable",
    "gpupack": f"{_FOLDER}.gpupack",
}, str)  # fmt: skip
_WEEK_S: Final = 604_800
_DAY_S: Final = 86_400
_WIDTH: Final = 96


@dataclass(frozen=True)
class RecipeProposal:
    """A recipe that is proposed for a workload.

    Attributes:
        scenario: Its scenario.
        toml: The recipe.
        plan: Its settings, with the splits and warnings that follow from them.
        suits: Reason against each scenario, "" for one that suits the workload.
        tasks: Tasks of the workload.
        rows_left_out: Rows of the log that are not in the workload, by reason.
        warnings: Limits of the results.
        unread: Whether more than half of the rows of the log could not be used.
    """

    scenario: str
    toml: str
    plan: ScenarioPlan
    suits: Mapping[str, str]
    tasks: int
    rows_left_out: Mapping[str, int]
    warnings: tuple[str, ...]
    unread: bool


def propose_recipe(
    workload: Workload, path: str, name: str, scenario: str = "", time_zone: str = ""
) -> RecipeProposal:
    """Return a proposal for a workload.

    Args:
        workload: The workload.
        path: Its folder, as the recipe names it.
        name: Name from which the recipe's id is made.
        scenario: Scenario to use; by default the first one that suits.
        time_zone: Time zone of the log; by default the one that the log names, else UTC.

    Returns:
        The proposal.

    Raises:
        InputError: If the scenario or the time zone is unknown, or the workload is too small.
    """
    modules = {name: module for name in PROPOSALS if hasattr(module := proposer(name), "plan")}
    if scenario and scenario not in modules:
        raise unknown_name("scenario for a log", scenario, modules)
    if workload.tasks.is_empty():
        raise InputError("the workload has no tasks")
    suits = {candidate: str(module.misfit(workload)) for candidate, module in modules.items()}
    chosen = scenario or next(candidate for candidate, why in suits.items() if not why)
    start = start_of(workload, time_zone)
    plan: ScenarioPlan = modules[chosen].plan(workload, start)
    described = modules[chosen].DESCRIPTION.format(**plan.config)
    text = _toml(plan, chosen, path, name, described)
    parse_recipe(tomllib.loads(text), f"the proposal for {path}")
    found = log_caveats(workload) if chosen == "queue" else of_provenance(workload.provenance)
    trace_caveats = [caveat.text for caveat in found]
    return RecipeProposal(
        scenario=chosen,
        toml=text,
        plan=plan,
        suits=suits,
        tasks=workload.tasks.height,
        rows_left_out=workload.provenance.left_out,
        warnings=(*trace_caveats, *plan.warnings),
        unread=mostly_unread(found),
    )


def second_zero(workload: Workload, time_zone: str = "") -> tuple[datetime | None, str]:
    """Return the moment of second 0 of a workload and its time zone, from the reader's notes.

    The moment is None and the zone "" where the log does not say. An unknown zone is UTC.
    """
    zone = time_zone or workload.provenance.noted.get("TimeZoneString", "")
    try:
        place = ZoneInfo(zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        if time_zone:
            raise InputError(
                f"--time-zone {time_zone!r}: there is no such time zone, expected a name such as "
                "Europe/Berlin"
            ) from error
        zone, place = "", ZoneInfo("UTC")
    unix = workload.provenance.second_zero
    return None if unix is None else datetime.fromtimestamp(unix, UTC).astimezone(place), zone


def start_of(workload: Workload, time_zone: str = "") -> Start:
    """Return the moment of second 0 of a workload, as a recipe has it."""
    moment, zone = second_zero(workload, time_zone)
    if moment is None:
        return Start()
    seconds = moment.weekday() * _DAY_S + moment.hour * 3600 + moment.minute * 60 + moment.second
    unknown = (
        "the time zone of the log is unknown, taken as UTC; give --time-zone for the hour of day"
    )
    return Start(
        clock_s=seconds % _WEEK_S,
        text=f"{moment:%A, %d %B %Y, %H:%M:%S}, {zone or 'UTC'}",
        warning="" if zone else unknown,
    )


def proposer(scenario: str) -> Any:
    """Return the module that proposes recipes of a scenario of PROPOSALS."""
    return import_module(PROPOSALS[scenario])


def _toml(plan: ScenarioPlan, scenario: str, path: str, name: str, described: str) -> str:
    """Return the recipe of a plan."""
    stem = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._") or "log"
    lines = [
        f"id = {_value(f'{stem}-{scenario}')}",
        f"description = {_value(f'{name}: {described}')}",
        f"scenario = {_value(scenario)}",
        'level = "mixed"',
        "seed = 1",
        "",
        "[config]",
    ]
    for key, value in plan.config.items():
        lines += [*_comment(plan, key), _entry(key, value)]
    for key in sorted(plan.comments.keys() - plan.config.keys()):  # settings that a person may add
        lines += _comment(plan, key)
    lines += ["", "[trace]", 'format = "workload"', f"path = {_value(path)}"]
    lines += ["", "# In order of time.", "[split]"]
    lines += [f'{s.name} = "{s.windows.start}..{s.windows.stop - 1}"' for s in plan.splits]
    for behaviour in plan.behaviours:
        lines += ["", "[[behaviours]]", *(_entry(k, v) for k, v in behaviour.items())]
    if plan.splits[0].contended >= NO_CONTENTION:
        lines += ["", "[train]", 'agents = ["trajectory_preference"]', "steps = 2000"]
        lines.append("seeds = [0]")
    lines += ["", "[evaluate]", _entry("policies", plan.policies)]
    lines += [_entry("references", plan.references), "seeds = 3"]
    return "\n".join(lines) + "\n"


def _comment(plan: ScenarioPlan, key: str) -> list[str]:
    """Return the comment on a setting, or nothing."""
    if key not in plan.comments:
        return []
    text = f"{key}: {printable(plan.comments[key])}"
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH - 2)]


def _entry(key: str, value: Any) -> str:
    """Return `key = value`, a long list on several lines."""
    line = f"{key} = {_value(value)}"
    if len(line) <= _WIDTH or not isinstance(value, list | tuple):
        return line
    items = textwrap.wrap(", ".join(map(_value, value)) + ",", _WIDTH - 2, break_on_hyphens=False)
    return "\n".join([f"{key} = [", *(f"  {item}" for item in items), "]"])


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    # TOML is as JSON here; a float has its point or exponent in both.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
