"""`hindcast why`: why a job of a schedule started when it did."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown, refuse_nothing
from hindcast.pipeline.storage.location import location


@dataclass(frozen=True)
class Request:
    """Schedule, and one of its jobs."""

    schedule: p.Folder = p.argument(
        "schedule that `hindcast schedule` or `hindcast whatif` wrote", metavar="FILE.parquet"
    )
    job: p.Name = p.argument("job as the log calls it, or its number in the file", metavar="JOB")


check = refuse_nothing


def run(request: Request) -> dict[str, Any]:
    """Return the reasons, counted in the schedule."""
    from hindcast.pipeline.schedules.reasons import why
    from hindcast.pipeline.schedules.schedule import read_schedule

    schedule = read_schedule(location(request.schedule))
    return {"policy": schedule.facts["policy"], **why(schedule, request.job).to_json()}


def show(result: Mapping[str, Any]) -> Shown:
    """Return the reasons in sentences."""
    return Shown([f"under {result['policy']}:", *(f"  {one}" for one in result["sentences"])])


COMMANDS: Final = {"why": Command(
    "hindcast why saf.parquet 7112",
    Request,
    "For a job that waits now, see --why of `hindcast decide`.",
)}  # fmt: skip
