"""Description of a log of decisions: the values of its records and the columns of its learners.

It lies in the checkpoints that were trained on the log, so that they need no dataset to decide.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hindcast.pipeline.dataset.manifest import Manifest
from hindcast.pipeline.decisions.encoding import CONSTANT, NUMBER, REST
from hindcast.pipeline.decisions.log import MOST_LEVELS
from hindcast.pipeline.decisions.mapping import DecisionMapping, parse_mapping
from hindcast.pipeline.errors import DatasetError, InputError, RecipeError
from hindcast.pipeline.scenarios.decisions import IDENTIFIER, NAME

LOG: Final = "log"  # key of a checkpoint's training: the description of its log
SIDES: Final = ("context", "candidates")
VOWPAL: Final = ("dsjson", "cb_adf")  # an absent number is 0 there
_NAN: Final = float("nan")

Fill = Callable[[Mapping[str, Any]], float]  # the values of an owner -> a number of its row


@dataclass(frozen=True)
class Description:
    """Names of a log of decisions, as its learners and its records have them.

    Attributes:
        mapping: The mapping of the log.
        kinds: Kind of each feature by its name, of "context" and "candidates".
        levels: Levels of each category that have a column, by "context.NAME" or "candidates.NAME".
    """

    mapping: DecisionMapping
    kinds: Mapping[str, Mapping[str, str]]
    levels: Mapping[str, Sequence[str]]

    def as_table(self) -> dict[str, Any]:
        """Return the description as JSON."""
        return {
            "mapping": self.mapping.as_table(),
            "kinds": {side: dict(self.kinds[side]) for side in SIDES},
            "levels": {name: list(levels) for name, levels in self.levels.items()},
        }

    def numbers(self, side: str) -> list[str]:
        """Return the names of the numbers."""
        return [n for n, kind in self.kinds[side].items() if kind == NUMBER]

    def categories(self, side: str) -> list[str]:
        """Return the names of the categories."""
        return [n for n in self.kinds[side] if f"{side}.{n}" in self.levels]

    def fills(self, side: str) -> list[Fill]:
        """Return the function of each column of a row, see hindcast.pipeline.decisions.encoding."""
        kinds, made = self.kinds[side], dict[str, Fill]()
        alone = [*kinds] == [CONSTANT]
        for name in self.numbers(side):
            made[name] = _number(name, 1.0 if alone else self.absent)
            made[f"{name}_missing"] = _missing(name, self.absent)
        for name in self.categories(side):
            levels = self.levels[f"{side}.{name}"]
            made |= {f"{name}={level}": _level(name, level) for level in levels}
            made[f"{name}={REST}"] = _rest(name, frozenset(levels))
        code = _number("", -1.0)  # learners do not read what stands for names
        return [code if kind == IDENTIFIER else made[name] for name, kind in kinds.items()]

    @property
    def absent(self) -> float:
        """The value of a number that a record lacks."""
        return 0.0 if self.mapping.shape in VOWPAL else _NAN


def _number(name: str, absent: float) -> Fill:
    return lambda values: values.get(name, absent)


def _missing(name: str, absent: float) -> Fill:
    return lambda values: float(np.isnan(values.get(name, absent)))


def _level(name: str, level: str) -> Fill:
    return lambda values: float(values.get(name) == level)


def _rest(name: str, known: frozenset[str]) -> Fill:
    return lambda values: float(name in values and values[name] not in known)


def description_of(manifest: Manifest) -> Description:
    """Return the description of the log of a dataset."""
    if manifest.spec.scenario != NAME:
        raise InputError(
            f"{manifest.name}: this is no log of decisions, expected a dataset of `hindcast ingest "
            "decisions`"
        )
    config, lineage = manifest.recipe.config, manifest.provenance
    levels = {name: [*counted][:MOST_LEVELS] for name, counted in lineage["vocabulary"].items()}
    mapping = parse_mapping(lineage["mapping"], "provenance.mapping")
    return Description(
        mapping, {"context": config.context, "candidates": config.candidates}, levels
    )


def read_description(table: Any, where: str) -> Description:
    """Return the description of a table; raise DatasetError, which begins with `where`."""
    try:
        kinds = {side: {str(k): str(v) for k, v in table["kinds"][side].items()} for side in SIDES}
        levels = {str(k): [str(level) for level in v] for k, v in table["levels"].items()}
        found = Description(parse_mapping(table["mapping"], where), kinds, levels)
        for side in SIDES:
            found.fills(side)
    except (KeyError, TypeError, AttributeError, RecipeError) as error:
        raise DatasetError(f"{where}: this is no description of a log ({error})") from error
    return found
