"""Protocols of papers: the commands that `hindcast reproduce` runs, and the pages made from them.

A stage is a command line of Hindcast, so every number of a page can be made again by hand. A full
protocol is the paper's own; a quick one has fewer windows, iterations and seeds, and says so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.errors import unknown_name
from hindcast.pipeline.plugins import Registry

OUT: Final = "{out}"  # in the words of a stage: the folder of the reproduction


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


@dataclass(frozen=True)
class Protocol:
    """Commands that measure the numbers of a paper again, and the page made from them.

    Attributes:
        title: Title of the page.
        source: Authors, title, venue and year of the paper.
        stages: Function that returns the commands of a setting, in order.
        publish: Function (folder of the reproduction, setting, what ran) that writes the page and
            returns it. It may write index.html beside the folder, about all papers there. It raises
            DatasetError for a file that is missing or does not fit.
    """

    title: str
    source: str
    stages: Callable[[Setting], tuple[Stage, ...]]
    publish: Callable[[Path, Setting, dict[str, Any]], Path]


PROTOCOLS: Final = Registry[Protocol]("protocols", {})


def find(name: str) -> Protocol:
    """Return the protocol of a paper. Raises UnknownName."""
    if name not in PROTOCOLS:
        raise unknown_name("paper", name, [*PROTOCOLS, "all"])
    return PROTOCOLS[name]
