"""`hindcast nightly`: a whole run on the trace of one day, in a folder named by date and digest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from hindcast.flows import parser as p
from hindcast.flows import runners
from hindcast.flows.commands import Command, Shown
from hindcast.flows.commands import run as whole_run

# Unlike p.Folder, this keeps {date} until the date of the night is known.
Trace = Annotated[str, p.Bounds("PATH", min_length=1)]
Day = Annotated[str, p.Bounds("YYYY-MM-DD", pattern=r"^\d{4}-\d{2}-\d{2}$")]


@dataclass(frozen=True)
class Request:
    """Recipe, the trace of the day, and the folder for the folders of all nights."""

    recipe: p.Name = p.recipe()
    out: p.Folder = p.option(
        "folder for a folder DATE-DIGEST per night, with all that `run` writes"
    )
    trace: Trace | None = p.option(
        "trace of the day, in place of the recipe's trace.path; {date} in it is the date of the "
        "night", default=None)  # fmt: skip
    date: Day | None = p.option(
        "date of the night (default: today in UTC, on a Prefect server that of the run's scheduled "
        "start)", default=None)  # fmt: skip
    policies: tuple[p.Name, ...] = p.more_policies()
    overrides: tuple[p.Override, ...] = p.overrides()
    workers: p.Workers = p.workers()
    command: str = p.hidden("command line that is kept in evaluation.json", "")
    runner: p.Runner = p.runner()
    address: str = p.address()


def check(request: Request) -> None:
    """Raise InputError if the date, the trace or the recipe is not valid."""
    runners.check(request)
    from hindcast.flows.runs.nightly import night_of

    whole_run.check(night_of(request).stages)


def run(request: Request) -> dict[str, Any]:
    """Run all stages of the night that are not finished yet."""
    from hindcast.flows.runs.nightly import run_night

    return run_night(request)


def show(result: Mapping[str, Any]) -> Shown:
    """Return the output of each stage, and last the path of the report."""
    return whole_run.show(result)


COMMANDS: Final = {"nightly": Command(
    "hindcast nightly my-cluster.toml --trace logs/{date}.swf --out nights",
    Request,
    "The folder is OUT/DATE-DIGEST. The digest is of the recipe and the content of the trace: a\n"
    "changed log of the same day gets another folder, and nothing is overwritten. Given again, it\n"
    "continues where it stopped; after midnight, give --date as well.",
    recorded="always",
)}  # fmt: skip
