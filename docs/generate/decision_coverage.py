"""Logs of decisions with known truth: docs/results/decision_coverage.csv and its page.

    python -m docs.generate.decision_coverage WORK [LOGS] > docs/results/decision_coverage.csv

simulates LOGS logs of every setting (simulated_decisions.World), asks each for three policies, and
prints how often the intervals contain the true values, and what the tests of the propensities say.
WORK is a file of finished blocks of logs; a run that was stopped goes on from it, and LOGS = 0
prints what is there. The column `provenance` is the key of the record of this process, which goes
to stderr for docs/results/provenance.json. A log is read by `read_log` and answered by `answer`,
as by `hindcast.ingest` and `hindcast.ope`; of settings in which the estimators suffice, one of 50.
"""

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from docs.generate.simulated_decisions import (
    DRAWS,
    FAULTS,
    POLICIES,
    SimulatedLog,
    World,
    true_values,
)
from docs.generate.text import table
from hindcast.pipeline.decisions.answers import Answers, answer
from hindcast.pipeline.decisions.arrays import logged_decisions
from hindcast.pipeline.decisions.asking import Options
from hindcast.pipeline.decisions.log import DecisionLog
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.targets import target_of
from hindcast.pipeline.estimators.decisions import (
    LoggedDecisions,
    cross_fitted_ridge,
    folds_of,
    support,
    values,
    weights,
)
from hindcast.pipeline.estimators.decisions.estimated import FACTORS
from hindcast.pipeline.estimators.decisions.intervals import intervals_of
from hindcast.pipeline.estimators.verdicts import ANSWERS, CANNOT
from hindcast.pipeline.storage.provenance import key_of, provenance

TABLE: Final = "decision_coverage.csv"
COLUMNS: Final = (
    "setting", "decisions", "logs", "policy", "quantity", "answers", "shown", "contained",
    "truth_below", "truth_above", "provenance",
)  # fmt: skip
ESTIMATORS: Final = ("dr", "snis", "is", "sndr")
SESSIONS: Final = tuple(f"sessions_{name}" for name in ("dr", "snis", "is", "pdis", "snpdis"))
BLOCK: Final = 50
_CHEAP: Final = 2  # sound logs, in which only the propensities are tested, for one of others
_LOGS: Final = 1000
_SEED: Final = 2054
_WHOLE: Final = 50  # one of so many logs goes the whole path where the estimators suffice
_UNMARKED: Final = "numbers without the verdict"

KNOWN: Final[Mapping[str, tuple[World, int]]] = {
    "rewards of any size": (World(), 400),
    "rewards of any size, longer": (World(), 2000),
    "rewards of any size, 300 decisions": (World(propensity="taken"), 300),
    "rewards of any size, 30,000 decisions": (World(), 30_000),
    "rewards of heavy tails": (World(heavy=True), 1000),
    "reward that no linear model has": (World(curve=0.6), 400),
    "propensities counted from 512 draws": (World(propensity="monte_carlo"), 400),
    "drift of the reward": (World(drift=1.0), 1000),
    "a fifth of the rewards late": (World(late="time"), 1000),
    "a little drift, a fifth late": (World(drift=0.1, late="time"), 1000),
    "a fifth lost by what was taken": (World(late="choice"), 1000),
    "units of 20 decisions": (World(unit=20), 1000),
    "clicks, 10 %": (World(clicks=0.1), 1000),
    "clicks, 2 %": (World(clicks=0.02), 1000),
    "clicks, 1 %, longer": (World(clicks=0.01), 5000),
    "sessions of 2 decisions": (World(candidates=(2, 4), explore=0.3, unit=2, sessions=True), 2000),
    "30 to 50 candidates": (World(candidates=(30, 50)), 1500),
    "30 to 50 candidates, the taken one's alone":
        (World(candidates=(30, 50), propensity="taken"), 1500),
    "80 to 120 candidates": (World(candidates=(80, 120)), 3000),
    "large weights": (World(sharp=2.0, explore=0.05), 1000),
    "large weights, the taken one's alone":
        (World(sharp=2.0, explore=0.05, propensity="taken"), 1000),
    "rare large weights": (World(sharp=3.0, explore=0.02), 1000),
    "rare large weights, the taken one's alone":
        (World(sharp=3.0, explore=0.02, propensity="taken"), 1000),
    "rare large weights, longer": (World(sharp=3.0, explore=0.02), 30_000),
    "rare large weights, the taken one's alone, no linear model":
        (World(sharp=3.0, explore=0.02, curve=0.6, propensity="taken"), 1000),
    "no exploration": (World(sharp=4.0, explore=0.0), 1000),
    "little exploration, the taken one's alone":
        (World(sharp=2.0, explore=0.0, propensity="taken"), 1000),
    "no exploration, the taken one's alone":
        (World(sharp=4.0, explore=0.0, propensity="taken"), 1000),
}  # fmt: skip
ESTIMATED: Final[Mapping[str, tuple[World, int]]] = {
    "right model": (World(propensity="none", explore=0.0), 1000),
    "wrong model, a trait is not in the log": (
        World(propensity="none", explore=0.0, hidden=1.5), 1000),
    "wrong model, the middle is preferred": (
        World(propensity="none", explore=0.0, square=6.0), 1000),
}  # fmt: skip
FAULTY: Final = World(propensity="taken", sharp=1.5)
SOUND: Final[Mapping[str, World]] = {
    "probabilities of all": World(),
    "propensity of the taken": World(propensity="taken", sharp=2.0),
    "15 to 25 candidates": World(candidates=(15, 25), propensity="taken"),
    "counted from 512 draws": World(propensity="monte_carlo"),
    "units of 20 decisions": World(unit=20),
}


def main(work: str, logs: str = str(_LOGS)) -> None:
    """Do the blocks that are missing in `work`, and print the table."""
    path, wanted = Path(work), int(logs)
    done = {}
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        done = {(b["part"], b["name"], b["block"]): b for b in map(json.loads, lines)}
    with path.open("a", encoding="utf-8") as file:
        for block in range(-(-wanted // BLOCK)):
            for part, name, run in blocks():
                if (part, name, block) not in done:
                    times = _CHEAP if part == "sound" else 1
                    first, last = block * BLOCK, min((block + 1) * BLOCK, wanted)
                    counts = run(range(times * first, times * last))
                    done[part, name, block] = {
                        "part": part,
                        "name": name,
                        "block": block,
                        "counts": counts,
                    }
                    file.write(json.dumps(done[part, name, block]) + "\n")
                    file.flush()
    record = provenance()
    key = key_of(record)
    sys.stderr.write(f'"{key}": {json.dumps(record, indent=2)}\n')
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([*row, key] for row in rows(list(done.values())))


Run = Callable[[range], list[list[Any]]]  # seeds -> counts, see COLUMNS


def blocks() -> Iterator[tuple[str, str, Run]]:
    """Yield the part of the table, the setting and the function that does a block of logs."""
    for part, settings in (("known", KNOWN), ("estimated", ESTIMATED)):
        for name, (world, decisions) in settings.items():
            yield part, name, lambda seeds, w=world, n=decisions: coverage(w, n, seeds)  # type: ignore[misc]
    for name, world in SOUND.items():
        yield "sound", name, lambda seeds, w=world: alarms(w, seeds)  # type: ignore[misc]
    for fault in FAULTS:
        yield "faulty", fault, lambda seeds, f=fault: found_of(f, seeds)  # type: ignore[misc]


@dataclass(frozen=True)
class Found:
    """Answer about one policy: its verdict, its intervals, and numbers that lack the verdict."""

    verdict: str
    ends: Mapping[str, tuple[float, float] | None]
    unmarked: int = 0


def simulated(world: World, decisions: int, seed: int) -> tuple[DecisionLog, Answers]:
    """Return a log of a world and its answers about the policies."""
    log = read_log(*_drawn(world, decisions, seed).table())
    e = logged_decisions(log)
    options = Options(estimate=world.propensity == "none")
    return log, answer(log, {p: target_of(p, log, e) for p in POLICIES}, options)


def _drawn(world: World, decisions: int, seed: int) -> SimulatedLog:
    return world.draw(decisions, np.random.default_rng([_SEED, seed, decisions]))


def asked(world: World, decisions: int, seed: int) -> Iterator[tuple[str, Found]]:
    """Yield the answers about the policies by `answer`."""
    _, found = simulated(world, decisions, seed)
    for policy in POLICIES:
        verdict = found.support.filter(policy=policy)["verdict"][0]
        yield (
            policy,
            Found(verdict, dict(_intervals(found, policy)), _unmarked(found, policy, verdict)),
        )


def on_arrays(world: World, decisions: int, seed: int) -> Iterator[tuple[str, Found]]:
    """Yield the answers by the estimators alone, in a tenth of the time.

    They are those of `answer` where the verdict depends on no caution of the log.
    """
    log = _drawn(world, decisions, seed)
    every, unit = world.propensity == "all", log.unit if world.unit > 1 else np.arange(decisions)
    e = LoggedDecisions.of(
        np.diff(log.offsets), log.chosen, log.propensity, log.reward, unit=unit,
        draws=np.full(decisions, DRAWS) if world.propensity == "monte_carlo" else None,
        probability=log.probability if every else None,
    )  # fmt: skip
    features = np.stack([log.x, log.z, log.large, ~log.large], axis=1)
    q = cross_fitted_ridge(e, log.hour[:, None], features, folds_of(map(str, unit)))
    for policy in POLICIES:
        target = log.target(policy)
        supported = support(e, target)
        verdict = supported.verdict
        if verdict == CANNOT:
            yield policy, Found(verdict, dict.fromkeys(ESTIMATORS))
            continue
        made = values(e, target, q)
        shown = [made[n] for n in ESTIMATORS]
        intervals = intervals_of(e, shown, weights(e, target), [0.95], passed=supported.passed)
        yield policy, Found(verdict, {
            name: (found.low, found.high) if found.shown else None
            for name, [found] in zip(ESTIMATORS, intervals, strict=True)
        })  # fmt: skip


def coverage(world: World, decisions: int, seeds: range) -> list[list[Any]]:
    """Return rows (decisions, logs, policy, quantity, answers, shown, contained, below, above)."""
    truth = true_values(world)
    plain = not (world.late or world.sessions or world.propensity == "none")
    counts: dict[tuple[str, str], Counter[str]] = {}
    for seed in seeds:
        way = on_arrays if plain and seed % _WHOLE else asked
        for policy, found in way(world, decisions, seed):
            unmarked = counts.setdefault((policy, _UNMARKED), Counter())
            unmarked["shown"] += found.unmarked
            for quantity, ends in found.ends.items():
                value = truth[policy] * (world.unit if quantity in SESSIONS else 1)
                c = counts.setdefault((policy, quantity), Counter())
                c["answers"] += found.verdict == ANSWERS
                if ends is None or found.verdict != ANSWERS:
                    continue
                c["shown"] += 1
                c["below"] += value < ends[0]
                c["above"] += value > ends[1]
                c["contained"] += ends[0] <= value <= ends[1]
    names = ("answers", "shown", "contained", "below", "above")
    return [
        [decisions, len(seeds), policy, quantity, *(int(c[n]) for n in names)]
        for (policy, quantity), c in counts.items()
    ]


def _intervals(found: Answers, policy: str) -> Iterator[tuple[str, tuple[float, float] | None]]:
    """Yield the intervals of 95 % and the sensitivity ranges; None where there is none."""
    rows = found.estimates.filter(policy=policy)
    by_name = {row["estimator"]: row for row in rows.iter_rows(named=True)}
    for name in ESTIMATORS:
        row = by_name.get(name, {})
        yield name, _ends(row.get("low_alone"), row.get("high_alone"))
    for name in SESSIONS:
        if name in by_name:
            row = by_name[name]
            alone = row["verdict"] == ANSWERS
            yield name, _ends(row["low_alone"], row["high_alone"]) if alone else None
    row = by_name.get("snis", {})
    for factor in FACTORS if found.propensities == "estimated" else ():
        ends = _ends(row.get(f"low_odds_{factor:g}"), row.get(f"high_odds_{factor:g}"))
        yield f"range, odds within {factor:g}", ends


def _ends(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (low, high)


def _unmarked(found: Answers, policy: str, verdict: str) -> int:
    """Return the count of numbers without the verdict "cannot answer", where it is that."""
    if verdict != CANNOT:
        return 0
    rows = found.estimates.filter(policy=policy)
    said = found.sentences[policy].startswith("Cannot answer")
    return int((rows["verdict"] != CANNOT).sum()) + (not said)


def alarms(world: World, seeds: range) -> list[list[Any]]:
    """Return the number of sound logs of 100 to 10,000 decisions that have a caution."""
    doubted = 0
    for seed in seeds:
        rng = np.random.default_rng([_SEED, seed, 1])
        decisions = round(100 * 100 ** rng.random())
        doubted += bool(_codes(read_log(*world.draw(decisions, rng).table())))
    return [["100 to 10000", len(seeds), "", "alarms", "", doubted, "", "", ""]]


def found_of(fault: str, seeds: range) -> list[list[Any]]:
    """Return the number of logs of 400 decisions in which a fault is found."""
    wanted = {"override": "override_depends", "leak": "leak"}
    found = 0
    for seed in seeds:
        rng = np.random.default_rng([_SEED, seed, 2])
        log = read_log(*FAULTY.draw(400, rng).faulty(fault, rng))
        found += wanted.get(fault, "propensities_contradicted") in _codes(log)
    return [[400, len(seeds), "", "found", "", found, "", "", ""]]


def _codes(log: DecisionLog) -> set[str]:
    """Return the cautions about propensities, overrides and leaks."""
    codes = {"propensities_contradicted", "override_depends", "leak"}
    return codes & {caution.code for caution in log.cautions}


def rows(done: Sequence[Mapping[str, Any]]) -> Iterator[list[Any]]:
    """Yield the rows of the table: the blocks of a setting are added."""
    order = {(part, name): k for k, (part, name, _) in enumerate(blocks())}
    sums: dict[tuple[Any, ...], list[Any]] = {}
    for block in sorted(done, key=lambda b: (order[b["part"], b["name"]], b["block"])):
        for decisions, logs, policy, quantity, *numbers in block["counts"]:
            key = block["part"], block["name"], decisions, policy, quantity
            old = sums.get(key)
            new = [logs, *numbers]
            sums[key] = new if old is None else [
                a + b if a != "" else "" for a, b in zip(old, new, strict=True)
            ]  # fmt: skip
    for (part, name, decisions, policy, quantity), (logs, *numbers) in sums.items():
        yield [f"{part}: {name}", decisions, logs, policy, quantity, *numbers]


_PARTS: Final = {
    "known": "Intervals of 95 %, propensities logged",
    "estimated": "Intervals and ranges, propensities estimated",
    "sound": "Tests of propensities: sound logs",
    "faulty": "Tests of propensities: logs with a fault",
}


def coverage_markdown(content: bytes) -> str:
    """Return the page of the table."""
    found = list(csv.DictReader(io.StringIO(content.decode())))
    unmarked = sum(int(r["shown"]) for r in found if r["quantity"] == _UNMARKED)
    lines = [
        "# Logs of decisions with known truth", "",
        (f"`docs/results/{TABLE}` counts how often the answers about simulated logs hold the true "
        "value. Policies are `uniform`, `lowest:x` and `highest:z`; the share is over the three, "
        "the lowest and highest are those of one policy. Rows are of logs whose verdict is "
        "**answers**. Numbers that stand without the verdict where it is **cannot answer**: "
        f"{unmarked}."), "",
        ("Where weights are rare and large the verdict is **answers roughly** at most, so that few "
        "or no rows are counted. If the log tells all probabilities, the skewness of the weights "
        "is known. If it tells those of the taken candidates alone, weights that were not drawn "
        "are hidden, and a log passes now and then. A share over few intervals says little: its "
        "error is 0.22 / sqrt(logs) at most, since three policies share a log."), "",
    ]  # fmt: skip
    for part, title in _PARTS.items():
        mine = [r for r in found if r["setting"].startswith(f"{part}: ")]
        lines += [f"## {title}", "", _tested(mine) if part in ("sound", "faulty") else (
            _contained(mine)), ""]  # fmt: skip
    return "\n".join(lines)


def _contained(found: Sequence[Mapping[str, str]]) -> str:
    cells = []
    for setting, quantity in dict.fromkeys((r["setting"], r["quantity"]) for r in found):
        mine = [r for r in found if (r["setting"], r["quantity"]) == (setting, quantity)]
        shown = sum(int(r["shown"]) for r in mine)
        if quantity == _UNMARKED:
            continue
        asked = sum(int(r["logs"]) for r in mine)
        answers = sum(int(r["answers"]) for r in mine) / asked
        shares = [int(r["contained"]) / int(r["shown"]) for r in mine if int(r["shown"])]
        whole = sum(int(r["contained"]) for r in mine) / shown if shown else 0.0
        cells.append([
            setting.partition(": ")[2], mine[0]["decisions"], quantity, f"{answers:.0%}",
            f"{shown:,}", f"{whole:.1%}" if shown else "",
            f"{min(shares):.1%} to {max(shares):.1%}" if shares else "",
        ])  # fmt: skip
    head = ("log", "decisions", "of", "answers", "intervals", "contain the truth", "by policy")
    return table(head, cells, 3)


def _tested(found: Sequence[Mapping[str, str]]) -> str:
    head = ("log", "decisions", "logs", found[0]["quantity"] if found else "")
    return table(head, [
        [r["setting"].partition(": ")[2], r["decisions"], r["logs"], r["shown"]] for r in found
    ], 1)  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
