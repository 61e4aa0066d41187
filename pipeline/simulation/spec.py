"""What an observation is: named features with units and ranges, one spec per scenario setting."""

from collections import namedtuple
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

MOST_PIXELS: Final = 1 << 20  # of an image


@dataclass(frozen=True)
class Feature:
    """One number of an observation, by name.

    `heavy_tailed` features span decades (durations, instance counts): learners take their log.
    `identifier` columns say WHICH machine or job a candidate is; they are stored and shown to
    heuristics, but learned scorers leave them out, so that results do not depend on numbering.
    `scale` is a typical magnitude, used to make features comparable before anything is learned.
    """

    name: str
    unit: str
    low: float
    high: float
    description: str
    heavy_tailed: bool = False
    identifier: bool = False
    scale: float = 1.0


@dataclass(frozen=True)
class Outcome:
    """One number that the environment books about an episode (a makespan, energy, misses)."""

    name: str
    unit: str
    description: str
    better: Literal["lower", "higher", "neither"] = "lower"


def columns(named: Iterable[Feature | Outcome | str]) -> Any:
    """Return a named tuple of the places of features, outcomes or reward terms.

    Compiled code takes a module's tuple for a constant: with `ROW = columns(CANDIDATES)`,
    `candidates[i, ROW.cores]` costs nothing, and a name that does not exist does not compile.
    """
    names = [one if isinstance(one, str) else one.name for one in named]
    return namedtuple("Columns", names)(*range(len(names)))  # noqa: PYI024 - NamedTuple wants the names in the source


@dataclass(frozen=True)
class Spec:
    """All names of a scenario setting: what observations, rewards and outcomes contain.

    context           (C,) features of the moment
    candidates        (N, F) features of each choice; N differs from decision to decision
    reward_terms      what is booked at every step besides the reward, by name
    outcomes          what is booked about an episode; the first one is the headline metric
    image_shape       shape of the uint8 image, or () where the scenario has none
    discount          the discount that the objective is meant for
    valued            whether a decision has a value of its own, known when the episode is over
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

    @property
    def learned_candidates(self) -> tuple[int, ...]:
        """Indices of the candidate columns that a learner may use (identifiers left out)."""
        return tuple(i for i, f in enumerate(self.candidates) if not f.identifier)


def added_outcomes(older: Spec, newer: Spec) -> tuple[str, ...] | None:
    """Return the names of outcomes that only `newer` has; None where anything else differs."""
    names = {o.name for o in older.outcomes}
    kept = tuple(o for o in newer.outcomes if o.name in names)
    if replace(newer, outcomes=kept) != older or newer.outcomes[0] not in older.outcomes[:1]:
        return None
    return tuple(o.name for o in newer.outcomes if o.name not in names)
