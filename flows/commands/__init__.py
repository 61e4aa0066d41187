"""Commands, one file each: options, checks, the work, and the output.

    Request           frozen dataclass: every option once, with type, default, limits and text
    check(request)    raises an InputError for errors that can be found before the work starts
    run(request)      does the work, by calls into pipeline/ or policies/; returns small JSON values
    show(result)      returns the output: lines for people, or JSON
    COMMANDS          name on the command line -> example, and the request that it makes

Libraries are imported where they are used, so that a command loads only the libraries it needs.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.plugins import Registry, import_module

# Group -> name -> summary, in the order of `hindcast --help`, which therefore loads no command.
GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "your log": {
        "whatif": "one page: a log's own scheduler beside other policies, and what can be "
        "concluded",
        "view": "one page: a schedule, or two on one time axis; or the episodes of a dataset",
        "ingest": "convert a raw trace to a workload, or a log of decisions to a dataset, and "
        "count the rows that were left out",
        "grid": "print what anybody could save at most by waiting, on hours of an electric grid",
        "schedule": "write when and where every job runs under a policy, as a table",
        "why": "say why a job of a schedule started when it did",
        "init": "look at a table of jobs, a log of decisions or a workload, and propose a mapping "
        "or a recipe",
        "pack": "count the nodes that a list of pods needs, and the pods that rules refuse, also "
        "with further nodes",
        "behaviour": "model the choices of a log's scheduler, and estimate propensities",
        "traces": "list the known trace formats with their sources, terms of use and citations",
    },
    "datasets": {
        "build": "build the dataset of a recipe",
        "list": "list outputs below folders, or known recipes, policies, agents, estimators and "
        "keys",
        "filter": "write the episodes of a dataset that meet conditions as a dataset",
        "merge": "write several datasets of one problem as one dataset",
        "split": "write the train, validation and test episodes of a dataset as one dataset each",
        "show": "show a dataset, or anything else that `list` lists, in detail",
        "verify": "recompute every claim of a dataset's manifest",
        "export": "write a dataset in the format of another tool",
        "push": "publish a verified dataset: an upload folder, or a repository of the Hugging Face "
        "Hub",
        "diff": "print the differences between two datasets, from the recipe to the bytes",
        "new-scenario": "write a small scheduling problem as a package, to change into your own",
    },
    "learning": {
        "run": "build, verify, train, evaluate and report, all in one command",
        "train": "train an offline agent on a dataset",
        "plan": "write what will be scored and compared, before test windows are read",
        "evaluate": "score policies and checkpoints on windows of a recipe",
        "compare": "find the first decision at which two policies differ, and the costliest",
        "report": "write one HTML page about evaluations",
        "submit": "pack an evaluation with plan and policies into one file for others to check",
        "check-submission": "score a submission again, and say what in it does not hold",
        "train-online": "train an online agent, which plays the train windows of a recipe",
        "ope": "estimate the returns of policies from a dataset or a log of decisions; say which "
        "policies the data cannot answer for",
        "study": "train agents on several logs of one problem, to compare what the quality of a "
        "log does",
        "reproduce": "run the protocol of a paper, and put its numbers beside what was measured",
        "calibrate": "print a scenario's calibration table beside the paper's numbers",
    },
    "operating": {
        "start": "forecast when the waiting jobs of a machine will start, with intervals",
        "decide": "choose the jobs that a real machine should start now, with the reasons",
        "nightly": "`run` for the trace of one day, in a folder named by date and digest",
        "watch": "show what the commands that write below a folder are doing",
        "doctor": "check the installation, the machine and folders, and say how to mend what is "
        "wrong",
    },
}
SUMMARIES: Final[Mapping[str, str]] = {
    name: summary for group in GROUPS.values() for name, summary in group.items()
}
# What `hindcast` alone shows: the commands that most people need, each with a command line.
FIRST: Final[Mapping[str, str]] = {
    "whatif": "hindcast whatif KTH-SP2-1996-2.swf.gz",
    "run": "hindcast run binpack-synthetic-v1 --out demo",
    "build": "hindcast build binpack-synthetic-v1 --out demo/dataset",
    "evaluate": "hindcast evaluate binpack-synthetic-v1 --policy tetris --out demo/evaluation",
    "decide": "hindcast decide saf_easy state.json",
}
_MODULES: Final = {
    "behaviour": "logs.behaviour",
    "compare": "schedules.compare",
    "decide": "logs.decide",
    "filter": "publish.selection",
    "grid": "logs.grid",
    "merge": "publish.selection",
    "pack": "logs.pack",
    "schedule": "schedules.schedule",
    "split": "publish.selection",
    "start": "logs.start",
    "traces": "logs.traces",
    "whatif": "logs.whatif",
    "why": "schedules.why",
    "list": "inspect",
    "show": "inspect",
    "diff": "inspect",
    "plan": "evaluate",
    "submit": "publish.submit",
    "check-submission": "publish.submit",
    "push": "publish.push",
    "view": "schedules.view",
}  # names that differ from the module's


class Added(NamedTuple):
    """Command of a plug-in: the dotted name of its module, and its summary."""

    module: str
    summary: str


ADDED: Final = Registry[Added]("commands", {}, Added)

Call: TypeAlias = Callable[[Any], dict[str, Any]]  # call(request) runs the command of a request


@dataclass(frozen=True)
class Command:
    """Subcommand of the command line.

    Attributes:
        example: A valid command line, for the help.
        request: Dataclass of its options.
        details: More text for the help; a function if plug-ins may add lines.
        recorded: When Prefect records its runs: "" never, "asked" with --record or a server in
            PREFECT_API_URL, "always" unless --direct is given.
        more: Dataclass of arguments that are not fields of the request.
        read: Function that makes the request from the namespace, if the fields are not enough.
    """

    example: str
    request: type
    details: str | Callable[[], str] = ""
    recorded: Literal["", "asked", "always"] = ""
    more: type | None = None
    read: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Shown:
    """Output of a command.

    Attributes:
        lines: Lines for people.
        rows: JSON objects for --json, one per line; None if the result is the only object.
        code: Exit code.
        warnings: Lines for stderr, each printed behind `warning:`.
    """

    lines: list[str]
    rows: list[dict[str, Any]] | None = None
    code: int = 0
    warnings: list[str] = field(default_factory=list)


def cautions_in(result: Mapping[str, Any]) -> list[str]:
    """Return a line for each caution of a result, to stand above what it is about."""
    return [f"caution: {text}" for text in caveats_of(result, "cautions")]


def caveats_of(result: Mapping[str, Any], key: str = "caveats") -> list[str]:
    """Return the texts of a result's caveats; results of older versions have none."""
    caveats = result.get(key)
    caveat_list = caveats if isinstance(caveats, list) else []
    return [str(c["text"]) for c in caveat_list if isinstance(c, dict) and "text" in c]


def listed(title: str, entries: Mapping[str, Any], width: int = 22) -> str:
    """Return the entries of a registry with their descriptions, one per line."""
    rows = (f"  {entry.name:<{width}}{entry.description}" for entry in entries.values())
    return "\n".join([f"{title}:", *rows])


def summary_of(name: str) -> str:
    """Return the summary of a command. Raises UnknownName."""
    if name in SUMMARIES:
        return SUMMARIES[name]
    if name not in ADDED:
        raise unknown_name("command", name, [*SUMMARIES, *ADDED])
    return ADDED[name].summary


def find(name: str) -> Any:
    """Return the module of the command of that name."""
    if name not in SUMMARIES:
        module = import_module(ADDED[name].module)
        if name not in getattr(module, "COMMANDS", {}):
            raise InputError(f"command {name!r}: {module.__name__}.COMMANDS has no such name")
        return module
    return importlib.import_module(f"{__name__}.{_MODULES.get(name, name.replace('-', '_'))}")


def module_of(request: Any) -> Any:
    """Return the module whose `check`, `run` and `show` are for this request."""
    return sys.modules[type(request).__module__]


def name_of(request: Any) -> str:
    """Return the name of a request's task and flow, which is the name of its module."""
    return type(request).__module__.rpartition(".")[2]


def directly(request: Any) -> dict[str, Any]:
    """Run the command of a request in this process, without Prefect."""
    result: dict[str, Any] = module_of(request).run(request)
    return result


def refuse_nothing(_request: Any) -> None:
    """Accept every request, since the command finds errors as soon as it runs."""
