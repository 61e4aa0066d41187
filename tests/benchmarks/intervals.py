"""Coverage of intervals, power at the minimum detectable effect, errors of the sequential test.

    python -m tests.benchmarks.intervals > docs/results/intervals.csv
    python -m tests.benchmarks.intervals power    # these rows alone; TABLE has the names

A window's score is the mean of `shared` neighbouring blocks of jobs, so windows beside each other
have shared - 1 of them in common. The policy has lognormal or normal blocks, the reference half of
other ones: scores are skewed, and so is their difference. Training seeds differ by half of the
standard deviation of windows, and each score has as much noise of its own.

Where the scores are "proportional" or "scattered", the reference is lognormal, and the policy is
exp(-.1 + tau z) times the reference, with z normal and tau .1 or 1: differences grow with the score
of a window, and are as skewed as it is.

Four tables have intervals of their own, by the functions that made them. Of agents on grids:
normal differences of 20 zones, whose means are apart by as much as windows of a zone. Of estimators
that rank policies: normal values, whose estimates have a rank correlation with the truth; each
truth is the mean of windows. Of orders of `queue`: ratios of sums by week that grow with
the score, two runs of five logs; "dependent" weeks have logarithms with an autocorrelation of .5.
Of behaviour models: days of 20 choices, with the same coefficients every day, or with ones that
differ from day to day.
"""

import csv
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from docs.generate import grid_agents, ope_ranking, queue_orders
from hindcast.pipeline.estimators.selection import rank_correlation
from hindcast.pipeline.statistics.distributions import t_quantile
from hindcast.pipeline.statistics.families import ERROR, detectable
from hindcast.pipeline.statistics.intervals import (
    Interval,
    estimate,
    mean_interval,
    relative_difference,
)
from hindcast.pipeline.statistics.percentile import widening
from hindcast.pipeline.statistics.sequential import PARTS, Look, Sequential
from hindcast.pipeline.storage.provenance import key_of, provenance
from hindcast.policies.ope.behaviour.choice_sets import ChoiceSets
from hindcast.policies.ope.behaviour.logit import fit_logit

Array = NDArray[np.float64]
Kind = Literal["normal", "lognormal", "proportional", "scattered"]
Ends = tuple[Array, Array]

REPEATS: Final = 10_000
RESAMPLED: Final = 2000  # of the repeats, by the bootstraps
RESAMPLES: Final = 1000
FEW: Final = 500  # of the repeats, by the bootstraps of tables
_SPREAD: Final = 0.5  # of seeds, and of noise, in standard deviations of windows
_TAILS: Final = (0.025, 0.975)
_COEFFICIENTS: Final = np.array([1.0, -1.0, 0.0, 0.0])
_RATIO: Final = -0.1  # logarithm of the median of policy / reference
_SCATTER: Final[Mapping[Kind, float]] = {"proportional": 0.1, "scattered": 1.0}


class Case(NamedTuple):
    """Windows and seeds of a simulated evaluation."""

    scores: Kind
    windows: int
    seeds: int
    shared: int

    @property
    def stretches(self) -> tuple[tuple[int, int], ...] | None:
        """Blocks of jobs of each window, where windows share any."""
        if self.shared == 1:
            return None
        return tuple((w, w + self.shared) for w in range(self.windows))


CASES: Final = tuple(
    Case(scores, windows, seeds, shared)
    for scores in ("normal", "lognormal") for shared in (1, 5)
    for seeds in (1, 5) for windows in (10, 30, 200)
)  # fmt: skip

INDEPENDENT: Final = tuple(case for case in CASES if case.shared == 1)
GROWING: Final = tuple(Case(scores, n, 1, 1) for scores in _SCATTER for n in (10, 30, 200))


def measure() -> Iterator[tuple[str, float, str]]:
    for case in CASES:
        for what, (share, _) in coverage(case, REPEATS // 10, seed=1).items():
            of = f"{case.windows} windows, {case.seeds} seeds, {case.shared} shared, {case.scores}"
            yield f"{what}: {of}", share, "share"
    for case, _, _, (share, _) in _earlier(REPEATS // 10):
        of = f"{case.windows} windows, {case.seeds} seeds, {case.scores}"
        yield f"difference, percentile, widened: {of}", share, "share"
    for seeds in (1, 5):
        error, _ = sequential(400, seeds, 0.0, REPEATS // 10, seed=2)
        yield f"error until decided, {seeds} seeds", error, "share"


def coverage(
    case: Case, repeats: int, seed: int, methods: "Mapping[str, Method] | None" = None
) -> dict[str, tuple[float, float]]:
    """Return how often intervals hold the truth and their mean width, by "WHAT, METHOD"."""
    policy, reference, truth = _draw(case, repeats, np.random.default_rng([seed, *case[1:]]))
    found = {}
    less = truth / 2.0
    if case.scores in _SCATTER:
        less = truth * (1.0 - 1.0 / _mean_ratio(case.scores))
    for what, cells, true in (
        ("mean", policy, truth),
        ("difference", policy - reference[:, None], less),
    ):
        for name, method in (methods or {"student": _student}).items():
            low, high = method(cells, case)
            held = float(((low <= true) & (true <= high)).mean())
            found[f"{what}, {name}"] = held, float((high - low).mean())
    return found


def relative(case: Case, repeats: int, seed: int) -> tuple[float, float]:
    """Return how often intervals of relative differences hold the truth, and their mean width."""
    policy, reference, _ = _draw(case, repeats, np.random.default_rng([seed, *case[1:]]))
    truth = _mean_ratio(case.scores) - 1.0
    ends = np.array(
        [relative_difference(*pair)[1:] for pair in zip(policy, reference, strict=True)]
    )
    held = (ends[:, 0] <= truth) & (truth <= ends[:, 1])  # not where the ends are NaN
    return float(held.mean()), float(np.nanmedian(ends[:, 1] - ends[:, 0]))


def power(case: Case, repeats: int, seed: int) -> tuple[float, float]:
    """Return how often an effect is shown that other windows call detectable, and its mean size.

    Policy and reference have equal means without the effect.
    """
    rng = np.random.default_rng([seed, *case[1:]])
    shown, effects = 0, 0.0
    for _ in range(repeats):
        pilot, trial = (
            (policy[0] - 2.0 * reference)[:, None] for policy, reference, _ in
            (_draw(case, 1, rng), _draw(case, 1, rng))
        )  # fmt: skip
        effect = detectable(estimate(pilot, case.stretches))
        found = estimate(trial + effect, case.stretches)
        shown += found.p_value < ERROR and found.value > 0.0
        effects += effect
    return shown / repeats, effects / repeats


def _mean_ratio(scores: Kind) -> float:
    """Return the mean of policy / reference."""
    return float(np.exp(_RATIO + _SCATTER[scores] ** 2 / 2.0))


def sequential(
    most: int, seeds: int, effect: float, repeats: int, seed: int
) -> tuple[float, float]:
    """Return how often a test of `most` windows decides, and the share of them that it plays.

    The difference is `effect` standard deviations of windows. Two lognormal policies are equal if
    it is 0.
    """
    rng = np.random.default_rng([seed, most, seeds])
    decided = played = 0.0
    for _ in range(repeats):
        case = Case("lognormal", most, seeds, 1)
        policy, reference, _ = _draw(case, 1, rng)
        cells = policy[0] - 2.0 * reference + effect * _deviation(case)
        looks: list[Look] = []
        for part in range(1, PARTS + 1):
            stop = most * part // PARTS
            looks.append(Look(stop, *estimate(cells[:, None, :stop])))
            test = Sequential("policy", "other", most, tuple(looks))
            if test.decided:
                break
        decided += test.decided
        played += stop / most
    return decided / repeats, played / repeats


def _deviation(case: Case) -> float:
    """Return the standard deviation of the score of a window."""
    one = 1.0 if case.scores == "normal" else float(np.sqrt((np.e - 1.0) * np.e))
    return one / case.shared**0.5


def _draw(case: Case, repeats: int, rng: np.random.Generator) -> tuple[Array, Array, float]:
    """Return scores (N, A, W) of a policy, those (N, W) of a reference, and the policy's mean."""
    truth = 0.0 if case.scores == "normal" else float(np.exp(0.5))
    if case.scores in _SCATTER:
        z, log = rng.normal(size=(2, repeats, case.windows))
        policy = np.exp(log + _RATIO + _SCATTER[case.scores] * z)[:, None]
        return policy, np.exp(log), truth * _mean_ratio(case.scores)

    def windows(*shape: int) -> Array:
        """Return moving averages of blocks of jobs, (*shape, W)."""
        blocks = rng.normal(size=(*shape, case.windows + case.shared - 1))
        blocks = blocks if case.scores == "normal" else np.exp(blocks)
        sums = np.cumsum(np.concatenate([np.zeros((*shape, 1)), blocks], axis=-1), axis=-1)
        return np.asarray((sums[..., case.shared :] - sums[..., : -case.shared]) / case.shared)

    policy, reference = windows(repeats)[:, None], windows(repeats) / 2.0
    if case.seeds > 1:
        of_seeds = rng.normal(size=(repeats, case.seeds, 1)) * _deviation(case)
        noise = windows(repeats, case.seeds) - truth
        policy = policy + _SPREAD * (of_seeds + noise)
    return policy, reference, truth


def _student(cells: Array, case: Case) -> Ends:
    """Return the intervals that evaluations have."""
    found = [estimate(one[:, None], case.stretches).interval() for one in cells]
    return np.array([each.low for each in found]), np.array([each.high for each in found])


def _plain(cells: Array, case: Case) -> Ends:
    """Return Student's intervals over the means of windows, as if these were independent."""
    means = cells.mean(axis=1)
    half = means.std(axis=1, ddof=1) / case.windows**0.5 * t_quantile(0.975, case.windows - 1)
    return means.mean(axis=1) - half, means.mean(axis=1) + half


def _percentile(cells: Array, case: Case) -> Ends:
    """Return percentile intervals of windows, crossed with seeds if there are several."""
    rng = np.random.default_rng(5)
    ends = []
    for some in _parts(cells):
        drawn, seeds = (_counts(n, rng) for n in (case.windows, case.seeds))
        means = (some @ drawn.T * seeds.T).sum(axis=1) / (case.windows * case.seeds)
        ends.append(np.quantile(means, _TAILS, axis=1))
    return tuple(np.concatenate(ends, axis=1))


def _widened(cells: Array, case: Case) -> Ends:
    """Return percentile intervals, widened as pages do with those of earlier evaluations."""
    low, high = _percentile(cells, case)
    middle = cells[: len(low)].mean(axis=(1, 2))
    factor = widening(case.windows, case.seeds)
    return middle - factor * (middle - low), middle + factor * (high - middle)


def _bca(cells: Array, case: Case) -> Ends:
    """Return bias-corrected and accelerated intervals over the means of windows (Efron 1987)."""
    from scipy.special import ndtr, ndtri

    rng, ends = np.random.default_rng(6), []
    for some in _parts(cells.mean(axis=1)):
        replicates = some @ _counts(case.windows, rng).T / case.windows
        apart = some - some.mean(axis=1, keepdims=True)
        speed = (apart**3).sum(axis=1) / (6.0 * (apart**2).sum(axis=1) ** 1.5)
        bias = ndtri((replicates < some.mean(axis=1, keepdims=True)).mean(axis=1))
        for row, z, a in zip(replicates, bias, speed, strict=True):
            moved = z + ndtri(np.array(_TAILS))
            ends.append(np.quantile(row, ndtr(z + moved / (1.0 - a * moved))))
    return tuple(np.array(ends).T)


def _bootstrap_t(cells: Array, case: Case) -> Ends:
    """Return bootstrap-t intervals over the means of windows (Hall 1988)."""
    rng, ends = np.random.default_rng(7), []
    for some in _parts(cells.mean(axis=1)):
        drawn, middle = _counts(case.windows, rng).T / case.windows, some.mean(axis=1)
        apart = some - middle[:, None]
        moved = apart @ drawn
        error = np.sqrt(np.maximum(apart**2 @ drawn - moved**2, 0.0))
        t = np.divide(moved, error, out=np.zeros_like(moved), where=error > 0.0)
        upper, lower = np.quantile(t, _TAILS, axis=1)
        spread = some.std(axis=1)
        ends.append(np.stack([middle - lower * spread, middle - upper * spread]))
    return tuple(np.concatenate(ends, axis=1))


def _counts(count: int, rng: np.random.Generator) -> Array:
    """Return numbers of draws of `count` items with replacement: (R, count)."""
    drawn = rng.integers(count, size=(RESAMPLES, count)) + np.arange(RESAMPLES)[:, None] * count
    counts = np.bincount(drawn.ravel(), minlength=RESAMPLES * count)
    return counts.reshape(RESAMPLES, count).astype(np.float64)


def _parts(cells: Array) -> list[Array]:
    """Return parts of the first evaluations, each of which has draws of its own."""
    return np.array_split(cells[:RESAMPLED], 20)


Method = Callable[[Array, Case], Ends]
METHODS: Final[Mapping[str, Method]] = {
    "percentile": _percentile, "bca": _bca, "bootstrap-t": _bootstrap_t, "plain t": _plain,
    "student": _student,
}  # fmt: skip


Row = tuple[Case, str, str, tuple[float, float]]  # case, interval, method, coverage and width


def _coverages(cases: Iterable[Case]) -> Iterator[Row]:
    for case in cases:
        for what, numbers in coverage(case, REPEATS, 1, METHODS).items():
            interval, _, method = what.partition(", ")
            yield case, interval, method, numbers


def _earlier(repeats: int = REPEATS) -> Iterator[Row]:
    for case in INDEPENDENT:
        found = coverage(case, repeats, 1, {"widened": _widened})
        yield case, "difference", "widened", found["difference, widened"]


def _growing() -> Iterator[Row]:
    for row in _coverages(GROWING):
        if row[1] == "difference":
            yield row
    for case in GROWING:
        yield case, "relative difference", "fieller", relative(case, REPEATS, 1)


def _powers() -> Iterator[Row]:
    for case in CASES:
        yield case, "power at the MDE", "student", power(case, REPEATS // 2, 3)


def _sequentials() -> Iterator[Row]:
    for seeds in (1, 5):
        for most in (40, 200, 800):
            for effect in (0.0, 0.3):
                name = "error until decided" if effect == 0.0 else "power until decided"
                numbers = sequential(most, seeds, effect, REPEATS // 2, seed=2)
                yield Case("lognormal", most, seeds, 1), name, "sequential", numbers


def _share(ends: Iterable[Interval], truth: float) -> tuple[float, float]:
    """Return how often intervals hold the truth, and their mean width."""
    low, high = np.array([(one.low, one.high) for one in ends]).T
    return float(((low <= truth) & (truth <= high)).mean()), float((high - low).mean())


def _zones() -> Iterator[Row]:
    """Yield the coverage of differences of agents on grids: 20 zones with two windows each."""
    for seeds in (1, 5):
        rng, found = np.random.default_rng([4, seeds]), []
        for _ in range(FEW):
            less = rng.normal(size=(20, 1)) + rng.normal(size=(20, 2))
            if seeds > 1:
                noise = rng.normal(size=(seeds, 20, 2))
                less = less + _SPREAD * (rng.normal(size=(seeds, 1, 1)) + noise)
            cells = less.reshape(seeds, 20, 2)
            found.append(Interval(*grid_agents.interval(cells, np.ones((20, 2)))))
        case = Case("normal", 40, seeds, 1)
        yield case, "difference over 20 zones", "bootstrap of zones", _share(found, 0.0)


def _rankings() -> Iterator[Row]:
    """Yield the coverage of rank correlations of 17 policies, and of a mean over six scenarios."""

    def drawn(correlation: float, rng: np.random.Generator) -> tuple[float, Array]:
        """Return the rank correlation of an estimator, and its draws."""
        truth, noise = rng.normal(size=(2, 17))
        pearson = 2.0 * math.sin(math.pi * correlation / 6.0)  # of normal values
        estimates = pearson * truth + math.sqrt(1.0 - pearson**2) * noise
        windows = truth[:, None] + 0.5 * rng.normal(size=(17, 50))
        draws, _ = ope_ranking.drawn(estimates, windows, draws=FEW)
        return rank_correlation(estimates, windows.mean(axis=1)), draws

    for correlation in (0.4, 0.65, 0.9):
        rng = np.random.default_rng([5, round(100 * correlation)])
        found = [Interval(*ope_ranking.interval(*drawn(correlation, rng))) for _ in range(FEW)]
        of = f"rank correlation of {correlation:g}"
        yield Case("normal", 50, 1, 1), of, "bootstrap of policies", _share(found, correlation)
    rng, found = np.random.default_rng(6), []
    for _ in range(FEW // 2):
        pairs = [(drawn(0.8, rng), drawn(0.6, rng)) for _ in range(6)]
        value = np.mean([one[0] - two[0] for one, two in pairs])
        draws = np.mean([one[1] - two[1] for one, two in pairs], axis=0)
        found.append(Interval(*ope_ranking.interval(float(value), draws)))
    of = "difference of two, mean of six"
    yield Case("normal", 50, 1, 1), of, "bootstrap of policies", _share(found, 0.2)


def _weeks() -> Iterator[Row]:
    """Yield the coverage of ratios over weeks, two runs of five logs, and of one run's difference.

    The ratios are those of queue_orders, level .99; the differences have Student's interval.
    """
    logs = [str(log) for log in range(5)]
    kinds: tuple[Kind, ...] = ("proportional", "scattered")
    for scores, weeks, kept in itertools.product(kinds, (10, 30), (0.0, 0.5)):
        rng, found, differences = np.random.default_rng([7, weeks]), [], []
        for _ in range(FEW):
            played: dict[tuple[str, str], list[queue_orders.Score]] = {}
            for log in logs:
                runs = [_pair_of_weeks(_SCATTER[scores], weeks, kept, rng) for _ in range(2)]
                played[log, "own"], played[log, "base"] = map(list, zip(*runs, strict=True))
            one = queue_orders.judge(played, "own", logs, "base")
            found.append(Interval(one.mean, one.low, one.high))
            own, base = (played["0", name][0].slowdown for name in ("own", "base"))
            differences.append(mean_interval(own - base))
        case, of, ratio = Case(scores, weeks, 1, 1), ", dependent" * bool(kept), _mean_ratio(scores)
        ratios, less = _share(found, math.log(ratio)), math.exp(0.5) * (ratio - 1.0)
        yield case, f"logarithm of a ratio{of}", "percentile, level .99", ratios
        yield case, f"difference over weeks{of}", "student", _share(differences, less)


def _pair_of_weeks(
    scatter: float, weeks: int, kept: float, rng: np.random.Generator
) -> tuple[queue_orders.Score, queue_orders.Score]:
    """Return two policies whose logarithms keep a share of those of the week before."""
    z = rng.normal(size=(2, weeks))
    for week in range(1, weeks):
        z[:, week] = kept * z[:, week - 1] + math.sqrt(1.0 - kept**2) * z[:, week]
    base = np.exp(z[0])
    own = base * np.exp(_RATIO + scatter * z[1])
    one, other = (queue_orders.Score(each, np.ones(weeks), np.ones(4)) for each in (own, base))
    return one, other


def _coefficients() -> Iterator[Row]:
    """Yield the coverage of the four coefficients of behaviour models."""
    for spread, of in ((0.0, "equal days"), (0.5, "days apart")):
        rng = np.random.default_rng([8, round(10 * spread)])
        long = fit_logit(_choices(5000, spread, rng))
        truth = long.weights / long.scale if spread else _COEFFICIENTS
        for days in (10, 30, 200):
            found = []
            for _ in range(FEW):
                one = fit_logit(_choices(days, spread, rng))
                ends = np.array([one.weights, one.low, one.high]) / one.scale - truth
                found += [Interval(*each) for each in ends.T]
            case = Case("normal", days, 1, 1)
            yield case, f"coefficient, {of}", "sandwich over days", _share(found, 0.0)


def _choices(days: int, spread: float, rng: np.random.Generator) -> ChoiceSets:
    """Return 20 choices a day, among two to seven candidates with four normal features."""
    day = np.repeat(np.arange(days), 20)
    sizes = rng.integers(2, 8, len(day))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = rng.normal(size=(int(offsets[-1]), 4))
    wanted = _COEFFICIENTS + spread * rng.normal(size=(days, 4))
    utility = (rows * wanted[np.repeat(day, sizes)]).sum(axis=1) + rng.gumbel(size=len(rows))
    best = [a + utility[a:b].argmax() for a, b in itertools.pairwise(offsets.tolist())]
    return ChoiceSets(tuple("abcd"), rows, offsets, np.array(best), day, np.arange(len(day)))


TABLE: Final[Mapping[str, Callable[[], Iterator[Row]]]] = {
    "coverage": lambda: _coverages(CASES), "sequential": _sequentials, "growing": _growing,
    "power": _powers, "widened": _earlier, "zones": _zones, "rankings": _rankings, "weeks": _weeks,
    "coefficients": _coefficients,
}  # fmt: skip


def main(parts: Iterable[str]) -> None:
    """Write parts of the table, all by default; the record of provenance goes to stderr."""
    write = csv.writer(sys.stdout, lineterminator="\n").writerow
    record = provenance()
    key = key_of(record)
    json.dump({key: record}, sys.stderr, indent=2)
    write([*Case._fields, "interval", "method", "coverage", "width", "provenance"])
    for part in parts:
        for case, interval, method, (share, width) in TABLE[part]():
            write([*case, interval, method, f"{share:.3f}", f"{width:.3f}", key])
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:] or TABLE)
