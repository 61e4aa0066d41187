"""Tests of logs of decisions that are exported and read again."""

import json

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.decisions.answers import answer
from hindcast.pipeline.decisions.arrays import logged_decisions
from hindcast.pipeline.decisions.conversion import convert
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.targets import numeric, target_of
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.estimators.decisions.values import importance_sampling
from hindcast.pipeline.exports import export
from hindcast.pipeline.testing import check_export
from tests.pipeline.decisions.decision_cases import ROWS, case, long_table


def written(log, tmp_path, form="dsjson"):
    folder = convert(log, tmp_path / "d", "log").folder
    suffix = {"dsjson": "dsjson", "obp": "npz"}[form]
    return export(folder, form, tmp_path / f"again.{suffix}")


def estimates(log):
    e = logged_decisions(log)
    names = ["uniform", *(f"lowest:{name}" for name in numeric(log)[:1])]
    found = answer(log, {name: target_of(name, log, e) for name in names}).estimates
    return found.filter(found["estimator"].is_in(["is", "snis", "dr"])).select(
        "policy", "estimator", "value", "low", "high", "ess"
    )


def test_a_record_is_as_vowpalwabbit_reads_it(tmp_path):
    log = read_log(long_table().with_columns(ok=(long_table()["arm"] != "ash").cast(int)), {
        **ROWS, "columns": {k: v for k, v in ROWS["columns"].items() if k != "feasible"},
    })  # fmt: skip
    lines = written(log, tmp_path).path.read_text().splitlines()
    assert len(lines) == 12
    second = json.loads(lines[1])  # three candidates, of which the second was taken
    assert second["_labelIndex"] == 1
    assert second["_label_Action"] == 2
    assert second["a"] == [2, 1, 3]
    assert second["p"] == [0.3, 0.5, 0.2]
    assert second["_label_probability"] == 0.3
    assert second["_label_cost"] == -(1 % 3 - 0.5)
    assert second["EventId"] == "d1"
    assert second["c"]["hour"] == 1.0
    assert [c["_tag"] for c in second["c"]["_multi"]] == ["ash", "elm", "fir"]
    assert second["c"]["_multi"][1]["size"] == "large"


@pytest.mark.parametrize(("side", "name"), [
    ("context", "c"), ("context", "_hour"), ("candidates", "price._raw"),
])  # fmt: skip
def test_names_that_dsjson_has_for_itself_are_refused(tmp_path, side, name):
    column = {"context": "hour", "candidates": "x"}[side]
    log = read_log(long_table(), {**ROWS, side: {"numbers": {name: column}}})
    with pytest.raises(InputError, match=f"'{name}' of the {side} has a name that is no feature"):
        written(log, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dsjson", "obp"])
def test_a_split_is_exported_of_a_log_without_features(tmp_path, form):
    columns = {name: column for name, column in ROWS.items() if name != "context"}
    columns["candidates"] = {"numbers": {}}
    log = read_log(long_table(), {**columns, "split": {"by": "time", "test": 0.25}})
    folder = convert(log, tmp_path / "d", "log").folder
    out = tmp_path / ("test.dsjson" if form == "dsjson" else "test.npz")
    assert len(read_log(export(folder, form, out, split="test").path)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dsjson", "obp"])
@pytest.mark.parametrize(
    "name",
    ["01-long.toml", "05-log.dsjson",
     *(pytest.param(name, marks=pytest.mark.slow) for name in (
         "02-long-propensity-of-chosen.toml", "03-nested.toml", "06-log.cbadf.txt", "07-obp.npz",
         "09-router.toml", "10-sessions.toml", "11-ccb.dsjson", "12-pdrop.dsjson", "14-cost.toml",
         "15-keep-prob.toml", "16-override-flag.toml", "20-many-single-candidates.toml"))],
)  # fmt: skip
def test_what_is_read_again_gives_the_same_estimates(name, form, tmp_path):
    log = case(name)
    path = written(log, tmp_path, form).path
    propensity = {"kind": log.mapping.propensity.kind}
    if propensity["kind"] == "monte_carlo":
        propensity["draws"] = int(log.decisions["draws"].drop_nulls()[0])
    again = read_log(path, {"kind": "decisions", "shape": form, "file": str(path),
                            "propensity": propensity})  # fmt: skip
    assert again.counts["in_weights"] == log.counts["in_weights"]
    assert again.counts["units"] == log.decisions.filter(log.weighted)["unit_id"].n_unique()
    one, two = estimates(log), estimates(again)
    for column in ("value", "low", "high", "ess"):
        assert two[column].to_list() == pytest.approx(one[column].to_list(), rel=1e-6, abs=1e-9)


def test_only_feasible_candidates_and_decisions_with_reward_are_written(tmp_path):
    table = long_table()
    ok = (table["arm"] != "elm") | (table["chosen"] == 1)
    columns = {k: v for k, v in ROWS["columns"].items() if k != "probability"}
    table = table.with_columns(ok=ok.cast(int), p=0.5)
    made = written(read_log(table, {**ROWS, "columns": {**columns, "propensity": "p"}}), tmp_path)
    records = [json.loads(line) for line in made.path.read_text().splitlines()]
    assert sum(len(r["c"]["_multi"]) for r in records) == int(ok.sum())
    assert all(r["c"]["_multi"][r["_labelIndex"]] for r in records)
    assert not any("a" in r for r in records if len(r["c"]["_multi"]) > 1)
    assert f"{int((~ok).sum())} infeasible candidates are not in it" in made.notes


def test_a_log_without_propensities_is_refused(tmp_path):
    folder = convert(case("41-no-propensity.toml"), tmp_path / "d", "log").folder
    with pytest.raises(InputError, match="have no propensity"):
        export(folder, "dsjson", tmp_path / "a.dsjson")
    assert not (tmp_path / "a.dsjson").exists()


@pytest.mark.slow
def test_a_dataset_that_was_built_is_read_as_sessions(tiny_dataset, tmp_path):
    made = export(tiny_dataset, "dsjson", tmp_path / "built.dsjson")
    log, dataset = read_log(made.path), ds.open(tiny_dataset)
    rows = dataset.transitions().collect()
    episodes = dataset.episodes()
    assert log.counts["quarantined"] == 0
    assert len(log) == rows.height
    assert log.counts["sessions"] == episodes.height
    assert log.counts["units"] == episodes["window"].n_unique()
    assert log.decisions["reward"].to_list() == pytest.approx(rows["reward"].to_list())
    assert set(numeric(log)) == {dataset.spec.candidates[i].name
                                 for i in dataset.spec.learned_candidates}  # fmt: skip
    lengths = np.array([sum(feasible) for feasible in rows["feasible"]])
    weight = np.where(lengths > 1, 1 / lengths / rows["propensity"].to_numpy(), 1.0)
    e = logged_decisions(log)
    found = importance_sampling(e, target_of("uniform", log, e)).value
    assert found == pytest.approx((weight * rows["reward"].to_numpy()).mean(), rel=1e-6)


def arrays_of(path):
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def test_obp_pads_with_probability_0(tmp_path):
    """Decisions of two and three candidates; the third arm is none in every other round."""
    arrays = arrays_of(written(read_log(long_table(), ROWS), tmp_path, "obp").path)
    assert arrays["hindcast_arm"].tolist() == ["ash", "elm", "fir"]
    assert (arrays["n_rounds"], arrays["n_actions"]) == (12, 3)
    assert arrays["pi_b"][:2, :, 0].tolist() == [[0.25, 0.75, 0.0], [0.5, 0.3, 0.2]]
    assert arrays["hindcast_place"][:2].tolist() == [[0, 1, -1], [0, 1, 2]]
    assert arrays["action"][:2].tolist() == [0, 1]
    assert arrays["pscore"][:2].tolist() == [0.25, 0.3]
    assert arrays["action_context"].shape == (12, 3, 3)  # x changes; size has two levels
    assert arrays["hindcast_action_context"].tolist() == ["x", "size=large", "size=small"]
    assert (arrays["action_context"][0, 2] == 0).all()
    chosen = arrays["action_context"][np.arange(12), arrays["action"]]
    assert chosen[1].tolist() == pytest.approx([(3 + 5) % 7 / 7, 1, 0])


def test_arms_whose_features_never_change_are_described_once(tmp_path):
    mapping = {**ROWS, "candidates": {"categories": ["size"]}}
    arrays = arrays_of(written(read_log(long_table(), mapping), tmp_path, "obp").path)
    assert arrays["action_context"].tolist() == [[0, 1], [1, 0], [0, 1]]


@pytest.mark.slow
def test_the_order_of_candidates_survives_obp(tmp_path):
    """The second decision lists its arms from behind, so that its first one is another arm."""
    table = long_table()
    place = np.arange(table.height)
    turned = table.with_columns(order=np.where(table["id"] == "d1", -place, place))
    turned = turned.sort(["t", "order"]).drop("order")
    log = read_log(turned, ROWS)
    again = read_log(written(log, tmp_path, "obp").path)
    for one in (log, again):
        start = int(one.offsets[1])
        assert one.candidates["id"].cast(str)[start : start + 3].to_list() == ["fir", "elm", "ash"]
    assert again.decisions["chosen"].to_list() == log.decisions["chosen"].to_list()
    assert again.feature("x").tolist() == log.feature("x").tolist()


@pytest.mark.slow
def test_obp_refuses_more_than_1000_arms(tmp_path):
    table = long_table(600).with_columns(arm=pl.col("id") + "/" + pl.col("arm"))
    folder = convert(read_log(table, ROWS), tmp_path / "d", "log").folder
    with pytest.raises(InputError, match=r"1,500 arms, expected at most 1,000"):
        export(folder, "obp", tmp_path / "a.npz")
    assert not (tmp_path / "a.npz").exists()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dsjson", "obp"])
def test_an_export_is_whole_or_not_there_and_the_same_twice(form, tmp_path):
    check_export(form, convert(read_log(long_table(), ROWS), tmp_path / "d", "log").folder)


def test_obp_is_for_logs_of_decisions(tiny_dataset, tmp_path):
    with pytest.raises(InputError, match="episodes of a simulator"):
        export(tiny_dataset, "obp", tmp_path / "a.npz")
