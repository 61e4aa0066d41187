"""Simulated logs of decisions whose policies have known values.

    reward      mean 1 - x + .3 z + .25 if large + .4 hour + .1 sin(arm), + curve sin(6 x), +
                drift (time - .5) (1 + x), + the effects of the unit and of what the log lacks
    logger      p proportional to exp(sharp (2 (.5 - x) + .6 z + .4 if large + x (hour - .5))),
                mixed with a share of uniform choices
    policies    uniform, lowest:x, highest:z

x, hour and the time are uniform, z is normal, a candidate is large or small and one of 8 or more
arms. Values are means over decisions that are drawn anew, of exact mean rewards.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

POLICIES: Final = ("uniform", "lowest:x", "highest:z")
FAULTS: Final = ("times 0.7", "one over n", "wrong arm", "override", "leak")
_DECISIONS: Final = 400_000  # by which values are known
_SPAN_S: Final = 30 * 86_400


@dataclass(frozen=True)
class World:
    """A logger, its candidates and their rewards.

    Attributes:
        candidates: Fewest and most candidates of a decision.
        clicks: Rate of rewards of 1, others are 0; 0 for rewards that are any number.
        curve: Size of the part of the reward that no linear model has.
        unit: Decisions of a unit; units differ in their rewards and in their hours.
        drift: Change of the mean reward from the first decision to the last.
        late: Reason why a fifth of the rewards is lost: "" for none, "time" for those that come
            after the end of the log, "choice" for most of those of large candidates.
        propensity: "all" if the probabilities of all candidates are logged, "taken" for that of the
            taken one, "monte_carlo" for a count of draws, "none".
        explore: Share of uniform choices.
        sharp: Strength of the logger's preferences.
        hidden: Factor of the odds of the logger's choice by a trait of candidates that the log
            lacks, on which the reward depends as well.
        square: Logger's preference for x near .5, which a logit in x misses.
        heavy: True for rewards whose noise is Student's t with 3 degrees of freedom.
        sessions: True if a unit is a session, whose decisions follow one another.
    """

    candidates: tuple[int, int] = (2, 6)
    clicks: float = 0.0
    curve: float = 0.0
    unit: int = 1
    drift: float = 0.0
    late: Literal["", "time", "choice"] = ""
    propensity: Literal["all", "taken", "monte_carlo", "none"] = "all"
    explore: float = 0.1
    sharp: float = 1.0
    hidden: float = 1.0
    square: float = 0.0
    heavy: bool = False
    sessions: bool = False

    def draw(self, decisions: int, rng: np.random.Generator) -> "SimulatedLog":
        """Return a log of so many decisions, in the order of their times."""
        low, high = self.candidates
        sizes = rng.integers(low, high + 1, size=decisions)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        owner = np.repeat(np.arange(decisions), sizes)
        count = int(offsets[-1])
        x, z, large = rng.random(count), rng.normal(size=count), rng.random(count) < 0.4
        arms = max(8, high)
        arm = (rng.integers(arms, size=decisions)[owner] + np.arange(count) - offsets[owner]) % arms
        trait = rng.random(count) < 0.5
        units = -(-decisions // self.unit)
        unit = np.repeat(np.arange(units), self.unit)[:decisions]
        if not self.sessions:
            unit = rng.permutation(unit)
        hour = rng.random(units)[unit]
        effect = rng.normal(0.0, 0.3, size=units)[unit] if self.unit > 1 else np.zeros(decisions)
        time = np.sort(rng.random(decisions))
        mean = (
            1.0 - x + 0.3 * z + 0.25 * large + 0.1 * np.sin(arm) + self.curve * np.sin(6.0 * x)
            + (0.4 * hour + effect)[owner] + self.drift * (time[owner] - 0.5) * (1.0 + x)
            + 0.5 * (self.hidden > 1.0) * (trait - 0.5)
        )  # fmt: skip
        if self.clicks:
            mean = np.minimum(self.clicks * np.exp(mean - 0.9), 1.0)
        score = (
            self.sharp * (2.0 * (0.5 - x) + 0.6 * z + 0.4 * large + x * (hour[owner] - 0.5))
            + np.log(self.hidden) * trait - self.square * (x - 0.5) ** 2
        )  # fmt: skip
        odds = np.exp(score)
        p = odds / np.bincount(owner, odds, decisions)[owner]
        p = (1.0 - self.explore) * p + self.explore / sizes[owner]
        chosen = drawn(p, offsets, rng)
        taken = offsets[:-1] + chosen
        if self.clicks:
            reward = (rng.random(decisions) < mean[taken]).astype(np.float64)
        elif self.heavy:  # of the variance of the normal one
            reward = mean[taken] + rng.standard_t(3, size=decisions) * 0.5 / np.sqrt(3.0)
        else:
            reward = mean[taken] + rng.normal(0.0, 0.5, size=decisions)
        lost = self._lost(time, large[taken], rng)
        return SimulatedLog(
            self, offsets, chosen, p, mean, np.where(lost, np.nan, reward), time, unit, hour,
            x, z, large, arm, self._logged(p[taken], rng),
        )  # fmt: skip

    def _lost(self, time: Array, large: Flags, rng: np.random.Generator) -> Flags:
        if self.late == "time":  # a delay of a fifth of the log on average
            return time + rng.exponential(0.2, size=len(time)) > 1.0
        return rng.random(len(time)) < (np.where(large, 0.35, 0.07) if self.late else 0.0)

    def _logged(self, p: Array, rng: np.random.Generator) -> Array:
        if self.propensity != "monte_carlo":
            return p
        return np.asarray(np.maximum(rng.binomial(DRAWS, p), 1) / DRAWS, np.float64)


DRAWS: Final = 512


@dataclass(frozen=True)
class SimulatedLog:
    """Decisions of a world, see `World.draw`; (D,) of decisions and (C,) of candidates."""

    world: World
    offsets: Ints
    chosen: Ints
    probability: Array
    mean: Array
    reward: Array
    time: Array
    unit: Ints
    hour: Array
    x: Array
    z: Array
    large: Flags
    arm: Ints
    propensity: Array

    def target(self, policy: str) -> Array:
        """Return the probabilities (C,) of a policy."""
        sizes, starts = np.diff(self.offsets), self.offsets[:-1]
        if policy == "uniform":
            return np.repeat(1.0 / sizes, sizes)
        score = self.x if policy == "lowest:x" else -self.z
        best = np.repeat(np.minimum.reduceat(score, starts), sizes)
        return np.asarray(score == best, np.float64)

    def table(self) -> tuple[pl.DataFrame, dict[str, Any]]:
        """Return the log as a table with a row per candidate, and its mapping."""
        sizes = np.diff(self.offsets)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        taken = np.zeros(len(owner), bool)
        taken[self.offsets[:-1] + self.chosen] = True
        seconds = (self.time * _SPAN_S)[owner]
        frame = pl.DataFrame({
            "id": owner, "t": seconds, "user": self.unit[owner], "hour": self.hour[owner],
            "arm": [f"arm{k}" for k in self.arm], "x": self.x, "z": self.z,
            "size": np.where(self.large, "large", "small"), "chosen": taken.astype(np.int64),
            "r": np.where(taken, self.reward[owner], np.nan),
        }).with_columns(pl.col("r").fill_nan(None))  # fmt: skip
        columns = {"decision": "id", "time": "t", "candidate": "arm", "chosen": "chosen",
                   "reward": "r"}  # fmt: skip
        kind: dict[str, Any] = {"kind": "exact"}
        if self.world.unit > 1:
            columns["session" if self.world.sessions else "unit"] = "user"
        if self.world.propensity == "all":
            frame, columns["probability"] = frame.with_columns(p=self.probability), "p"
        elif self.world.propensity == "none":
            kind = {"kind": "none"}
        else:
            frame, columns["propensity"] = frame.with_columns(p=self.propensity[owner]), "p"
        if self.world.propensity == "monte_carlo":
            kind = {"kind": "monte_carlo", "draws": DRAWS}
        return frame, {
            "kind": "decisions", "shape": "rows", "columns": columns, "propensity": kind,
            "context": {"numbers": ["hour"]},
            "candidates": {"numbers": ["x", "z"], "categories": ["size"]},
        }  # fmt: skip

    def faulty(self, fault: str, rng: np.random.Generator) -> tuple[pl.DataFrame, dict[str, Any]]:
        """Return the log with a fault of FAULTS in its propensities, overrides or features."""
        sizes, starts = np.diff(self.offsets), self.offsets[:-1]
        if fault == "times 0.7":
            return replace(self, propensity=0.7 * self.propensity).table()
        if fault == "one over n":
            return replace(self, probability=self.target("uniform"),
                           propensity=1.0 / sizes).table()  # fmt: skip
        if fault == "wrong arm":
            other = self.probability[starts + (self.chosen + 1) % sizes]
            return replace(self, propensity=other).table()
        frame, mapping = self.table()
        if fault == "leak":
            return frame.with_columns(z=pl.coalesce("r", pl.lit(0.0))), mapping
        # Seven of ten large candidates that were drawn are not served.
        moved = self.large[starts + self.chosen] & (rng.random(len(sizes)) < 0.7)
        served = np.where(moved, (self.chosen + 1) % sizes, self.chosen)
        drawn_there = frame["chosen"]
        frame, mapping = replace(self, chosen=served).table()
        mapping["columns"]["sampled"] = "drawn"
        return frame.with_columns(drawn=drawn_there), mapping


def drawn(p: Array, offsets: Ints, rng: np.random.Generator) -> Ints:
    """Return a position per decision, drawn with the probabilities (C,) of its candidates."""
    decisions = len(offsets) - 1
    ends = np.cumsum(p)
    before = np.concatenate([[0.0], ends])[offsets[:-1]]
    total = ends[offsets[1:] - 1] - before
    at = np.searchsorted(ends, before + rng.random(decisions) * total, side="right")
    return np.asarray(np.clip(at, offsets[:-1], offsets[1:] - 1) - offsets[:-1])


@cache
def true_values(world: World) -> Mapping[str, float]:
    """Return the values of the policies in a world."""
    rng = np.random.default_rng(2026)
    sums = dict.fromkeys(POLICIES, 0.0)
    most = max(1, 2_000_000 // world.candidates[1] // world.unit * world.unit)
    done = 0
    while done < _DECISIONS:
        log = world.draw(min(most, _DECISIONS), rng)
        for policy in POLICIES:
            sums[policy] += float(log.target(policy) @ log.mean)
        done += len(log.chosen)
    return {policy: total / done for policy, total in sums.items()}
