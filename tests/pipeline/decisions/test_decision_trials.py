"""Tests of what the best of the first k policies is worth, if k of them are tried online."""

import numpy as np
import polars as pl
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.decisions.answers import answer
from hindcast.pipeline.decisions.arrays import logged_decisions
from hindcast.pipeline.decisions.asking import Options
from hindcast.pipeline.decisions.conversion import convert
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.targets import target_of
from hindcast.pipeline.estimators.decisions import LoggedDecisions, best
from hindcast.pipeline.estimators.decisions.trials import trials_of
from hindcast.pipeline.estimators.decisions.values import doubly_robust
from tests.pipeline.decisions.decision_cases import ROWS, case, long_table

ARMS = 4


def drawn(rng, decisions, means):
    """Return a log of uniform choices among arms, and the policies that always take one."""
    chosen = rng.integers(ARMS, size=decisions)
    reward = means[chosen] + rng.normal(0.0, 1.0, decisions)
    lengths, uniform = np.full(decisions, ARMS), np.full(decisions, 1 / ARMS)
    e = LoggedDecisions.of(lengths, chosen, uniform, reward)
    q = np.tile(means, decisions)
    arms = np.tile(np.arange(ARMS), decisions)
    return {f"arm {k}": (e, best(e, (arms == k).astype(float)), q) for k in range(ARMS)}


def test_the_order_is_of_one_half_and_the_value_of_the_other():
    policies = drawn(np.random.default_rng(0), 4000, np.array([0.0, 3.0, 1.0, 2.0]))
    found = trials_of(policies, 0.9875, 5)
    assert found["policy"].to_list() == ["arm 1", "arm 3", "arm 2", "arm 0"]
    assert (found["best"] == "arm 1").all()
    first = found.row(0, named=True)
    assert (first["value"], first["low"]) == (first["held_out"], first["held_out_low"])
    side = np.random.default_rng(5).random(4000) < 0.5
    for column, half in (("ordered_by", side), ("held_out", ~side)):
        e, target, q = policies["arm 1"]
        rows = np.repeat(half, ARMS)
        value = doubly_robust(e.take(half), target[rows], q[rows]).value
        assert first[column] == pytest.approx(value)
    assert found["value"].is_sorted()
    assert found["low"].is_sorted()


@pytest.mark.nightly
def test_intervals_hold_the_value_of_the_best_of_the_first_policies():
    rng, held, highest = np.random.default_rng(1), [], []
    means = np.array([0.0, 0.1, 0.1, 0.2])
    for _ in range(400):
        found = trials_of(drawn(rng, 400, means), 1 - 0.05 / ARMS, 0)
        true = np.maximum.accumulate([means[int(p[-1])] for p in found["policy"]])
        low, high = found["low"].to_numpy(), found["high"].to_numpy()
        held.append((low <= true) & (true <= high))
        highest.append(found["value"].to_numpy() - true)
    assert np.mean(held, axis=0).min() > 0.93
    assert np.mean(highest, axis=0)[0] == pytest.approx(0.0, abs=0.03)
    assert np.mean(highest, axis=0)[-1] > 0.05  # the highest of several, as is told


def test_only_policies_that_the_log_answers_for_are_tried():
    log = case("21-no-support.toml")
    e = logged_decisions(log)
    targets = {p: target_of(p, log, e) for p in ("uniform", "lowest:x", "logged", "highest:x")}
    assert not answer(log, targets, Options()).trials.height  # one is not enough
    log = case("01-long.toml")
    e = logged_decisions(log)
    found = answer(log, {p: target_of(p, log, e) for p in targets}, Options()).trials
    assert set(found["policy"]) == set(targets)
    assert found["trials"].to_list() == [1, 2, 3, 4]


def test_an_interval_that_is_not_known_has_no_upper_end():
    rng = np.random.default_rng(3)
    few = drawn(rng, 30, np.array([0.0, 0.0, 0.0, 9.0]))
    found = trials_of(few, 0.95, 0)
    assert found["high"].null_count() == found.height
    assert found["held_out_low"].null_count() == found.height


@pytest.mark.slow
def test_the_command_writes_the_trials_and_says_them(tmp_path, capsys):
    table = long_table(400, np.random.default_rng(0))
    folder = convert(read_log(table, ROWS), tmp_path / "log", "log").folder
    line = f"ope {folder} --policy uniform lowest:x highest:x --out {tmp_path / 'out'}"
    assert main(line.split()) == 0
    printed = capsys.readouterr().out
    written = pl.read_parquet(tmp_path / "out" / "trials.parquet")
    assert written.height == 3
    for row in written.iter_rows(named=True):
        assert f"  {row['trials']}: with {row['policy']}, the best is {row['best']}, " in printed
    assert main(["report", str(tmp_path / "out"), "--out", str(tmp_path / "page")]) == 2
    assert "these are answers of a log of decisions" in capsys.readouterr().err
