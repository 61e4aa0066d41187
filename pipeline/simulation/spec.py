"""Specs: the named features, reward terms and outcomes of a scenario, with units and ranges.

Descriptions take no part in comparisons, so that a better text does not make older datasets differ.
"""

from collections import namedtuple
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from hindcast.pipeline.errors import unknown_name

MOST_PIXELS: Final = 1 << 20  # in an image


@dataclass(frozen=True)
class Feature:
    """One number of an observation.

    Attributes:
        name: Name of the feature, unique among the features of the moment or of the candidates.
        unit: Unit, such as "cores", "s" or "1".
        low: Smallest possible value.
        high: Largest possible value; may be infinite.
        description: Meaning of the feature. Features that differ only in it are equal.
        heavy_tailed: Whether values span decades, as durations do. Learners take their logarithm.
        identifier: Whether the number names a machine or a job. Identifiers are stored and shown
            to heuristics, but learned scorers leave them out, so that results do not depend on
            numbering.
        scale: Typical magnitude, which makes features comparable before anything is learned.
    """

    name: str
    unit: str
    low: float
    high: float
    description: str = field(compare=False)
    heavy_tailed: bool = False
    identifier: bool = False
    scale: float = 1.0


@dataclass(frozen=True)
class Outcome:
    """One number that describes a whole episode, such as a makespan or energy.

    Attributes:
        name: Name of the outcome, unique within a scenario.
        unit: Unit, such as "s" or "jobs".
        description: Meaning of the outcome. Outcomes that differ only in it are equal.
        better: "lower", "higher", or "neither" for an outcome that is no measure of quality.
    """

    name: str
    unit: str
    description: str = field(compare=False)
    better: Literal["lower", "higher", "neither"] = "lower"


def columns(items: Iterable[Feature | Outcome | str]) -> Any:
    """Return a named tuple of the indices of features, outcomes or reward terms.

    Compiled code treats a module's tuple as a constant: with `ROW = columns(CANDIDATES)`,
    `candidates[i, ROW.cores]` costs nothing, and a name that does not exist fails to compile.
    """
    names = [item if isinstance(item, str) else item.name for item in items]
    return namedtuple("Columns", names)(*range(len(names)))  # noqa: PYI024 - NamedTuple wants the names in the source


@dataclass(frozen=True)
class Spec:
    """All names of a scenario under given settings: observations, rewards and outcomes.

    Attributes:
        scenario: Name of the scenario.
        objective: Name of the objective, which defines the reward.
        context: C features of the moment.
        candidates: F features of each choice. The number N of choices differs between decisions.
        reward_terms: Names of the K numbers that every step reports besides the reward.
        outcomes: Outcomes of an episode. The first one is the headline outcome.
        image_shape: Shape of the uint8 image, or () for a scenario without images.
        discount: Discount factor that the objective is meant for.
        valued: Whether every decision has a Monte-Carlo value, known at the end of the episode.
        closing_rows: Whether every episode has a closing row in its part. If not, an episode of one
            decision that ended there has none.
    """

    scenario: str
    objective: str
    context: tuple[Feature, ...]
    candidates: tuple[Feature, ...]
    reward_terms: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    image_shape: tuple[int, ...] = ()
    discount: float = 1.0
    valued: bool = False
    closing_rows: bool = True

    def column(self, name: str) -> int:
        """Return the position of a column of the candidates; raise UnknownName with the nearest."""
        names = [feature.name for feature in self.candidates]
        if name not in names:
            raise unknown_name(f"column of {self.scenario}", name, names)
        return names.index(name)

    @property
    def learned_candidates(self) -> tuple[int, ...]:
        """Indices of the candidate columns that learners use: all but identifiers."""
        return learned(self.candidates)

    @property
    def learned_context(self) -> tuple[int, ...]:
        """Indices of the context features that learners use: all but identifiers."""
        return learned(self.context)


def learned(features: Sequence[Feature]) -> tuple[int, ...]:
    """Return the indices of the features that learners use: all but identifiers."""
    return tuple(i for i, f in enumerate(features) if not f.identifier)


def added_outcomes(older: Spec, newer: Spec) -> tuple[str, ...] | None:
    """Return the names of outcomes that only `newer` has; None if the specs differ otherwise."""
    names = {o.name for o in older.outcomes}
    shared = tuple(o for o in newer.outcomes if o.name in names)
    if replace(newer, outcomes=shared) != older or newer.outcomes[0] not in older.outcomes[:1]:
        return None
    return tuple(o.name for o in newer.outcomes if o.name not in names)
