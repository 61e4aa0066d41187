"""Protocols of papers, one file each: the commands that are run, and what is read from them.

    TITLE                       title of the page
    SOURCE                      authors, title, venue and year of the paper
    stages(setting)             the commands, in order
    results(place, setting)     tables, figures and claims, from what the commands wrote

A stage is a command line of Hindcast, so every number of a page can be made again by hand. A full
protocol is the paper's own; a quick one has fewer windows, iterations and seeds, and says so.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hindcast.pipeline.errors import unknown_name

OUT: Final = "{out}"  # in the words of a stage: the folder of the reproduction

# Name on the command line -> module
PAPERS: Final[Mapping[str, str]] = {
    "deepjs": "deepjs",
    "osdec": "osdec",
    "thermal": "thermal",
    "timecritical": "timecritical",
    "deeprm": "deeprm",
    "rlscheduler": "rlscheduler",
}


@dataclass(frozen=True)
class Setting:
    """Size of a reproduction.

    Attributes:
        seeds: Training seeds.
        quick: Whether the protocol is cut down to minutes.
    """

    seeds: tuple[int, ...]
    quick: bool = False


@dataclass(frozen=True)
class Stage:
    """One command of a protocol.

    Attributes:
        name: Name of the stage, unique in its protocol.
        words: The command line without `hindcast` and `--workers`, on which results do not depend.
            `{out}` stands for the folder of the reproduction; the stage writes to its `--out`.
        output: File below that folder which the command writes last.
        minutes: About how long it takes on two cores.
    """

    name: str
    words: tuple[str, ...]
    output: str
    minutes: float


def find(name: str) -> Any:
    """Return the module of a paper. Raises InputError for an unknown name."""
    if name not in PAPERS:
        raise unknown_name("paper", name, [*PAPERS, "all"])
    return importlib.import_module(f"{__name__}.{PAPERS[name]}")
