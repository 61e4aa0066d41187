"""Evaluations that play more windows until two policies are told apart.

    hindcast evaluate RECIPE --policy AGENT --policy RULE --until decided

A quarter of the windows is played at a time, and after each the first policy is compared with the
second (`hindcast.pipeline.statistics.sequential`). Windows have to be drawn at will: the first
quarter of a log is another time than the rest, not a smaller sample of it.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.evaluation.entrant import Entrant
from hindcast.pipeline.pages.numbers import (
    decimals_for,
    decimals_telling,
    write_interval,
    write_number,
)
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.scenario import DRAWN_WINDOWS
from hindcast.pipeline.statistics.intervals import Array, difference_cells, estimate
from hindcast.pipeline.statistics.sequential import PARTS, Look, Sequential
from hindcast.pipeline.workloads.caveats import Caveat

DECIDED: Final = "decided"
STOPPED: Final = "stopped_when_decided"
FEWEST: Final = 5 * PARTS  # windows


def check_until(recipe: Recipe, policies: Sequence[Entrant], split: str) -> None:
    """Raise InputError unless the windows are drawn, and two policies can be compared on them."""
    names = list(dict.fromkeys(p.group for p in policies))
    if len(names) != 2:
        raise InputError(
            f"--until {DECIDED} compares two policies, found {len(names)}: {', '.join(names)}; "
            "name an agent (all its seeds) and one rule with --policy"
        )
    known = load_scenario(recipe.scenario).windows(recipe.config, load_source(recipe))
    windows = len(recipe.windows(split))
    if known != DRAWN_WINDOWS:
        raise InputError(
            f"--until {DECIDED}: {recipe.id} has {known} windows that its log or its settings fix, "
            "of which the first are no sample of the others; leave --until out and play them all"
        )
    if windows < FEWEST:
        raise InputError(
            f"--until {DECIDED}: split {split} has {windows} windows, expected at least {FEWEST}; "
            f"give more, as in --set 'split.{split}=\"70000..70399\"'"
        )


def play_until(
    windows: Sequence[int],
    policies: Sequence[Entrant],
    metric: str,
    play: Callable[[Sequence[int]], pl.DataFrame],
) -> tuple[pl.DataFrame, Sequential]:
    """Return the scores of the windows that were played, and the test that stopped them.

    `play` returns the scores of all policies on some windows. NaN is no score: such a window is
    left out of the comparison.
    """
    groups: dict[str, list[str]] = {}
    for each in sorted(policies, key=lambda p: not p.is_agent):  # an agent less the rule
        groups.setdefault(each.group, []).append(each.behaviour.name)
    (policy, own), (other, others) = groups.items()
    looks, frames, begin = list[Look](), list[pl.DataFrame](), 0
    for part in range(1, PARTS + 1):
        stop = len(windows) * part // PARTS
        frames.append(play(windows[begin:stop]))
        begin = stop
        of = pl.concat(frames).filter(pl.col("metric") == metric)
        runs = _runs(of, [*own, *others])
        if not runs.size:
            raise InputError(f"--until {DECIDED}: no window has a {metric} of both policies")
        cells = difference_cells(runs[: len(own)], runs[len(own) :], len(own) > 1, len(others) > 1)
        looks.append(Look(stop, *estimate(cells)))
        found = Sequential(policy, other, len(windows), tuple(looks))
        if found.decided:
            break
    # As of any evaluation: all rows of a policy stand together.
    names = [*own, *others]
    return pl.concat(f.filter(policy=name) for name in names for f in frames), found


def _runs(scores: pl.DataFrame, names: Sequence[str]) -> Array:
    """Return the mean of each policy on every window that all have: (policies, windows)."""
    table = (
        scores.group_by("window", "policy").agg(pl.col("value").mean())
        .pivot("policy", index="window", values="value").select(names).to_numpy()
    )  # fmt: skip
    return np.ascontiguousarray(table[np.isfinite(table).all(axis=1)].T)


def decision(found: Sequential) -> str:
    """Return the decision of a test, the windows that it used and the error that it spent."""
    value, low, high = found.interval
    digits = decimals_telling([value, low, high], decimals_for([value], digits=2))
    difference = (
        f"{found.policy} less {found.other} is {write_number(value, digits, signed=True)} "
        f"(95 % interval at all looks {write_interval(low, high, digits, signed=True)})"
    )
    looks = "1 look" if len(found.looks) == 1 else f"{len(found.looks)} looks"
    used = f"{found.looks[-1].windows} of {found.most} windows, {looks}"
    spent = f"error spent {100 * found.spent:.2g} %"
    return f"{'decided' if found.decided else 'not decided'}: {difference}; {used}, {spent}"


def caveats_of(found: Sequential | None) -> tuple[Caveat, ...]:
    """Return the caveat of an evaluation that stopped before it had played all windows."""
    if found is None or found.looks[-1].windows == found.most:
        return ()
    text = (
        f"Windows were played until {found.policy} and {found.other} were told apart, which was "
        f"after {found.looks[-1].windows} of {found.most}. Such a difference looks larger than it "
        "is, and intervals that do not count the looks are too narrow."
    )
    return (Caveat(STOPPED, text, {"windows": float(found.looks[-1].windows)}),)
