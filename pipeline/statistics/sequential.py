"""Group-sequential test of a mean difference: four looks that share one error of 5 %.

Whoever looks at a 5 % test again and again, and stops where it shows a difference, errs more often
than in 5 % of cases. Here the looks at a quarter, two, three and all four of the windows spend the
error by the function of Lan and DeMets (1983) of the type of O'Brien and Fleming: early looks spend
little. A look decides if its p-value is below its level. The levels are those of a normal mean;
p-values are those of intervals.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, Final, NamedTuple

from hindcast.pipeline.statistics.families import ERROR
from hindcast.pipeline.statistics.intervals import Estimate, Interval

PARTS: Final = 4
# Two-sided levels of the looks at boundaries of 4.3326, 2.9631, 2.3590 and 2.0141 standard errors.
LEVELS: Final = (1.4734e-5, 3.0452e-3, 1.83239e-2, 4.40002e-2)


def spent(part: int) -> float:
    """Return the error that the looks at the first quarters, up to `part`, may spend together."""
    normal, share = NormalDist(), part / PARTS
    return 4.0 * normal.cdf(normal.inv_cdf(ERROR / 4.0) / share**0.5)


class Look(NamedTuple):
    """One look at the windows that were played so far.

    Attributes:
        windows: Number of windows.
        value: Mean difference.
        error: Its standard error.
        degrees: Degrees of freedom of the standard error.
        skewness: Skewness of the mean difference.
    """

    windows: int
    value: float
    error: float
    degrees: float
    skewness: float

    @property
    def estimate(self) -> Estimate:
        """The difference as an estimate."""
        return Estimate(*self[1:])


@dataclass(frozen=True)
class Sequential:
    """A test that stops when it is decided.

    Attributes:
        policy: Name of the first policy, or of an agent whose training seeds are pooled.
        other: Name of the policy that it is compared with.
        most: Number of windows that could have been played.
        looks: The looks, of which the last decided or had all windows.
    """

    policy: str
    other: str
    most: int
    looks: tuple[Look, ...]

    @property
    def level(self) -> float:
        """Level of the last look."""
        return LEVELS[len(self.looks) - 1]

    @property
    def decided(self) -> bool:
        """True if the last look shows a difference."""
        return bool(self.looks) and self.looks[-1].estimate.p_value < self.level

    @property
    def spent(self) -> float:
        """Error that the looks have spent together."""
        return spent(len(self.looks))

    @property
    def interval(self) -> Interval:
        """Difference with the interval that holds at all looks together in 95 % of cases."""
        return self.looks[-1].estimate.interval(1.0 - self.level)

    def as_table(self) -> dict[str, Any]:
        """Return what evaluation.json keeps."""
        looks = [look._asdict() for look in self.looks]
        return {**asdict(self), "looks": looks, "decided": self.decided, "spent": self.spent}

    @classmethod
    def from_table(cls, raw: Mapping[str, Any]) -> "Sequential":
        """Return the test of a table; raise KeyError, TypeError or ValueError if it is damaged."""
        looks = tuple(
            Look(int(each["windows"]), *(float(each[name]) for name in Look._fields[1:]))
            for each in raw["looks"]
        )
        if not 1 <= len(looks) <= PARTS:
            raise ValueError(f"{len(looks)} looks, expected 1 to {PARTS}")
        return cls(str(raw["policy"]), str(raw["other"]), int(raw["most"]), looks)
