"""`python -m docs.generate.ope_ranking FOLDER...`: docs/results/ope_ranking.csv, on stdout.

Each argument is a folder that `hindcast ope --out FOLDER` has written, with truths. Folders of one
dataset are read together: the estimates are those of all of them, where two have an estimator the
later one's, and the truth is that with the most seeds.

The rows `consensus-chosen` and `weights-learned` of a scenario use nothing of this scenario. The
first takes the followers of the consensus, and the second fixed votes for all estimators, that have
the highest mean rank correlation in the other scenarios. The rows `all` are means over scenarios.
`ONE - TWO` is the difference between two such rows, on the same draws.

The column `provenance` is the key of the record of this process, which is printed to stderr for
docs/results/provenance.json.

Intervals: 95 % of 2,000 draws of policies and, for the truth, of windows.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.estimators.selection import rank_correlation, ranks, regret_at
from hindcast.pipeline.storage.files import read_json, read_parquet
from hindcast.pipeline.storage.provenance import key_of, provenance
from hindcast.policies.ope.consensus import CONSENSUS, FOLLOWERS, LEADER, consensus_scores

Array = NDArray[np.float64]

DRAWS: Final = 2000
VOTES: Final = 1000
OTHERS: Final = (*FOLLOWERS, "snpdis", "mwl")
EQUAL: Final = "consensus-equal"  # four kinds with equal votes, as before gp
CHOSEN: Final = "consensus-chosen"
LEARNED: Final = "weights-learned"
COLUMNS: Final = (
    "scenario", "estimator", "policies", "new_policies", "truth_seeds", "rank_correlation", "low",
    "high", "rank_correlation_new", "regret", "regret_low", "regret_high", "provenance",
)  # fmt: skip
COMPARED: Final = (
    (LEADER, "tempered"), (CONSENSUS, "tempered"), (CONSENSUS, EQUAL), (CONSENSUS, LEADER),
    (CHOSEN, LEADER), (LEARNED, LEADER),
)  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """The estimates and truths of the P policies of one scenario.

    Attributes:
        scenario: Name of the scenario.
        values: (P,) estimates by estimator.
        truth: (P, W) true returns by window.
        logged: (P,) True for behaviours of the log.
        seeds: Episodes per window and policy of the truth.
    """

    scenario: str
    values: Mapping[str, Array]
    truth: Array
    logged: NDArray[np.bool_]
    seeds: int

    def rows(self, names: Sequence[str]) -> pl.DataFrame:
        """Return rows like those of estimates.parquet, of some estimators."""
        shown = [name for name in names if name in self.values]
        return pl.concat([
            pl.DataFrame({"estimator": [name] * len(self.logged), "value": self.values[name]})
            for name in shown
        ])  # fmt: skip


def read(folders: Sequence[Path]) -> list[Problem]:
    """Return one problem per dataset of the folders, in their order."""
    found: dict[str, list[Path]] = {}
    for folder in folders:
        found.setdefault(read_json(folder / "ope.json")["digest"], []).append(folder)
    return [_problem(own) for own in found.values()]


def _problem(folders: Sequence[Path]) -> Problem:
    about = read_json(folders[0] / "ope.json")
    assert isinstance(about, dict)
    estimates = pl.concat([read_parquet(folder / "estimates.parquet") for folder in folders])
    first = estimates.filter(pl.col("estimator") == estimates["estimator"][0]).unique(
        "policy", maintain_order=True
    )
    policies = first["policy"].to_list()
    values = {}
    for (name,), own in estimates.group_by("estimator", maintain_order=True):
        known = dict(own.select("policy", "value").rows())
        values[str(name)] = np.array(
            [-np.inf if known[p] is None else known[p] for p in policies], np.float64
        )
    scores = [
        read_parquet(folder / "truth" / "scores.parquet").filter(pl.col("metric") == "return")
        for folder in folders
    ]
    best = max(scores, key=lambda one: one["seed"].n_unique())
    means = best.group_by("policy", "window").agg(pl.col("value").mean()).sort("window", "policy")
    table = means.pivot("window", index="policy", values="value")
    order = {name: i for i, name in enumerate(table["policy"])}
    truth = table.drop("policy").to_numpy()[[order[p] for p in policies]]
    return Problem(
        about["scenario"], values, truth, first["logged"].to_numpy(), best["seed"].n_unique()
    )


def combined(problems: Sequence[Problem]) -> list[dict[str, Array]]:
    """Return the scores of every estimator and combination, by problem."""
    found = []
    for at, problem in enumerate(problems):
        others = [p for i, p in enumerate(problems) if i != at]
        scores = dict(problem.values)
        scores[CONSENSUS] = consensus_scores(problem.rows((LEADER, *FOLLOWERS)))
        scores[EQUAL] = consensus_scores(problem.rows(("snpdis", "dm", "mwl", "tempered")))
        chosen = _best(_followers(), others)
        weights = _best(_weights(), others)
        scores[CHOSEN], scores[LEARNED] = chosen(problem), weights(problem)
        found.append(scores)
    return found


Ranking = Callable[[Problem], Array]


def _best(choices: Sequence[Ranking], problems: Sequence[Problem]) -> Ranking:
    """Return the choice with the highest mean rank correlation on the problems."""
    means = [
        np.mean([rank_correlation(one(p), p.truth.mean(axis=1)) for p in problems])
        for one in choices
    ]
    return choices[int(np.argmax(means))]


def _agreeing(followers: Sequence[str]) -> Ranking:
    """Return the consensus with these followers."""

    def ranking(problem: Problem) -> Array:
        leading = ranks(problem.values[LEADER])
        total = leading.copy()
        for name in followers:
            if name in problem.values:
                agreed = rank_correlation(problem.values[name], leading)
                total += max(agreed, 0.0) * ranks(problem.values[name])
        return total

    return ranking


def _followers() -> list[Ranking]:
    every = (subset for n in range(len(OTHERS) + 1) for subset in combinations(OTHERS, n))
    return [_agreeing(subset) for subset in every]


def _weights() -> list[Ranking]:
    """Return weighted mean ranks for many draws of votes, half of them sparse."""
    rng = np.random.default_rng(0)
    names = (LEADER, *OTHERS)
    draws = [rng.dirichlet(np.full(len(names), a)) for a in (0.3, 1.0) for _ in range(VOTES // 2)]

    def one(votes: Array) -> Ranking:
        return lambda problem: np.asarray(
            sum(v * ranks(problem.values[n]) for n, v in zip(names, votes, strict=True)
                if n in problem.values), np.float64,
        )  # fmt: skip

    return [one(votes) for votes in draws]


def table(problems: Sequence[Problem], key: str = "") -> list[str]:
    """Return the lines of the CSV; `key` is that of the record of this process."""
    scores = combined(problems)
    draws: dict[str, list[Array]] = {}
    points: dict[str, list[float]] = {}
    lines = [",".join(COLUMNS)]
    for problem, own in zip(problems, scores, strict=True):
        truth, new = problem.truth.mean(axis=1), ~problem.logged
        for name, values in own.items():
            found, lost = drawn(values, problem.truth)
            draws.setdefault(name, []).append(found)
            points.setdefault(name, []).append(rank_correlation(values, truth))
            row = (
                *interval(points[name][-1], found), rank_correlation(values[new], truth[new]),
                *interval(_regret(values, truth), lost),
            )  # fmt: skip
            head = (problem.scenario, name, len(truth), int(new.sum()), problem.seeds)
            lines.append(",".join([*map(str, head), *(f"{x:.4f}" for x in row), key]))
    whole = [name for name in draws if len(draws[name]) == len(problems)]
    for name in whole:
        mean = np.mean(draws[name], axis=0)
        shown = interval(float(np.mean(points[name])), mean)
        lines.append(f"all,{name},,,,{shown[0]:.4f},{shown[1]:.4f},{shown[2]:.4f},,,,,{key}")
    for one, two in COMPARED:
        mean = np.mean(draws[one], axis=0) - np.mean(draws[two], axis=0)
        shown = interval(float(np.mean(points[one]) - np.mean(points[two])), mean)
        lines.append(f"all,{one} - {two},,,,{shown[0]:.4f},{shown[1]:.4f},{shown[2]:.4f},,,,,{key}")
    return lines


def drawn(values: Array, truth: Array, draws: int = DRAWS) -> tuple[Array, Array]:
    """Return rank correlations and regrets of draws of policies and windows, the same each time."""
    rng = np.random.default_rng(0)
    policies, windows = truth.shape
    found, lost = np.empty(draws), np.empty(draws)
    for i in range(draws):
        rows, columns = rng.integers(policies, size=policies), rng.integers(windows, size=windows)
        moved = truth[rows][:, columns].mean(axis=1)
        found[i] = rank_correlation(values[rows], moved)
        lost[i] = _regret(values[rows], moved)
    return found, lost


def _regret(values: Array, truth: Array) -> float:
    """Return the regret of the first choice as a share of the distance from best to median."""
    return regret_at(values, truth, 1) / max(float(truth.max() - np.median(truth)), 1e-12)


def interval(value: float, drawn: Array) -> tuple[float, float, float]:
    """Return a value with the percentiles of its draws that hold 95 %."""
    return value, float(np.nanquantile(drawn, 0.025)), float(np.nanquantile(drawn, 0.975))


def main(folders: Sequence[str]) -> None:
    """Print the table of these folders, and the record of this process to stderr."""
    record = provenance()
    key = key_of(record)
    sys.stderr.write(json.dumps({key: record}, indent=2) + "\n")
    sys.stdout.write("\n".join(table(read([Path(name) for name in folders]), key)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
