"""One night: a recipe on the trace of one day, in a folder of its own.

    OUT/<date>-<digest>/    what `hindcast run` writes, see hindcast.flows.runs.stages

The digest is of the recipe, whose settings include the path of the trace, and of the content of the
trace. So two nights never share a folder, unless they would make the same bytes.
"""

import json
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from hindcast.flows.commands import Call, directly
from hindcast.flows.commands import run as whole_run
from hindcast.flows.parser import DATE
from hindcast.flows.progress import note
from hindcast.flows.runs.stages import run_stages
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import check_trace, opens_trace, trace_path
from hindcast.pipeline.storage.files import sha256_file, sha256_text
from hindcast.pipeline.storage.location import location

_DIGITS: Final = 12  # of the digest, in the name of the folder


@dataclass(frozen=True)
class Night:
    """Date and digest of a night, and the request of its stages."""

    date: str
    digest: str
    stages: whole_run.Request


def run_night(request: Any, call: Call = directly) -> dict[str, Any]:
    """Run all stages of a request of `hindcast nightly`, each through `call`.

    Returns the date, the digest and the folder beside the results of `run_stages`. Raises
    InputError for a date that is none, TraceError if the trace is missing, and RecipeError if a
    trace is given to a recipe that reads none.
    """
    night = night_of(request)
    note(f"night of {night.date}: {night.stages.out}")
    result = run_stages(night.stages, call)
    about = {"date": night.date, "digest": night.digest, "folder": night.stages.out}
    return {**about, **result}


def night_of(request: Any) -> Night:
    """Return the night of a request; the trace is read for its digest."""
    day = _day(request.date)
    trace = None if request.trace is None else str(location(request.trace.replace(DATE, day)))
    stages = whole_run.Request(
        request.recipe, request.out, request.overrides, request.workers, request.command, trace,
        request.policies,
    )  # fmt: skip
    recipe = load_recipe(request.recipe, stages.settings())
    check_trace(recipe, trace)
    parts = {"recipe": recipe.digest}
    if opens_trace(recipe):
        parts["trace"] = _content(trace_path(recipe))
    digest = sha256_text(json.dumps(parts, sort_keys=True))[:_DIGITS]
    folder = location(request.out) / f"{day}-{digest}"
    return Night(day, digest, replace(stages, out=str(folder)))


def _day(given: str | None) -> str:
    if given is None:
        return datetime.now(UTC).date().isoformat()
    try:
        return date.fromisoformat(given).isoformat()
    except ValueError as error:
        raise InputError(f"--date {given}: expected a date such as 2026-11-22") from error


def _content(trace: Path) -> str:
    """Return the SHA-256 of a file, or of the names and digests of the files of a folder."""
    if trace.is_file():
        return sha256_file(trace)
    files = sorted((p for p in trace.glob("**/*") if p.is_file()), key=str)
    listed = {str(p.relative_to(trace)): sha256_file(p) for p in files}
    return sha256_text(json.dumps(listed, sort_keys=True))
