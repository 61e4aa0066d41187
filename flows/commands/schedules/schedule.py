"""`hindcast schedule`: when and where every job of a window runs under a policy, as a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.storage.location import location


@dataclass(frozen=True)
class Request:
    """Window of a recipe or run of a log, the policy that plays it, and the file to write."""

    source: p.Name = p.argument(
        "recipe as for `hindcast evaluate`, or log of a batch system as for `hindcast whatif`",
        metavar="RECIPE|LOG",
    )
    policy: p.Name = p.option(
        "policy that plays: a rule, or of a recipe the folder of a checkpoint; of a log also "
        "`recorded`, what its scheduler did", metavar="POLICY",
    )  # fmt: skip
    out: p.Folder = p.option("file to write", metavar="FILE.parquet")
    window: Annotated[int, p.Bounds("K", ge=0)] | None = p.option(
        "number of the window of a recipe (default: the first of its test split)", default=None
    )
    play: Annotated[int, p.Bounds("N", ge=0)] = p.option(
        "number of the play of a policy that draws, as `seed` in scores.parquet", default=0
    )
    overrides: tuple[p.Override, ...] = p.option(
        "value of the recipe, or setting of the log's reader (TOML); may be repeated", default=(),
        flag="--set", action="append",
    )  # fmt: skip
    trace: p.Folder | None = p.trace()
    format: p.Name | None = p.option(
        "format of the log (default: recognised by its first lines)", default=None, metavar="FORMAT"
    )


def check(request: Request) -> None:
    """Raise InputError for a source, policy or window that cannot be played."""
    from hindcast.flows.runs.schedules import check_source

    if not request.out.endswith(".parquet"):
        raise InputError(f"--out {request.out}: expected a name that ends in .parquet")
    check_source(request)


def run(request: Request) -> dict[str, Any]:
    """Play the window or the run under the policy, and write its schedule."""
    from hindcast.flows.runs.schedules import make
    from hindcast.pipeline.schedules.schedule import write_schedule

    schedule = make(request)
    write_schedule(schedule, location(request.out))
    counted = schedule.jobs.filter("counted")
    return {
        "schedule": request.out,
        "facts": dict(schedule.facts),
        "rows": schedule.jobs.height,
        "counted": counted.height,
        "started": schedule.jobs["start_s"].count(),
        "mean_wait": counted["wait_s"].mean(),
        "mean_bounded_slowdown": counted["bounded_slowdown"].mean(),
    }


def show(result: Mapping[str, Any]) -> Shown:
    """Return the file, the jobs in it, and their mean wait."""
    from hindcast.pipeline.schedules.sentences import moment

    facts = result["facts"]
    source = facts["source"].get("recipe", facts["source"].get("log"))
    window = "" if facts["window"] is None else f", window {facts['window']}"
    begin, end = (moment(facts[name], facts) for name in ("from_s", "to_s"))
    rows, started, counted = (f"{result[name]:,}" for name in ("rows", "started", "counted"))
    lines = [
        f"{result['schedule']}: {facts['policy']} on {source}{window}",
        f"  {rows} rows, {started} with a start, {counted} counted; {begin} to {end}",
    ]
    if result["mean_wait"] is not None:
        lines.append(
            f"  mean wait {result['mean_wait']:,.1f} {facts['clock']}, mean bounded slowdown "
            f"{result['mean_bounded_slowdown']:,.2f}"
        )
    return Shown(lines)


COMMANDS: Final = {"schedule": Command(
    "hindcast schedule queue-lublin1-v1 --policy saf_easy --out saf.parquet",
    Request,
    "Of a log, the run is the last 30 % of its jobs, as of `hindcast whatif`, whose jobs/ holds\n"
    "this file for every policy. The columns are in the page 'Schedules' of the documentation.",
)}  # fmt: skip
