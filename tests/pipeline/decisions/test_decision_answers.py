"""Tests of what a log of decisions answers, and of what it refuses to answer."""

import json

import numpy as np
import polars as pl
import pytest

import hindcast
from hindcast.flows.cli import main
from hindcast.pipeline.decisions.answers import answer
from hindcast.pipeline.decisions.arrays import logged_decisions
from hindcast.pipeline.decisions.asking import Options
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.targets import target_of
from hindcast.pipeline.errors import InputError, UnknownName
from tests.pipeline.decisions.decision_cases import ROWS, case, long_table, real


def asked(log, *policies, **options):
    e = logged_decisions(log)
    return answer(log, {p: target_of(p, log, e) for p in policies}, Options(**options))


def row(found, policy, estimator):
    return found.estimates.filter(policy=policy, estimator=estimator).row(0, named=True)


@pytest.mark.slow
def test_the_verdict_stands_in_every_row():
    found = asked(case("01-long.toml"), "uniform", "lowest:x")
    assert found.estimates["verdict"].null_count() == 0
    assert found.answerable == {"uniform": True, "lowest:x": False}
    assert row(found, "uniform", "dr")["verdict"] == "answers"
    assert "answers roughly" in found.sentences["lowest:x"]
    first = found.estimates.filter(policy="uniform")["estimator"].to_list()
    assert first == ["dr", "snis", "is", "sndr", "dm", "clipped", "switch"]


def test_intervals_of_several_policies_are_simultaneous():
    one, two = (asked(case("01-long.toml"), *p) for p in (("uniform",), ("uniform", "lowest:x")))
    alone, wide = row(one, "uniform", "dr"), row(two, "uniform", "dr")
    assert alone["low"] == pytest.approx(wide["low_alone"])
    assert wide["low"] < alone["low"]
    assert wide["high"] > alone["high"]


def test_a_deterministic_log_answers_for_itself_alone():
    found = asked(case("37-deterministic.toml"), "uniform", "lowest:x")
    [none] = found.estimates.filter(policy="uniform").iter_rows(named=True)
    assert none["estimator"] == "none"
    assert none["value"] is None
    assert "110 decisions with a choice was certain (p = 1)" in found.sentences["uniform"]
    assert "draw uniformly in 10% of the decisions: about 2,000" in found.sentences["uniform"]
    assert "0.65 (0.5704 .. 0.7296)" in found.sentences["lowest:x"]
    assert row(found, "lowest:x", "snis")["value"] == pytest.approx(0.65, abs=1e-4)
    assert found.answerable["lowest:x"]


def test_no_support_gives_the_covered_part_and_bounds():
    found = asked(case("21-no-support.toml"), "uniform")
    assert found.estimates["estimator"].to_list() == ["covered_part", "bounds"]
    assert row(found, "uniform", "bounds")["value"] is None
    assert row(found, "uniform", "bounds")["low"] == pytest.approx(0.056, abs=6e-4)
    assert row(found, "uniform", "bounds")["high"] == pytest.approx(1.057, abs=6e-4)
    assert "no_support" in [c.code for c in found.cautions]


@pytest.mark.parametrize(
    ("name", "code", "policy", "estimator", "value"),
    [
        ("39-one-over-n.toml", "propensities_contradicted", "lowest:x", "is", 1.1610),
        ("38-times-0.7.toml", "propensities_contradicted", "uniform", "snis", 0.5112),
        ("44-override-by-choice.toml", "override_depends", "lowest:price", "is", 0.41),
        ("44-override-by-choice.toml", "override_depends", "uniform", "dr", 0.14),
    ],
)
def test_a_contradiction_gives_numbers_only_if_it_is_accepted(name, code, policy, estimator, value):
    found = asked(case(name), policy)
    assert found.estimates["estimator"].to_list() == ["none"]
    assert f"--accept {code}" in found.sentences[policy]
    taken = row(asked(case(name), policy, accept=(code,)), policy, estimator)
    assert taken["value"] == pytest.approx(value, abs=6e-3)
    assert taken["accepted"] == code


@pytest.mark.slow
def test_estimated_propensities_are_marked_with_a_range():
    log = case("41-no-propensity.toml")
    refused = asked(log, "lowest:x")
    assert "--estimate-propensities" in refused.sentences["lowest:x"]
    found = asked(log, "lowest:x", estimate=True)
    assert found.estimates["propensities"].unique().to_list() == ["estimated"]
    assert "estimated" in found.sentences["lowest:x"]
    assert row(found, "lowest:x", "dr")["value"] == pytest.approx(0.627, abs=0.03)
    assert row(found, "lowest:x", "is")["low"] is None  # the noise of 1 / p biases it
    snis = row(found, "lowest:x", "snis")
    assert snis["low_odds_1.5"] == pytest.approx(0.553, abs=0.01)
    assert snis["high_odds_1.5"] == pytest.approx(0.674, abs=0.01)
    [told] = [c for c in found.cautions if c.code == "estimated"]
    assert "no test can show" in told.text


def test_few_effective_decisions_have_no_interval():
    found = asked(case("50-twelve-decisions.toml"), "lowest:x")
    dr = row(found, "lowest:x", "dr")
    assert (dr["low"], dr["verdict"]) == (None, "cannot answer")
    assert dr["value"] == pytest.approx(0.64, abs=1e-4)
    assert "4.9 effective decisions" in found.sentences["lowest:x"]


SESSIONS = {
    ("10-sessions.toml", "uniform"): (1.3243, 0.1114, 1.3735, 0.1151, 1.4152, 1.4107, 49.15),
    ("10-sessions.toml", "lowest:x"): (1.7008, 0.7944, 1.7103, 0.4846, 2.2040, 1.9715, 6.48),
    ("11-ccb.dsjson", "uniform"): (0.5126, 0.0300, 0.5152, 0.0295, 0.5485, 0.5463, 67.28),
    ("11-ccb.dsjson", "lowest:a.x"): (0.5827, 0.1636, 0.7993, 0.1330, 0.5864, 0.6075, 14.27),
}


@pytest.mark.parametrize(("name", "policy"), SESSIONS)
def test_sessions_have_their_right_values(name, policy):
    found = asked(case(name), policy)
    rows = {n: row(found, policy, f"sessions_{n}") for n in ("is", "pdis", "snis", "snpdis")}
    got = (rows["is"]["value"], rows["is"]["se"], rows["pdis"]["value"], rows["pdis"]["se"],
           rows["snis"]["value"], rows["snpdis"]["value"])  # fmt: skip
    assert got == pytest.approx(SESSIONS[name, policy][:6], abs=6e-5)
    assert rows["is"]["ess"] == pytest.approx(SESSIONS[name, policy][6], abs=6e-3)


def test_few_effective_sessions_are_told():
    found = asked(case("10-sessions.toml"), "lowest:x")
    assert any("6.5 effective sessions of 56" in c.text for c in found.cautions)
    assert row(found, "lowest:x", "sessions_is")["verdict"] == "cannot answer"


def test_the_raw_number_stands_beside_the_corrected_one():
    dr = row(asked(case("13-monte-carlo-64.toml"), "uniform"), "uniform", "dr")
    assert (dr["value"], dr["raw_value"]) == pytest.approx((0.2544, 0.2695), abs=6e-5)


def test_logged_and_its_own_probabilities_have_the_weight_1():
    found = asked(case("01-long.toml"), "logged", "column:probability")
    mean = case("01-long.toml").decisions["reward"].mean()
    for policy in ("logged", "column:probability"):
        assert row(found, policy, "is")["value"] == pytest.approx(mean)
        assert row(found, policy, "snis")["value"] == pytest.approx(mean)
        assert row(found, policy, "is")["largest_weight"] == pytest.approx(1.0)
    assert found.logged["value"] == pytest.approx(mean)


def test_the_logged_mean_counts_overridden_decisions():
    assert asked(case("16-override-flag.toml"), "uniform").logged["value"] == pytest.approx(
        0.4259, abs=6e-5
    )


def test_scores_and_candidates_as_policies():
    table = long_table().with_columns(score=-pl.col("x"))
    mapping = {**ROWS, "candidates": {**ROWS["candidates"], "numbers": ["x", "score"]}}
    log = read_log(table, mapping)
    e = logged_decisions(log)
    assert (target_of("column:score", log, e) == target_of("lowest:x", log, e)).all()
    elm = target_of("candidate:elm", log, e)
    assert elm.sum() == 12
    assert (log.candidates["id"].cast(pl.String).to_numpy()[elm == 1] == "elm").all()
    assert target_of("first", log, e)[log.offsets[:-1]].all()
    with pytest.raises(UnknownName, match="did you mean 'x'"):
        target_of("lowest:xx", log, e)
    with pytest.raises(UnknownName, match="did you mean 'elm'"):
        target_of("candidate:elms", log, e)


@pytest.mark.slow
def test_a_log_without_clicks_in_its_weights_has_no_interval_of_width_0():
    found = asked(read_log(real() / "obd_men/bts"), "lowest:item_feature_0")
    value = row(found, "lowest:item_feature_0", "is")
    assert (value["value"], value["low"]) == (0.0, None)
    assert "cannot answer" in value["verdict"]


@pytest.mark.slow
def test_few_rewards_give_the_difference_to_the_log_no_interval_either():
    """Weights without a click would say that the policy is clearly worse than the log."""
    found = asked(read_log(real() / "obd_men/random"), "lowest:item_feature_0")
    value = row(found, "lowest:item_feature_0", "dr")
    assert (value["ess"], value["difference_low"]) == (pytest.approx(62.0), None)
    assert value["difference"] == pytest.approx(0.030044 - 0.0035, abs=1e-5)


def test_decisions_without_the_candidate_are_told():
    """Every other decision has no fir."""
    found = asked(case_of(30), "candidate:fir", "candidate:elm")
    [told] = [c for c in found.cautions if c.code == "candidate_absent"]
    assert told.text.startswith("candidate:fir: fir cannot be taken in 50.0% of the decisions")


def case_of(decisions):
    return read_log(long_table(decisions, np.random.default_rng(6)), ROWS)


def test_policies_on_several_splits_are_not_compared():
    log = case("01-long.toml")
    e = logged_decisions(log)
    targets = {p: target_of(p, log, e) for p in ("uniform", "first")}
    found = answer(log, targets, Options(), {"first": "test"})
    [told] = [c for c in found.cautions if c.code == "several_splits"]
    assert "(uniform on all; first on test)" in told.text
    assert not [c for c in answer(log, targets).cautions if c.code == "several_splits"]


@pytest.fixture
def dataset(tmp_path):
    table = long_table(240, np.random.default_rng(1))
    hindcast.ingest("decisions", table, tmp_path / "d", mapping=ROWS)
    return tmp_path / "d"


def lowest(context, candidates, feasible, spec):
    """Take the lowest x."""
    return -candidates[:, spec.column("x")]


@pytest.mark.slow
def test_ope_of_a_log_in_python(dataset, tmp_path):
    found = hindcast.ope(dataset, ["uniform", "lowest:x", lowest], out=tmp_path / "o")
    one, other = row(found, "lowest:x", "dr"), row(found, "lowest", "dr")
    assert one["value"] == pytest.approx(other["value"])
    assert pl.read_parquet(tmp_path / "o/estimates.parquet").equals(found.estimates)
    assert pl.read_parquet(tmp_path / "o/support.parquet")["policy"].to_list() == [
        "uniform", "lowest:x", "lowest"]  # fmt: skip
    by = pl.read_parquet(tmp_path / "o/support_by.parquet")
    assert set(by["by"].unique()) == {"candidate", "size", "tenth"}
    about = json.loads((tmp_path / "o/ope.json").read_text())
    assert about["answerable"] == dict(found.answerable)
    test = hindcast.ope(dataset, ["uniform"], split="test")
    counts = case_counts(dataset)
    assert row(test, "uniform", "is")["decisions"] == counts["test"]


def case_counts(dataset):
    manifest = json.loads((dataset / "manifest.json").read_text())
    return manifest["provenance"]["counts"]


@pytest.mark.slow
def test_ope_of_a_log_on_the_command_line(dataset, tmp_path, capsys):
    (tmp_path / "mine.py").write_text("def first(c, a, f):\n    return -a[:, 0]\n")
    code = main(["ope", str(dataset), "--policy", "uniform", f"{tmp_path}/mine.py:first"])
    out = capsys.readouterr().out
    assert code == 0
    assert "simultaneous over the 2 policies" in out
    assert out.index("uniform: ") < out.index("dr  ")
    assert main(["ope", str(dataset), "--policy", "lowest:z"]) == 2
    assert "numeric feature" in capsys.readouterr().err
    assert main(["ope", str(dataset), "--policy", "tetris"]) == 2
    assert "no policy of a log" in capsys.readouterr().err


@pytest.mark.slow
def test_what_a_log_cannot_be_asked(dataset):
    with pytest.raises(InputError, match="split 'tests'"):
        hindcast.ope(dataset, ["uniform"], split="tests")
    with pytest.raises(InputError, match="given twice"):
        hindcast.ope(dataset, ["uniform", "uniform"])
    with pytest.raises(UnknownName, match="contradiction"):
        hindcast.ope(dataset, ["uniform"], accept=["everything"])


@pytest.mark.slow
def test_units_make_intervals_wider_than_decisions():
    table = long_table(240, np.random.default_rng(1)).with_columns(
        user=pl.col("id").str.slice(1).cast(pl.Int64) // 12
    )
    plain = asked(read_log(table, ROWS), "uniform")
    mapping = {**ROWS, "columns": {**ROWS["columns"], "unit": "user"}}
    units = asked(read_log(table, mapping), "uniform")
    assert row(units, "uniform", "is")["units"] == 20
    assert row(units, "uniform", "is")["value"] == pytest.approx(
        row(plain, "uniform", "is")["value"]
    )
    assert np.isfinite(row(units, "uniform", "is")["se"])
