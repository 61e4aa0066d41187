"""`hindcast whatif`: a log's own scheduler beside rules and agents, on one page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown
from hindcast.pipeline.storage.extras import require
from hindcast.pipeline.storage.location import location


@dataclass(frozen=True)
class Request:
    """Log, policies beside the usual ones, and the folder for the page."""

    log: p.Folder = p.argument(
        "log of a batch system, mapping of a table (.toml), or ingested workload",
        metavar="LOG",
    )
    out: p.Folder = p.option(
        "folder for whatif.html, its numbers, recipes and evaluations (default: whatif-NAME of the "
        "log)",
        default="",
    )
    policies: tuple[p.Name, ...] = p.option(
        "policies, or folders of checkpoints, beside the usual rules; may be repeated",
        default=(), flag="--policy", action="extend", metavar="POLICY",
    )  # fmt: skip
    without_rules: tuple[p.Name, ...] = p.option(
        "usual rules to leave out; may be repeated", default=(), flag="--without-rule",
        action="extend", metavar="RULE",
    )  # fmt: skip
    only_rules: tuple[p.Name, ...] = p.option(
        "the usual rules to keep; may be repeated", default=(), flag="--only-rule",
        action="extend", metavar="RULE",
    )  # fmt: skip
    mine: p.Name | None = p.option(
        "your scheduler: a slurm.conf, lines of PBS with job_sort_formula, or FILE.py:function",
        default=None, metavar="FILE",
    )  # fmt: skip
    changes: tuple[p.Override, ...] = p.option(
        "changed world, such as processors=+10%%, gpus=+4, limit=24h, refuse=24h, requests=exact, "
        "depth=50 or reservations=all; A,B for both in one; may be repeated",
        default=(), flag="--change", action="append", metavar="CHANGE",
    )  # fmt: skip
    shake: p.Draws | None = p.option(
        "draws in which submissions are moved by up to a minute (default: 20, fewer for a long "
        "log)",
        default=None,
    )  # fmt: skip
    pools: p.Name | None = p.option(
        "processors of the partitions, such as batch=64,debug=16; A+B=64 share theirs",
        default=None, metavar="NAME=N,...",
    )  # fmt: skip
    capacity: tuple[p.Name, ...] = p.option(
        "what the machine has beside processors: gpus=20, gpus:a100=8 or memory=160GiB; with "
        "--pools batch:gpus=8 of a pool; may be repeated",
        default=(), action="append", metavar="RESOURCE=N",
    )  # fmt: skip
    where: tuple[p.Name, ...] = p.option(
        "partition=NAME selects the jobs that are played; user=, queue= or account= those that are "
        "counted; FROM..TO the part of the log that is the run; may be repeated",
        default=(), action="append", metavar="WHAT",
    )  # fmt: skip
    without: tuple[p.Name, ...] = p.option(
        "time in which the machine was closed, FROM..TO, for the grade; may be repeated",
        default=(), action="append", metavar="FROM..TO",
    )  # fmt: skip
    train: bool = p.option(
        "train agents on the first part of the log, which takes minutes", default=False
    )
    iterations: p.Count | None = p.option(
        "generations of each training (default: 14)", default=None
    )
    format: p.Name | None = p.option(
        "format of the log (default: recognised by its first lines)", default=None, metavar="FORMAT"
    )
    grid: str = p.option(
        "hours of an electric grid: what would starting later have saved? A file, a folder that "
        "`ingest series` wrote, or synthetic",
        default="", metavar="SERIES",
    )  # fmt: skip
    zone: str = p.option("with --grid, the zone (default: the only one)", default="")
    slack: str = p.option(
        "with --grid, hours by which a start may be later: of jobs below 2 h, and of others",
        default="6,24", metavar="H,H",
    )  # fmt: skip
    settings: tuple[p.Override, ...] = p.option(
        "setting of the format's reader (TOML), such as processors=1024; may be repeated",
        default=(), flag="--set", action="append", metavar="KEY=VALUE",
    )  # fmt: skip
    workers: p.Workers = p.workers()
    command: str = p.hidden("command line that is kept on the page", "")


def check(request: Request) -> None:
    """Raise InputError if the log, its format, its settings or a policy cannot be used."""
    from hindcast.pipeline.errors import InputError
    from hindcast.pipeline.storage.location import is_remote
    from hindcast.pipeline.traces.first_look import no_such_file

    for place in (request.log, request.out):
        if is_remote(location(place)):
            raise InputError(f"{place}: expected a place on this machine, not in an object store")
    if not location(request.log).exists():
        no_such_file(location(request.log), "a log of jobs")
    if request.iterations is not None and not request.train:
        raise InputError("whatif: --iterations is for --train")
    if request.train:
        require("whatif --train", "torch")
    if request.grid:
        from hindcast.flows.commands.logs.grid import check_log

        check_log(request)
        return
    if request.zone:
        raise InputError("whatif: --zone is for --grid")
    from hindcast.flows.runs.whatif import check_request, source_of  # compiles the simulators

    source_of(request)
    check_request(request)


def run(request: Request) -> dict[str, Any]:
    """Play the log with its own scheduler and with other policies, and write the page."""
    if request.grid:
        from hindcast.flows.commands.logs.grid import run_log

        return run_log(request)
    from hindcast.flows.runs.whatif import run_whatif

    return run_whatif(request)


def show(result: Mapping[str, Any]) -> Shown:
    """Return the conclusion, and last the path of the page."""
    lines = [*result["lines"], result["page"]]
    return Shown(lines, warnings=result["warnings"], code=int(result["unread"]))


COMMANDS: Final = {"whatif": Command(
    "hindcast whatif KTH-SP2-1996-2.swf.gz --policy f2_easy --train --out kth",
    Request,
    "The same command, given again, continues. The last line of the output is the path of the\n"
    "page. The usual rules are fcfs_easy, sjf_easy, saf_easy, lxf_easy, wfp3_easy, unicef_easy,\n"
    "aged_area_easy, aged_expected_easy, wsept_easy, steady_area_easy and conservative; and,\n"
    "marked as knowing run times, saf_clairvoyant and lxf_clairvoyant. Beside the page are\n"
    "whatif.json, whatif.csv, groups.csv, jobs/POLICY.parquet and, where there is something to\n"
    "write, changes.csv, shake.csv and advice.csv.",
)}  # fmt: skip
