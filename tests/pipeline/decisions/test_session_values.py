"""Tests of doubly robust values of sessions, with fitted Q evaluation."""

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.decisions.answers import answer
from hindcast.pipeline.decisions.arrays import logged_decisions
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.targets import target_of
from hindcast.pipeline.estimators import LoggedEpisodes, estimate
from hindcast.pipeline.estimators.decisions import LoggedDecisions
from hindcast.pipeline.estimators.decisions.session_values import cross_fitted_fqe

MAPPING = {
    "kind": "decisions", "shape": "rows",
    "columns": {"decision": "id", "session": "session", "time": "t", "candidate": "arm",
                "chosen": "chosen", "probability": "p", "reward": "r"},
    "context": {"numbers": ["state"]}, "candidates": {"numbers": ["y", "state_and_y"]},
}  # fmt: skip


def test_fitted_values_and_doubly_robust_by_hand():
    """Two sessions of rewards 1, 3 in each fold; the only feature is the place in the session.

    Round 1: q = 1.5 and 2.5, of which the second is cut to 3, the least sum that was seen. Round 2:
    targets 4 and 3, slope 2 (-.5 * 4 + .5 * 3) / (4 * .25 + 1) = -.5 and mean 3.5, so that q is
    3.75 and 3.25. All weights of a decision are 2: dr is 3.75 + 2 (1 + 3.25 - 3.75) + 4 (3 - 3.25).
    """
    e = LoggedDecisions.of([2] * 8, [0] * 8, [0.5] * 8, [1.0, 3.0] * 4)
    first, nothing = np.arange(0, 8, 2), np.zeros((8, 0))
    target = np.tile([1.0, 0.0], 8)
    folds = np.repeat([0, 0, 1, 1], 2)
    q, v = cross_fitted_fqe(e, target, first, nothing, np.zeros((16, 0)), folds)
    assert q == pytest.approx([3.75, 3.25] * 4)
    assert v == pytest.approx(q)
    episodes = LoggedEpisodes(np.arange(0, 9, 2), e.propensity, target[e.taken], e.reward, q=q, v=v)
    assert estimate("dr", episodes).value == pytest.approx(3.75)


def test_values_come_from_the_other_folds_alone():
    """A reward that changes in one fold changes no value of that fold."""
    folds = np.repeat([0, 1, 2], 20)
    found = []
    for extra in (0.0, 5.0):
        r = np.random.default_rng(1).random(60) + extra * (folds == 0)
        e = LoggedDecisions.of([2] * 60, [0] * 60, [0.5] * 60, r)
        x = np.random.default_rng(2).random((120, 2))
        found.append(
            cross_fitted_fqe(e, np.full(120, 0.5), np.arange(0, 60, 2), x[:60], x, folds)[0]
        )
    same = np.isclose(found[0], found[1])
    assert same[folds == 0].all()
    assert not same[folds != 0].any()


def sessions(count: int, rng: np.random.Generator) -> pl.DataFrame:
    """Return sessions of three decisions between y = 0 and y = 1, drawn with probability .6, .4.

    State 0: y earns 0 or .2, and y = 1 leads to state 1. State 1: y earns 1 or .5 and stays in it
    if y = 0. So what is good later costs nothing now only for the policy that looks ahead.
    """
    rows = []
    for s in range(count):
        state = 0
        for step in range(3):
            y = int(rng.random() < 0.4)
            mean = (0.0, 0.2)[y] if state == 0 else (1.0, 0.5)[y]
            rows += [{
                "id": f"{s}/{step}", "session": f"s{s}", "t": 60.0 * (3 * s + step),
                "state": float(state), "arm": "ab"[k], "y": float(k),
                "state_and_y": float(k * state), "chosen": int(k == y), "p": (0.6, 0.4)[k],
                "r": mean + 0.3 * rng.normal() if k == y else None,
            } for k in (0, 1)]  # fmt: skip
            state = y if state == 0 else 1 - y
    return pl.DataFrame(rows)


def true_value(high: float) -> float:
    """Return the value of drawing y = 1 with probability `high`, backwards from the end."""
    v = [0.0, 0.0]
    for _ in range(3):
        zero = (1 - high) * (0.0 + v[0]) + high * (0.2 + v[1])
        one = (1 - high) * (1.0 + v[1]) + high * (0.5 + v[0])
        v = [zero, one]
    return v[0]


@pytest.mark.parametrize(("policy", "high"), [("uniform", 0.5), ("highest:y", 1.0)])
def test_sessions_of_a_known_process(policy, high):
    log = read_log(sessions(400, np.random.default_rng(3)), MAPPING)
    e = logged_decisions(log)
    found = answer(log, {policy: target_of(policy, log, e)}).estimates
    rows = {name: found.filter(estimator=f"sessions_{name}").row(0, named=True)
            for name in ("dr", "is", "pdis")}  # fmt: skip
    assert abs(rows["dr"]["value"] - true_value(high)) < 3 * rows["dr"]["se"]
    assert rows["dr"]["low"] < true_value(high) < rows["dr"]["high"]
    assert rows["dr"]["se"] < 0.8 * min(rows["is"]["se"], rows["pdis"]["se"])
    one = found.filter(estimator="dr").row(0, named=True)
    assert one["value"] < rows["dr"]["value"]  # a decision for itself earns less than a session


def test_sessions_of_one_unit_are_drawn_together():
    """Every session twice, as one user's: the error is that of single sessions."""
    table = sessions(60, np.random.default_rng(4))
    twice = pl.concat([
        table.with_columns(
            pl.col("id") + f"/{k}", pl.col("session") + f"/{k}", user=pl.col("session")
        )
        for k in range(2)
    ])  # fmt: skip
    mapping = {**MAPPING, "columns": {**MAPPING["columns"], "unit": "user"}}
    found = []
    for log in (read_log(table, MAPPING), read_log(twice, mapping)):
        target = target_of("uniform", log, logged_decisions(log))
        [row] = answer(log, {"uniform": target}).estimates.filter(
            estimator="sessions_pdis").iter_rows(named=True)  # fmt: skip
        found.append(row)
    assert found[1]["units"] == 60
    assert found[1]["value"] == pytest.approx(found[0]["value"])
    assert found[1]["se"] == pytest.approx(found[0]["se"])
