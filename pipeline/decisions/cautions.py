"""Cautions of a log of decisions: facts that limit its answers, with their numbers."""

import math
from collections import Counter
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl
from numba import njit

from hindcast.pipeline.decisions.arrays import logged_decisions
from hindcast.pipeline.decisions.assembly import level_counts
from hindcast.pipeline.decisions.log import SMALL_PIECE, Caution, DecisionLog, Flags
from hindcast.pipeline.decisions.values import floats
from hindcast.pipeline.estimators.decisions.logged import Ints, LoggedDecisions
from hindcast.pipeline.estimators.decisions.propensity_tests import (
    CONTRADICTED_A,
    MOST_LEVELS,
    PropensityTests,
    Tally,
    candidate_sets,
)
from hindcast.pipeline.estimators.decisions.values import clustered_error
from hindcast.pipeline.estimators.verdicts import of_certainty
from hindcast.pipeline.recipes.splits import SPLITS
from hindcast.pipeline.statistics.distributions import chi_square_tail

QUARANTINED: Final = "quarantined"  # code of the caution about decisions in quarantine
_QUARANTINED: Final = 0.01  # share of decisions in quarantine that is a caution
_CERTAIN: Final = 1.0 - 1e-9
_PARTLY: Final = 0.01  # share of certain choices that is told
_BY_CHOICE: Final = 0.001  # chance of so unequal losses of rewards
_CUT: Final = 0.05
_LAST: Final = 0.1  # share of the decisions that is the end of a log
_DRIFT: Final = 3.0  # standard errors
_TREND: Final = 2.0  # standard errors
_LEAK: Final = 0.95
_LEAST: Final = 10


def cautions_of(log: DecisionLog) -> tuple[Caution, ...]:
    """Return the cautions of a log."""
    logged = logged_decisions(log)
    found: list[Caution] = []
    _quarantine(log, found)
    _determinism(log, logged, found)
    _propensities(log, found)
    _floor(log, logged, found)
    _censored(log, found)
    _trend(log, logged, found)
    _leaks(log, found)
    _rest(log, logged, found)
    return tuple(found)


def with_cautions(log: DecisionLog) -> DecisionLog:
    """Return a log with its cautions."""
    return replace(log, cautions=cautions_of(log))


def checked_propensities_of(log: DecisionLog) -> PropensityTests | None:
    """Return the tests of the propensities of a log; None if none were logged."""
    if log.mapping.propensity.kind not in ("exact", "monte_carlo"):
        return None
    return _tests(log, ~log.decisions["overridden"].to_numpy())


def override_propensities_of(log: DecisionLog) -> PropensityTests | None:
    """Return the tests of the overridden decisions, of what was drawn; None if there are none."""
    drawn = log.decisions["overridden"] & log.decisions["sampled"].is_not_null()
    if log.mapping.propensity.kind not in ("exact", "monte_carlo") or not drawn.any():
        return None
    sampled = log.decisions["sampled"].fill_null(0).to_numpy().astype(np.int64)
    return _tests(log, drawn.to_numpy(), sampled)


def _tests(log: DecisionLog, used: Flags, chosen: Ints | None = None) -> PropensityTests:
    """Return the tests of some decisions, piece by piece."""
    used = used & log.decisions["propensity"].is_not_null().to_numpy()
    scale = float(log.decisions["weight"].to_numpy()[used].max(initial=1.0))
    tally = Tally(scale, log.mapping.propensity.epsilon)
    unit = log.units
    ids = _Levels(log.candidates["id"], log.offsets)
    categories = {n: _Levels(log.features[n], log.offsets) for n, t in log.features.schema.items()
                  if t == pl.Categorical}  # fmt: skip
    begin = 0
    for piece in log.pieces(SMALL_PIECE):
        rows = slice(begin, begin + len(piece))
        begin = rows.stop
        logged = logged_decisions(piece, None if chosen is None else chosen[rows])
        mine = used[rows]
        of_candidates = slice(None) if mine.all() else mine[logged.owner]
        part = logged if mine.all() else logged.take(mine)
        coded = {
            n: (levels.codes(piece.features[n])[of_candidates], levels.names)
            for n, levels in categories.items()
        }
        figures = {n: piece.feature(n)[of_candidates] for n, t in log.features.schema.items()
                   if t == pl.Float64}  # fmt: skip
        codes = ids.codes(piece.candidates["id"])[of_candidates]
        sets = candidate_sets(part, codes, coded, figures, ids.names)
        tally.add(part, sets, unit[rows][mine])
    return tally.tests()


class _Levels:
    """The most frequent levels of a category, numbered alike in every piece of a log."""

    def __init__(self, column: pl.Series, offsets: Ints) -> None:
        every = np.ones(len(offsets) - 1, np.bool_)
        names = level_counts(column, every, offsets)["level"].head(MOST_LEVELS)
        self.names: list[str] = names.to_list()
        places = names.cast(pl.Categorical).to_physical().to_numpy()
        self._lookup = np.full(int(places.max(initial=0)) + 2, -1)
        self._lookup[places] = np.arange(len(places))

    def codes(self, column: pl.Series) -> Ints:
        """Return the numbers of the levels, -1 for others and for none."""
        last = len(self._lookup) - 1
        physical = column.to_physical().fill_null(last).to_numpy()
        return np.asarray(self._lookup[np.minimum(physical, last)])


def _quarantine(log: DecisionLog, found: list[Caution]) -> None:
    bad, all_of_them = log.counts["quarantined"], log.counts["quarantined"] + len(log)
    if bad > _QUARANTINED * all_of_them:
        most = log.quarantine["reason"].value_counts(sort=True)["reason"][0]
        found.append(Caution(
            QUARANTINED,
            f"{bad:,} of {all_of_them:,} decisions ({bad / all_of_them:.1%}) cannot be used, such "
            f"as line {log.quarantine.filter(pl.col('reason') == most)['line'][0]}: {most}",
            {"decisions": bad, "share": bad / all_of_them},
        ))  # fmt: skip


def _determinism(log: DecisionLog, logged: LoggedDecisions, found: list[Caution]) -> None:
    """Add a caution if all decisions with a choice were certain, or many of them."""
    choice = logged.several & ~log.decisions["overridden"].to_numpy() & ~np.isnan(logged.propensity)
    number = int(choice.sum())
    if not number:
        return
    counted = ~np.isnan(logged.draws)  # all draws won is no certainty
    certain = int((choice & ~counted & (logged.propensity >= _CERTAIN)).sum())
    if certain == number:
        found.append(Caution(
            "deterministic",
            of_certainty(number),
            {"decisions": number},
        ))  # fmt: skip
    elif certain > _PARTLY * number:
        found.append(Caution(
            "partly_deterministic",
            f"p = 1 in {certain:,} of {number:,} decisions with a choice ({certain / number:.0%}), "
            "below 1 in the others: they support no other policy",
            {"decisions": certain, "share": certain / number},
        ))  # fmt: skip


def _propensities(log: DecisionLog, found: list[Caution]) -> None:
    """Add the cautions of unknown, estimated and contradicted propensities."""
    if log.mapping.propensity.kind in ("none", "estimated"):
        found.append(Caution(
            "estimated" if log.mapping.propensity.kind == "estimated" else "no_propensities",
            "the propensities are estimated" if log.mapping.propensity.kind == "estimated"
            else "the log has no propensities: weights need `--estimate-propensities`",
        ))  # fmt: skip
    tests = checked_propensities_of(log)
    if tests is not None and tests.contradicted and tests.most is not None:
        most, b = tests.most, tests.p_value
        found.append(Caution(
            "propensities_contradicted",
            f"the choices contradict the propensities: test A is {tests.e_value:.2g} (expected "
            f"below {CONTRADICTED_A:,.0f}), most by {most.name!r}, taken {most.ratio:.2f} times as "
            f"often as said{'' if np.isnan(b) else f'; test B is {b:.2g}'}; the mean weight of the "
            f"uniform policy is {tests.mean_weight:.3f} (se {tests.mean_weight_se:.3f})",
            {"e_value": tests.e_value, "p_value": b, "set": most.name, "ratio": most.ratio,
             "mean_weight": tests.mean_weight, "mean_weight_se": tests.mean_weight_se},
        ))  # fmt: skip
    drawn = override_propensities_of(log)
    if drawn is not None and drawn.e_value >= CONTRADICTED_A and drawn.most is not None:
        found.append(Caution(
            "override_depends",
            f"the {log.counts['overridden']:,} overridden decisions depend on what was drawn: test "
            f"A on them is {drawn.e_value:.2g}, most by {drawn.most.name!r}, drawn "
            f"{drawn.most.ratio:.2f} times as often as said; the others are then no fair sample",
            {"e_value": drawn.e_value, "set": drawn.most.name, "ratio": drawn.most.ratio},
        ))  # fmt: skip


def _floor(log: DecisionLog, logged: LoggedDecisions, found: list[Caution]) -> None:
    """Add a caution about propensities counted in draws of which at most one was won."""
    with np.errstate(invalid="ignore"):
        floor = log.weighted & logged.several & (logged.propensity * logged.draws <= 1.0 + 1e-9)
    if not floor.any():
        return
    w = logged.weight * logged.inverse / np.maximum(logged.size, 1)
    rows = np.flatnonzero(floor)
    share = float(w[rows].sum() / w[log.weighted & ~np.isnan(w)].sum())
    at = int(rows[np.argmax(w[rows])])
    found.append(Caution(
        "floor",
        f"{len(rows):,} propensities are at or below 1 / draws, such as that of decision "
        f"{log.decisions['id'][at]!r} (line {log.decisions['line'][at]}): they carry {share:.0%} "
        "of the weight of the uniform policy",
        {"decisions": len(rows), "share": share,
         "lines": log.decisions["line"][rows[:10]].to_list()},
    ))  # fmt: skip


def _censored(log: DecisionLog, found: list[Caution]) -> None:
    """Add the caution of missing rewards."""
    lost, count = log.counts["censored"], len(log)
    if not lost:
        return
    rewards = log.decisions["reward"].drop_nulls().to_numpy()
    low, high = (float(rewards.min()), float(rewards.max())) if len(rewards) else (np.nan,) * 2
    share = lost / count
    mean = float(rewards.mean()) if len(rewards) else float("nan")
    ends = [(1 - share) * mean + share * end for end in (low, high)]
    found.append(Caution(
        "censored",
        f"{lost:,} of {count:,} rewards ({share:.0%}) are missing, "
        f"{log.counts['censored_by_time']:,} of them may still come; if all were {low:.4g} or all "
        f"{high:.4g}, the mean of the log would be {ends[0]:.4g} or {ends[1]:.4g}, it is "
        f"{mean:.4g} over the others",
        {"decisions": lost, "share": share, "low": ends[0], "high": ends[1]},
    ))  # fmt: skip
    category = next((n for n, t in log.features.schema.items() if t == pl.Categorical), None)
    column = log.candidates["id"] if category is None else log.features[category]
    taken = log.offsets[:-1] + log.decisions["chosen"].to_numpy()
    table = (
        pl.DataFrame({"level": column[taken].cast(pl.String),
                      "lost": log.decisions["reward"].is_null()})
        .group_by("level").agg(pl.len().alias("n"), pl.col("lost").sum()).sort("level")
    )  # fmt: skip
    n, missing = table["n"].to_numpy(), table["lost"].to_numpy()
    expected = n * share
    with np.errstate(divide="ignore", invalid="ignore"):
        square = (missing - expected) ** 2 * (1 / expected + 1 / (n - expected))
    chi, degrees = float(square.sum()), len(n) - 1
    if degrees and share < 1 and chi_square_tail(chi, degrees) < _BY_CHOICE:
        worst = int(np.argmax(missing / n))
        name = category or "candidate"
        found.append(Caution(
            "censored_by_choice",
            f"rewards are lost by what was taken (chi-square {chi:.1f}, {degrees} df): of {name} "
            f"{table['level'][worst]!r} {missing[worst]} of {n[worst]} are missing",
            {"chi_square": chi, "degrees": degrees},
        ))  # fmt: skip
    else:
        _censored_by_number(log, taken, found)


def _censored_by_number(log: DecisionLog, taken: Ints, found: list[Caution]) -> None:
    """Add a caution if the taken candidates without reward differ in a numeric feature."""
    lost = log.decisions["reward"].is_null().to_numpy()
    names = [n for n, t in log.features.schema.items() if t == pl.Float64]
    for name in names:
        x = log.feature(name)[taken]
        sides = [side[~np.isnan(side)] for side in (x[lost], x[~lost])]
        if min(map(len, sides)) < _LEAST:
            continue
        error = math.sqrt(sum(side.var() / len(side) for side in sides))
        away = float(sides[0].mean() - sides[1].mean())
        if error > 0.0 and chi_square_tail((away / error) ** 2, 1) < _BY_CHOICE / len(names):
            found.append(Caution(
                "censored_by_choice",
                f"rewards are lost by what was taken: the mean {name} of the taken is "
                f"{sides[0].mean():.4g} where the reward is missing, {sides[1].mean():.4g} "
                f"elsewhere ({abs(away) / error:.1f} standard errors)",
                {"feature": name, "errors": away / error},
            ))  # fmt: skip
            return


def _trend(log: DecisionLog, logged: LoggedDecisions, found: list[Caution]) -> None:
    """Add a caution if rewards are lost by time and change with it."""
    there = log.weighted
    lost = log.decisions["reward"].is_null().to_numpy()
    if log.decisions["time"].null_count() or not lost.any() or int(there.sum()) < _LEAST:
        return
    t = log.decisions["time_s"].to_numpy()
    s, r = logged.weight[there], logged.reward[there]
    total, mean = s.sum(), float((s * r).sum() / s.sum())
    middle, every = float((s * t[there]).sum() / total), t[there | lost]
    x, share = t[there] - middle, float(lost[there | lost].mean())
    spread = float((s * x**2).sum() / total)
    later = float(np.average(every, weights=logged.weight[there | lost])) - middle
    chance = math.sqrt(spread * share / len(x))  # error of that distance, if the loss were random
    if not abs(later) > _TREND * chance > 0.0:
        return
    slope = float((s * x * r).sum() / total) / spread
    error = clustered_error(s, x * (r - mean - slope * x) / spread, logged.unit[there])
    if abs(slope) > _TREND * error:
        found.append(Caution(
            "censored_by_time",
            f"rewards are lost by time and change with it: the mean over those that are there is "
            f"{mean:.4g}; if the others lie on the same line, that of all is "
            f"{mean + slope * later:.4g}",
            {"mean": mean, "mean_of_all": mean + slope * later, "errors": abs(slope) / error},
        ))  # fmt: skip


def _leaks(log: DecisionLog, found: list[Caution]) -> None:
    """Add a caution for each feature that is written after the choice."""
    reward = floats(log.decisions["reward"])
    rewards, counts = np.unique(reward[log.weighted], return_counts=True)
    if not len(rewards):
        return
    common = rewards[np.argmax(counts)] if len(rewards) < log.weighted.sum() else float("nan")
    figures = [n for n, t in log.features.schema.items() if t == pl.Float64]
    of_context = [n for n, t in log.context.schema.items() if t == pl.Float64]
    same, alone = Counter[str](), Counter[str]()
    decisions = three = 0
    for piece in log.pieces(SMALL_PIECE):
        logged = logged_decisions(piece)
        several = logged.several & piece.weighted
        # 0 = 0 in sparse columns tells nothing
        telling = several & (logged.reward != common)
        decisions += int(telling.sum())
        wide = several & (np.diff(logged.offsets) >= 3)
        three += int(wide.sum())
        for name in figures:
            values = piece.feature(name)
            same[name] += int((values[logged.taken] == logged.reward)[telling].sum())
            alone[name] += int(_only_taken(values, logged.offsets, logged.taken)[wide].sum())
        for name in of_context:
            equal = piece.context[name].to_numpy() == logged.reward
            same[f"context {name}"] += int(equal[telling].sum())
    for name in (*figures, *(f"context {n}" for n in of_context)):
        if decisions >= _LEAST and same[name] > _LEAK * decisions:
            why = f"it equals the reward in {same[name] / decisions:.0%} of the decisions"
        elif three >= _LEAST and alone[name] > _LEAK * three:
            share = alone[name] / three
            why = f"it differs from one value in the taken candidate alone, in {share:.0%}"
        else:
            continue
        feature = name.removeprefix("context ")
        found.append(
            Caution("leak", f"{feature} is written after the choice: {why}", {"feature": feature})
        )


@njit(cache=True, nogil=True)
def _only_taken(values, offsets, taken):  # type: ignore[no-untyped-def]
    """Return in which decisions a feature has one value but for the taken candidate."""
    found = np.zeros(len(taken), np.bool_)
    for decision in range(len(taken)):
        own = first = np.nan
        alike = True
        for row in range(offsets[decision], offsets[decision + 1]):
            value = np.inf if np.isnan(values[row]) else values[row]
            if row == taken[decision]:
                own = value
            elif alike:
                alike = np.isnan(first) or value == first
                first = value
        found[decision] = alike and not np.isnan(first) and own != first
    return found


def _rest(log: DecisionLog, logged: LoggedDecisions, found: list[Caution]) -> None:
    """Add the cautions of unseen levels, of several loggers, of cut sessions and of drift."""
    test = (log.decisions["split"] != SPLITS[0]).to_numpy()
    for side, frame, of in (
        ("context", log.context, None), ("candidates", log.features, log.offsets),
    ):  # fmt: skip
        for name, dtype in frame.schema.items():
            if dtype != pl.Categorical or not test.any():
                continue
            known = log.vocabulary[f"{side}.{name}"]
            later = dict(level_counts(frame[name], test, of).iter_rows())
            unseen = sum(number for level, number in later.items() if level not in known)
            if unseen:
                found.append(Caution(
                    "unseen_levels",
                    f"{unseen:,} of {sum(later.values()):,} values of {name} outside of the train "
                    "split are levels that it does not have",
                    {"feature": name, "values": unseen},
                ))  # fmt: skip
    loggers = log.decisions["logger"].drop_nulls().n_unique()
    if loggers > 1:
        found.append(Caution("several_loggers", f"{loggers} loggers decided: each has a support of "
                             "its own", {"loggers": loggers}))  # fmt: skip
    cut = log.decisions["reward"].is_null() | log.decisions["overridden"]
    if log.decisions["session"].null_count() == 0 and len(log):
        sessions = log.decisions["session"].n_unique()
        broken = log.decisions.filter(cut)["session"].n_unique()
        if broken > _CUT * sessions:
            found.append(Caution(
                "cut_sessions",
                f"{broken:,} of {sessions:,} sessions are cut before a decision without reward or "
                "with another choice than the drawn one",
                {"sessions": broken, "share": broken / sessions},
            ))  # fmt: skip
    _drift(log, logged, found)


def _drift(log: DecisionLog, logged: LoggedDecisions, found: list[Caution]) -> None:
    """Add a caution if the last decisions have another mean reward than those before."""
    used = np.flatnonzero(log.weighted)
    last = int(len(used) * _LAST)
    if last < _LEAST or log.decisions["time"].null_count():
        return
    means, errors = [], []
    for rows in (used[:-last], used[-last:]):
        reward, weight = logged.reward[rows], logged.weight[rows]
        mean = float((weight * reward).sum() / weight.sum())
        means.append(mean)
        errors.append(clustered_error(weight, reward - mean, logged.unit[rows]))
    if abs(means[1] - means[0]) > _DRIFT * math.hypot(*errors):
        found.append(Caution(
            "drift",
            f"the mean reward of the last {last:,} decisions is {means[1]:.4g} (se "
            f"{errors[1]:.2g}), before it was {means[0]:.4g} (se {errors[0]:.2g})",
            {"last": means[1], "before": means[0]},
        ))  # fmt: skip
