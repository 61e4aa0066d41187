"""Tests of the estimators and tests of propensities against right values of known logs."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.decisions.arrays import design, logged_decisions, reference_q
from hindcast.pipeline.decisions.cautions import checked_propensities_of, override_propensities_of
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.estimators.decisions import (
    best,
    estimate_propensities,
    folds_of,
    sensitivity,
    support,
    uniform,
    values,
    weights,
)
from hindcast.pipeline.estimators.decisions.estimated import with_propensities
from hindcast.pipeline.estimators.decisions.support import bounds
from hindcast.pipeline.estimators.verdicts import ANSWERS, CANNOT, ROUGHLY
from tests.pipeline.decisions.decision_cases import ROWS as MAPPING
from tests.pipeline.decisions.decision_cases import case, cases, long_table, real, right_values

NAMES = ("is", "snis", "dr")


def numbers_of(log, policy, corrected=True):
    """Return decisions in weights, weights of a policy and its values."""
    every, used = logged_decisions(log), log.weighted
    rows = used[every.owner]
    q = reference_q(log, every, used)[rows]
    e = every.take(used) if corrected else every.take(used).raw()
    kind, _, name = policy.partition(":")
    if kind == "uniform":
        target = uniform(e)
    elif kind == "candidate":
        target = best(e, (log.candidates["id"].cast(pl.String) == name).to_numpy()[rows] * 1.0)
    else:
        target = best(e, -log.feature(name)[rows])
    return e, weights(e, target), values(e, target, q), target


@pytest.mark.parametrize("row", right_values(), ids=lambda r: f"{r.file}:{r.policy}:{r.corrected}")
def test_cases_have_their_right_values(row):
    """`is`, `snis`, `dr` with errors, ESS, mean and largest weight, as they are printed."""
    log = case(row.file)
    assert (log.counts["decisions"], log.counts["candidates"]) == row.counts[:2]
    assert log.counts["in_weights"] == row.counts[2]
    e, w, found, target = numbers_of(log, row.policy, row.corrected)
    got = [x for name in NAMES for x in (found[name].value, found[name].se)]
    assert got == pytest.approx(row.numbers[:6], abs=6e-5)
    report = support(e, target)
    assert report.ess == pytest.approx(row.numbers[6], abs=6e-3)
    assert report.mean_weight == pytest.approx(row.numbers[7], abs=6e-5)
    assert w.max() == pytest.approx(row.numbers[8], abs=6e-4)


def test_shapes_of_one_log_give_the_same_numbers():
    names = ("01-long.toml", "02-long-propensity-of-chosen.toml", "03-nested.toml",
             "04-nested.toml", "05-log.dsjson")  # fmt: skip
    for feature in ("uniform", "lowest:x"):
        found = []
        for name in names:
            other = feature.replace(":x", ":a.x") if name.endswith("dsjson") else feature
            _, _, value, _ = numbers_of(case(name), other)
            found.append([value[n].value for n in NAMES] + [value[n].se for n in NAMES])
        for numbers in found[1:]:
            assert numbers == pytest.approx(found[0], rel=1e-9)


REAL = {
    ("vw/dsjson_cb.json", "uniform"): (0.1535, 0.0313, 0.1690, 0.0831, 0.1833, 0.2573, 5.68),
    ("vw/dsjson_cb.json", "candidate:Cappucino"):
        (0.3069, 0.1101, 0.6667, 0.1607, 0.5523, 0.0876, 9.00),
    ("vw/dsjson_cb.json", "candidate:Latte"):
        (0.1023, 0.0707, 0.0952, 0.1007, -0.0223, 0.4934, 1.51),
    ("vw/ccb_data.json", "uniform"): (0.4327, 0.0506, 0.4327, 0.0506, 0.4309, 0.0508, 66),
    ("vw/cb_test_medium.ldf", "uniform"):
        (-0.3333, 0.1111, -0.4000, 0.1600, -0.4843, 0.0644, 9.62),
    ("obd_men/bts", "uniform"): (0.002566, 0.0012, 0.002775, 0.001312, 0.004886, 0.001344, 177.2),
    ("obd_men/bts", "lowest:item_feature_0"): (0, 0, 0, 0, 0.002678, 0.004657, 6.12),
    ("obd_men/random", "uniform"): (0.0035, 0.001321, 0.0035, 0.001321, 0.00345, 0.001327, 2000),
    ("obd_men/random", "lowest:item_feature_0"):
        (0.034, 0.024036, 0.032258, 0.022445, 0.030044, 0.023822, 62.0),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "policy"), REAL)
def test_real_logs_have_their_right_values(name, policy):
    log = read_log(real() / name)
    e, _, found, target = numbers_of(log, policy)
    got = [x for n in NAMES for x in (found[n].value, found[n].se)]
    tolerance = 1e-6 if "obd" in name else 6e-5
    assert got == pytest.approx(REAL[name, policy][:6], abs=tolerance)
    assert support(e, target).ess == pytest.approx(REAL[name, policy][6], abs=0.05)


def test_vowpal_wabbit_divides_by_blocks_without_label():
    """Its sum of losses is 3.333333; cb_adf costs are negative rewards."""
    _, w, _, _ = numbers_of(read_log(real() / "vw/cb_test_medium.ldf"), "uniform")
    log = read_log(real() / "vw/cb_test_medium.ldf")
    assert -(w * log.decisions["reward"].to_numpy()).sum() == pytest.approx(10 / 3, abs=1e-6)


PROPENSITIES = {
    "38-times-0.7.toml": (1.448, 0.068, 2.6e12, "all"),
    "39-one-over-n.toml": (1.0, 0.0, 9e8, "lowest x"),
}


@pytest.mark.parametrize("name", PROPENSITIES)
def test_propensities_that_are_not_those_of_the_choices_are_found(name):
    mean, se, e_value, most = PROPENSITIES[name]
    tests = checked_propensities_of(case(name))
    assert tests.mean_weight == pytest.approx(mean, abs=6e-4)
    assert tests.mean_weight_se == pytest.approx(se, abs=6e-4)
    assert tests.e_value == pytest.approx(e_value, rel=0.05)
    assert tests.most.name == most
    assert "propensities_contradicted" in [c.code for c in case(name).cautions]


def test_overrides_that_depend_on_the_draw_are_found():
    assert override_propensities_of(case("44-override-by-choice.toml")).e_value == pytest.approx(
        8e4, rel=0.1
    )
    assert "override_depends" in [c.code for c in case("44-override-by-choice.toml").cautions]
    assert override_propensities_of(case("17-override-two-names.toml")).e_value < 1


def good_logs():
    """Return the names of the good logs."""
    return sorted({row.file for row in right_values()} - {"50-twelve-decisions.toml"})


@pytest.mark.parametrize("name", good_logs())
def test_good_logs_raise_no_false_alarm(name):
    tests = checked_propensities_of(case(name))
    assert tests.e_value < 1
    assert np.isnan(tests.p_value) or tests.p_value > 0.05
    told = {c.code for c in case(name).cautions}
    assert not told & {"propensities_contradicted", "override_depends", "deterministic", "leak",
                       "censored_by_choice", "drift"}  # fmt: skip


CAUTIONS = {
    "32-propensity-zero.toml": {"quarantined"},
    "37-deterministic.toml": {"deterministic"},
    "41-no-propensity.toml": {"no_propensities"},
    "42-lost-by-choice.toml": {"censored", "censored_by_choice"},
    "49-greedy-part-says-1.toml": {"partly_deterministic"},
    "20-many-single-candidates.toml": set(),
    "01-long.toml": set(),
}


@pytest.mark.parametrize("name", CAUTIONS)
def test_cases_have_their_cautions(name):
    assert {c.code for c in case(name).cautions} == CAUTIONS[name]


def test_the_loss_of_rewards_is_told_with_its_numbers():
    [caution] = [c for c in case("42-lost-by-choice.toml").cautions
                 if c.code == "censored_by_choice"]  # fmt: skip
    assert caution.numbers["chi_square"] == pytest.approx(35.2, abs=0.05)
    assert caution.numbers["degrees"] == 1


@pytest.mark.parametrize(
    ("name", "policy", "verdict"),
    [
        ("01-long.toml", "uniform", ANSWERS),
        ("01-long.toml", "lowest:x", ROUGHLY),
        ("21-no-support.toml", "uniform", CANNOT),
        ("37-deterministic.toml", "uniform", CANNOT),
        ("37-deterministic.toml", "lowest:x", ANSWERS),
        ("50-twelve-decisions.toml", "lowest:x", CANNOT),
        ("09-router.toml", "uniform", ROUGHLY),
    ],
)
def test_what_a_log_can_answer(name, policy, verdict):
    e, _, _, target = numbers_of(case(name), policy)
    assert support(e, target).verdict == verdict


def test_the_covered_part_and_bounds_without_support():
    for policy, covered, low, high in (
        ("uniform", 0.5564, 0.056, 1.057), ("lowest:x", 0.5533, -0.024, 0.984),
    ):  # fmt: skip
        e, _, _, target = numbers_of(case("21-no-support.toml"), policy)
        assert support(e, target).covered == pytest.approx(covered, abs=5e-5)
        assert bounds(e, target) == pytest.approx((low, high), abs=6e-4)


def test_propensities_are_estimated_where_none_were_logged():
    log = case("41-no-propensity.toml")
    e = logged_decisions(log)
    ids = log.candidates.select(pl.col("id").alias("its id"))
    features = np.hstack([design(log.features, 0), design(ids, 0)])
    found = estimate_propensities(e, features, folds_of(log.decisions["unit_id"]))
    assert found.log_likelihood > found.uniform
    assert not found.deterministic
    known = with_propensities(e, found.probability)
    target = best(known, -log.feature("x"))
    value = values(known, target, reference_q(log, e, log.weighted))["dr"].value
    assert value == pytest.approx(0.627, abs=0.03)
    assert sensitivity(known, target, 1.5) == pytest.approx((0.553, 0.674), abs=0.01)


# What holds for every log


def log_with(**changes):
    """Return the log of a case whose table has changed columns."""
    table = pl.read_csv(cases() / "01-long.csv").with_columns(**changes)
    mapping = case("01-long.toml").mapping.as_table()
    return table, mapping


def test_rewards_scale_and_shift_values():
    _, _, base, _ = numbers_of(case("01-long.toml"), "uniform")
    table, mapping = log_with(reward=pl.col("reward") * 3.0 + 2.0)
    _, w, found, _ = numbers_of(read_log(table, mapping), "uniform")
    for name in ("snis", "dr", "dm"):
        assert found[name].value == pytest.approx(3 * base[name].value + 2, rel=1e-9)
        assert found[name].se == pytest.approx(3 * base[name].se, rel=1e-9)
    assert found["is"].value == pytest.approx(3 * base["is"].value + 2 * w.mean(), rel=1e-9)


def test_a_cost_is_a_negative_reward():
    table, mapping = log_with()
    columns = {k: v for k, v in mapping["columns"].items() if k != "reward"}
    costs = read_log(table, {**mapping, "columns": {**columns, "cost": "reward"}})
    one, other = (numbers_of(log, "lowest:x")[2] for log in (costs, case("01-long.toml")))
    assert [one[n].value for n in NAMES] == pytest.approx([-other[n].value for n in NAMES])


@pytest.mark.parametrize("keep", [1.0, 0.25])
def test_records_that_were_all_kept_alike_change_no_value(keep):
    table, mapping = log_with(keep=pl.lit(keep))
    log = read_log(table, {**mapping, "columns": {**mapping["columns"], "keep": "keep"}})
    assert log.decisions["weight"].unique().to_list() == [1.0 / keep]
    one, other = (numbers_of(log, "lowest:x")[2] for log in (log, case("01-long.toml")))
    for name in NAMES:
        assert one[name].value == pytest.approx(other[name].value, rel=1e-12)
        assert one[name].se == pytest.approx(other[name].se, rel=1e-12)


def test_infeasible_candidates_change_nothing():
    table = long_table(40)
    extra = table.unique("id", maintain_order=True).with_columns(
        arm=pl.lit("oak"), x=pl.lit(-1.0), ok=0, chosen=0, p=0.0, r=None
    )
    more = read_log(pl.concat([table, extra], how="vertical_relaxed"), MAPPING)
    one, other = (numbers_of(log, "lowest:x")[2] for log in (read_log(table, MAPPING), more))
    for name in NAMES:
        assert one[name].value == pytest.approx(other[name].value, rel=1e-9)
    assert checked_propensities_of(more).mean_weight == pytest.approx(
        checked_propensities_of(read_log(table, MAPPING)).mean_weight
    )


def test_the_loggers_own_probabilities_give_the_logged_mean():
    e = logged_decisions(case("01-long.toml"))
    found = values(e, e.probability)
    assert weights(e, e.probability) == pytest.approx(1.0)
    assert found["is"].value == pytest.approx(found["snis"].value)
    assert found["is"].value == pytest.approx(case("01-long.toml").decisions["reward"].mean())


def test_the_correction_of_counted_propensities():
    """Two of ten draws won: 11 / 3 in place of 5."""
    e = dataclasses.replace(
        logged_decisions(case("01-long.toml")), propensity=np.full(96, 0.2), draws=np.full(96, 10.0)
    )
    assert e.inverse[e.several] == pytest.approx(11 / 3)
    assert (e.inverse[~e.several] == 1.0).all()
