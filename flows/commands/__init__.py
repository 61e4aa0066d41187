"""The commands, one file each: what it takes, what is refused, what it does, what it prints.

    Request           frozen dataclass: every option once, with type, default, limits, texts
    check(request)    raises an InputError for what can be refused before anything starts
    run(request)      does it, by a call into pipeline/ or policies/; returns small JSON values
    show(result)      what is printed: lines for people, or JSON
    COMMANDS          name on the command line -> example, and the request that it makes

Libraries are imported where they are used, so that a command loads no more than it needs.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

# Name -> summary, in the order of `hindcast --help`, which needs no more and so loads no command.
SUMMARIES: Final[Mapping[str, str]] = {
    "traces": "list the known trace formats: where to get them, on which terms, how to cite them",
    "ingest": "turn a raw trace into a workload, and count what was left out",
    "build": "build the dataset of a recipe",
    "verify": "recompute every claim of a dataset's manifest",
    "train": "train an offline agent on a dataset",
    "train-online": "train an online agent: it plays the train windows of a recipe",
    "evaluate": "score policies and checkpoints on windows of a recipe",
    "report": "write one HTML page about evaluations",
    "ope": (
        "estimate from a dataset what policies would earn, beside what they earn in the simulator"
    ),
    "calibrate": "print a scenario's calibration table beside the paper's numbers",
    "export": "write a dataset in the format of another tool",
    "list": "list the datasets, evaluations, checkpoints and runs below folders",
    "show": "show a dataset, or what else `list` lists, in detail",
    "diff": "say what differs between two datasets, from the recipe to the bytes",
    "study": "train agents on several logs of one problem: what does their quality change?",
    "run": "do all of it: build, verify, train, evaluate, report",
}
_MODULES: Final = {"list": "inspect", "show": "inspect", "diff": "inspect"}  # where not the same

Call: TypeAlias = Callable[[Any], dict[str, Any]]  # call(request) runs the command of a request


@dataclass(frozen=True)
class Command:
    """A subcommand: its help, the request that is made of its arguments, and how."""

    example: str
    request: type
    details: str | Callable[[], str] = ""  # a function where plug-ins may add lines
    recorded: bool = False  # by Prefect, unless --direct is given
    more: type | None = None  # a dataclass of arguments that are no fields of the request
    read: Callable[[Any], Any] | None = None  # namespace -> request, where fields are not enough


@dataclass(frozen=True)
class Shown:
    """The output of a command: lines for people, JSON objects (one a line), and an exit code.

    `rows` is None where the result is the one object.
    """

    lines: list[str]
    rows: list[dict[str, Any]] | None = None
    code: int = 0


def listed(title: str, things: Mapping[str, Any], width: int = 22) -> str:
    """Return what a registry knows, one thing a line."""
    rows = (f"  {thing.name:<{width}}{thing.description}" for thing in things.values())
    return "\n".join([f"{title}:", *rows])


def find(name: str) -> Any:
    """Return the module of the command of that name."""
    return importlib.import_module(f"{__name__}.{_MODULES.get(name, name.replace('-', '_'))}")


def module_of(request: Any) -> Any:
    """Return the module whose `check`, `run` and `show` are for this request."""
    return sys.modules[type(request).__module__]


def name_of(request: Any) -> str:
    """Return the name of a request's task and flow, which is that of its module."""
    return type(request).__module__.rpartition(".")[2]


def directly(request: Any) -> dict[str, Any]:
    """Run the command of a request here and now."""
    result: dict[str, Any] = module_of(request).run(request)
    return result


def refuse_nothing(_request: Any) -> None:
    """Check nothing: what is wrong is found at once when the command runs."""
