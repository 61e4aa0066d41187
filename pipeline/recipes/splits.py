"""Splits: the windows of a workload for training, for validation, and for the test."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from hindcast.pipeline.errors import RecipeError, did_you_mean
from hindcast.pipeline.settings.ranges import shown

SPLITS: Final = ("train", "validation", "test")
MOST_WINDOWS: Final = 10_000_000  # of all splits
MOST_MEASURED: Final = 50  # windows of which something is measured; more are sampled evenly
_RANGE: Final = re.compile(r"^(\d{1,15})\.\.(\d{1,15})$")


def read_split(value: Any, where: str) -> dict[str, range]:
    """Return windows by split, from a table like train = "0..179"; raise RecipeError for others."""
    if not isinstance(value, Mapping) or not value:
        raise RecipeError(f'{where}: [split] is empty, expected windows such as test = "200..519"')
    split: dict[str, range] = {}
    for name, text in value.items():
        if name not in SPLITS:
            raise RecipeError(f"{where}: unknown key split.{name}; {did_you_mean(name, SPLITS)}")
        match = _RANGE.match(text) if isinstance(text, str) else None
        if match is None or int(match[1]) > int(match[2]):
            raise RecipeError(
                f'{where}: split.{name} is {shown(text)}, expected "first..last", both included'
            )
        split[name] = range(int(match[1]), int(match[2]) + 1)
    if (windows := sum(len(r) for r in split.values())) > MOST_WINDOWS:
        raise RecipeError(
            f"{where}: [split] has {windows:,} windows, expected at most {MOST_WINDOWS:,}"
        )
    for (first_name, first), (second_name, second) in itertools.combinations(split.items(), 2):
        if first.start < second.stop and second.start < first.stop:
            raise RecipeError(
                f"{where}: split.{first_name} and split.{second_name} share windows, expected each "
                "in one split"
            )
    return split


def sample(windows: Iterable[int], most: int = MOST_MEASURED) -> list[int]:
    """Return at most `most` of the windows, evenly spaced and in their order."""
    return evenly_spaced(sorted(set(windows)), most)


def evenly_spaced(windows: Sequence[int], most: int) -> list[int]:
    """Return at most `most` of the windows, in their order, with the first and the last."""
    if len(windows) <= most:
        return list(windows)
    return [windows[i] for i in np.linspace(0, len(windows) - 1, most).astype(np.int64)]
