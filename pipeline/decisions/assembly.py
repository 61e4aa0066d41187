"""Assembly of checked decisions: rewards, kinds of propensities, order, units, splits, counts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.decisions.batch import Batch, Ints, Reading, slices, sums, take
from hindcast.pipeline.decisions.checks import overridden
from hindcast.pipeline.decisions.log import LONGEST_TEXT, NOT_READ, DecisionLog
from hindcast.pipeline.decisions.mapping import DecisionMapping, Split
from hindcast.pipeline.decisions.values import Array, Flags, floats, may_repeat
from hindcast.pipeline.estimators.decisions.logged import offsets_of
from hindcast.pipeline.estimators.decisions.reward_model import hashes
from hindcast.pipeline.recipes.splits import SPLITS
from hindcast.pipeline.storage.gathering import release, stored
from hindcast.pipeline.workloads.schema import SourceFile

_STEP_SHARE: Final = 0.99  # of the propensities that are multiples of one step
_HASHED: Final = 2.0**64
_COUNTED: Final = 1 << 20  # values of a category that are counted at a time


def assemble(
    batch: Batch,
    mapping: DecisionMapping,
    terms: Mapping[str, float],
    reading: Reading,
    quarantine: pl.DataFrame,
    quarantined: int,
    files: tuple[SourceFile, ...],
) -> DecisionLog:
    """Return the log of decisions that passed the checks.

    `terms` are the columns of the reward with their factors. `quarantined` is the number of
    decisions in quarantine.
    """
    decisions = _with_kinds(batch, mapping, reading)
    decisions = _with_reward(decisions, mapping, terms, reading)
    decisions = decisions.with_columns(overridden(decisions))
    order = _order(decisions)
    if order is not None:
        batch = take(replace(batch, decisions=decisions), order)
        decisions = batch.decisions
    candidates, lengths = batch.candidates, batch.lengths
    context, features = _readable(batch.context, reading), _readable(batch.features, reading)
    first = decisions["time"].min()
    decisions = decisions.with_columns((pl.col("time") - (first or 0.0)).alias("time_s"))
    units = unit_ids(decisions).alias("unit_id")
    side = split_of(units, decisions["time"], mapping.split)
    decisions = stored(decisions.with_columns(units, side))
    offsets = offsets_of(lengths)
    counts = {**counted(decisions, candidates, offsets, quarantined), **reading.counts}
    if reading.counts.get("actions_from_0"):
        reading.note(
            f"in {reading.counts['actions_from_0']:,} lines `a` has a 0 and not the number of "
            "candidates: read as counted from 0"
        )
    return DecisionLog(
        decisions, context, candidates, features, offsets, quarantine, counts,
        tuple(reading.notes), (), mapping, files,
        vocabulary(decisions, context, features, offsets),
    )  # fmt: skip


def counted(
    decisions: pl.DataFrame, candidates: pl.DataFrame, offsets: Ints, quarantined: int
) -> dict[str, int]:
    """Return the numbers of decisions and candidates by their use."""
    feasible = candidates["feasible"].to_numpy()
    weighted = decisions["reward"].is_not_null() & ~decisions["overridden"]
    units = decisions["unit_id"]
    return {
        "decisions": decisions.height,
        "candidates": len(feasible),
        "feasible": int(feasible.sum()),
        "in_weights": int(weighted.sum()),
        "with_several_feasible": int((sums(feasible, offsets) >= 2).sum()),
        "censored": int(decisions["reward"].null_count()),
        "censored_by_time": int((decisions["late"] & decisions["reward"].is_null()).sum()),
        "overridden": int(decisions["overridden"].sum()),
        "quarantined": quarantined,
        "units": units.n_unique() if may_repeat(units) else len(units),
        "sessions": decisions["session"].n_unique() if decisions["session"].null_count() == 0
        else decisions.height,
        **{name: int((decisions["split"] == name).sum()) for name in SPLITS},
    }  # fmt: skip


def _with_kinds(batch: Batch, mapping: DecisionMapping, reading: Reading) -> pl.DataFrame:
    """Return the decisions with propensity, kind and draws."""
    single = batch.decisions["single"].to_numpy()
    p = batch.decisions["propensity"].to_numpy()
    said = mapping.propensity.kind
    draws = _draws(batch, mapping, p, single, reading)
    exact = np.isnan(draws) if said == "monte_carlo" else single
    p = np.where(single, 1.0, p if said in ("exact", "monte_carlo") else np.nan)
    return batch.decisions.drop("reason", "content", "single").with_columns(
        pl.Series("propensity", p).fill_nan(None),
        pl.when(pl.Series(exact)).then(pl.lit("exact")).otherwise(pl.lit(said)).alias("kind"),
        pl.Series("draws", draws).fill_nan(None),
    )  # fmt: skip


def _draws(
    batch: Batch, mapping: DecisionMapping, p: Array, single: np.ndarray, reading: Reading
) -> Array:
    """Return the draws of each propensity, NaN if it is not a Monte-Carlo one."""
    count, settings = len(batch), mapping.propensity
    if settings.kind != "monte_carlo":
        return np.full(count, np.nan)
    if isinstance(settings.draws, int):
        draws = np.full(count, float(settings.draws))
    elif settings.draws:
        draws = floats(batch.decisions["draws"]).copy()
    else:
        step = step_of(p[~single & ~np.isnan(p)])
        draws = np.full(count, np.nan if step is None else 1.0 / step)
        if step is not None:
            reading.note(
                f"the number of draws is not given; {_STEP_SHARE:.0%} of the propensities are "
                f"multiples of {step:g}: {1.0 / step:,.0f} draws"
            )
    draws[single | ~(draws >= 1)] = np.nan
    return draws


def step_of(p: Array) -> float | None:
    """Return the largest step 1 / n of which nearly all propensities are multiples, or None."""
    if len(p) < 10:
        return None
    for n in (10, 16, 20, 25, 32, 50, 64, 100, 128, 200, 256, 500, 512, 1000, 1024, 2000, 2048,
              4096, 5000, 8192, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000):  # fmt: skip
        off = np.abs(p * n - np.round(p * n))
        if (off < 1e-6 * n**0.5 * 10).mean() >= _STEP_SHARE and len(np.unique(p)) > 1:
            return 1.0 / n
    return None


def _with_reward(
    decisions: pl.DataFrame, mapping: DecisionMapping, terms: Mapping[str, float], reading: Reading
) -> pl.DataFrame:
    """Add the reward, the sum of columns times their factors `terms`, and the column `late`.

    A missing reward becomes the one of the mapping, unless its outcome came too late.
    """
    if "late" not in decisions.columns:
        decisions = decisions.with_columns(pl.lit(value=False).alias("late"))
    if terms:
        total = sum((pl.col(n).fill_nan(None) * f for n, f in terms.items()), pl.lit(0.0))
        decisions = decisions.with_columns(total.cast(pl.Float64).alias("reward"))
    lacking = decisions["reward"].null_count()
    if mapping.missing_reward is not None and lacking:
        decisions = decisions.with_columns(
            pl.when("late").then("reward").otherwise(
                pl.col("reward").fill_null(mapping.missing_reward)
            ).alias("reward")
        )  # fmt: skip
        reading.note(
            f"{lacking:,} decisions have no reward and count as {mapping.missing_reward:g}, as the "
            "mapping says"
        )
    return decisions


def _order(decisions: pl.DataFrame) -> Ints | None:
    """Return the order of the times, equal ones as in the file; None if it is that already."""
    time = decisions["time"]
    if time.null_count() == len(time) or time.is_sorted(nulls_last=True):
        return None
    return time.arg_sort(nulls_last=True).to_numpy().astype(np.int64)


def unit_ids(decisions: pl.DataFrame) -> pl.Series:
    """Return the id of each decision's unit, which intervals draw anew and splits keep whole.

    It is the mapping's unit, else the session, else the decision itself.
    """
    units = pl.coalesce(decisions["unit"], decisions["session"], decisions["id"])
    return pl.select(units).to_series()


def split_of(units: pl.Series, times: pl.Series, split: Split) -> pl.Series:
    """Return the split of each decision, by the ids of the units; a unit is on one side."""
    names = pl.Series("split", SPLITS)
    if split.by == "hash":
        distinct = units.unique(maintain_order=True) if may_repeat(units) else units
        u = hashes(distinct) / _HASHED
        later = 1 - split.test - split.validation
        side = np.where(u >= 1 - split.test, 2, np.where(u >= later, 1, 0))
        if len(distinct) < len(units):
            places = pl.DataFrame({"t": distinct, "s": side})
            found = pl.DataFrame({"t": units})
            side = found.join(places, on="t", how="left", maintain_order="left")["s"].to_numpy()
        return names[side]
    # Units in the order of their first decisions; those of one time stay together, on the earlier
    # side.
    numbers = units.rank("dense").to_numpy()
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    time = times.fill_null(float("inf")).to_numpy()[first[order]]
    known = times.null_count() < len(times)
    count = len(order)
    side = np.zeros(count, np.int64)
    for number, share in ((1, split.validation + split.test), (2, split.test)):
        cut = count - round(count * share)
        while known and 0 < cut < count and time[cut] == time[cut - 1]:
            cut += 1
        side[cut:] = number
    of_unit = np.empty(count, np.int64)
    of_unit[order] = side
    return names[of_unit[inverse]]


def torn_unit(decisions: pl.DataFrame) -> str:
    """Return in words the first unit whose decisions are in several splits; "" if none is."""
    torn = decisions.group_by("unit_id", maintain_order=True).agg(pl.col("split").unique().sort())
    torn = torn.filter(pl.col("split").list.len() > 1)
    if torn.is_empty():
        return ""
    unit, splits = torn.row(0)
    return f"unit {unit} is in the splits {', '.join(map(str, splits))}"


def _readable(frame: pl.DataFrame, reading: Reading) -> pl.DataFrame:
    """Return the features without texts that are no categories; a note says which."""
    left = []
    for name, dtype in frame.schema.items():
        if dtype != pl.Categorical:
            continue
        levels = frame[name].unique().drop_nulls().cast(pl.String)
        release()
        longest = int(levels.str.len_chars().to_numpy().max(initial=0))
        if len(levels) > NOT_READ or longest > LONGEST_TEXT:
            left.append(name)
            reading.note(
                f"{name} is not read: a text with {len(levels):,} levels of up to {longest:,} "
                f"characters, expected at most {NOT_READ:,} and {LONGEST_TEXT}"
            )
    return frame.drop(left)


def vocabulary(
    decisions: pl.DataFrame, context: pl.DataFrame, features: pl.DataFrame, offsets: Ints
) -> dict[str, dict[str, int]]:
    """Return the levels of each category in the train split, the most frequent first."""
    train = (decisions["split"] == SPLITS[0]).to_numpy()
    found = {}
    for frame, of, side in ((context, None, "context"), (features, offsets, "candidates")):
        for name, dtype in frame.schema.items():
            if dtype == pl.Categorical:
                found[f"{side}.{name!s}"] = dict(level_counts(frame[name], train, of).iter_rows())
    return found


def level_counts(column: pl.Series, used: Flags, offsets: Ints | None) -> pl.DataFrame:
    """Return each `level` of a category and its `count`, the most frequent first.

    Args:
        column: (D,) values of the decisions; or (C,) values of the candidates.
        used: (D,) the decisions that count.
        offsets: First candidate of each decision; None for a column of the decisions.
    """
    found = pl.DataFrame(schema={"level": pl.String, "count": pl.UInt32})
    for of, rows in slices(np.arange(len(used) + 1) if offsets is None else offsets, _COUNTED):
        mine = used[of] if offsets is None else np.repeat(used[of], np.diff(offsets)[of])
        some = column[rows] if mine.all() else column[rows].filter(pl.Series(mine))
        counted = some.drop_nulls().alias("level").value_counts().cast({"level": pl.String})
        found = pl.concat([found, counted]).group_by("level").agg(pl.col("count").sum())
        release()
    return found.sort(["count", "level"], descending=[True, False])
