"""`hindcast reproduce`: tables, figures and claims of a paper, published beside measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows import runners
from hindcast.flows.commands import Call, Command, Shown, directly
from hindcast.flows.protocols import PROTOCOLS, Setting, find

_ALL: Final = "all"
_SEEDS: Final = {False: 5, True: 2}  # by whether the run is quick


@dataclass(frozen=True)
class Request:
    """Paper, size of the run, and the folder for everything that it writes."""

    paper: p.Name = p.argument("a paper as listed above, or all", metavar="PAPER")
    out: p.Folder = p.option("folder; every paper has a folder in it", default="reproductions")
    quick: bool = p.option(
        "at most ten minutes per paper on two cores: fewer windows, iterations and seeds",
        default=False,
    )
    seeds: p.Count | None = p.option(
        "training seeds per agent (default 5, or 2 with --quick)", default=None
    )
    workers: p.Workers = p.option(
        "stages that run side by side, each in a process; results do not depend on their number",
        default=1,
    )
    runner: p.Runner = p.runner()
    address: str = p.address()

    def names(self) -> tuple[str, ...]:
        """Return the papers that are reproduced."""
        return tuple(PROTOCOLS) if self.paper == _ALL else (self.paper,)

    def setting(self) -> Setting:
        """Return the size of the run."""
        seeds = self.seeds or _SEEDS[self.quick]
        return Setting(tuple(range(seeds)), self.quick)


def check(request: Request) -> None:
    """Raise InputError for an unknown paper, or a runner that is not installed."""
    runners.check(request)
    for name in request.names():
        find(name)


def run(request: Request, call: Call = directly) -> dict[str, Any]:
    """Run the protocols through `call` and write the pages; finished stages are skipped."""
    from hindcast.flows.runs.reproduce import reproduce
    from hindcast.pipeline.storage.location import location

    pages = reproduce(request.names(), request.setting(), request.out, call, request.workers)
    evidence = location(request.out) / "index.html"
    return {"pages": pages, "evidence": str(evidence) if evidence.is_file() else None}


def show(result: Mapping[str, Any]) -> Shown:
    """Return the paths of the pages."""
    return Shown([*result["pages"], *filter(None, [result["evidence"]])])


COMMANDS: Final = {"reproduce": Command(
    "hindcast reproduce deepjs --quick --out reproductions",
    Request,
    lambda: f"Papers: {', '.join(PROTOCOLS)}.\n\n"
    "A full run is the protocol of the paper and takes hours; it can be interrupted and given\n"
    "again. Every number of its page names the command that made it.",
    recorded="always",
)}  # fmt: skip
