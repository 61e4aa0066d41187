"""Tests of logs of decisions that are exported and read again."""

import json

import numpy as np
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
from tests.pipeline.decisions.decision_cases import ROWS, case, long_table


def written(log, tmp_path):
    folder = convert(log, tmp_path / "d", "log").folder
    return export(folder, "dsjson", tmp_path / "again.dsjson")


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


@pytest.mark.parametrize(
    "name",
    ["01-long.toml", "05-log.dsjson",
     *(pytest.param(name, marks=pytest.mark.slow) for name in (
         "02-long-propensity-of-chosen.toml", "03-nested.toml", "06-log.cbadf.txt", "07-obp.npz",
         "09-router.toml", "10-sessions.toml", "11-ccb.dsjson", "12-pdrop.dsjson", "14-cost.toml",
         "15-keep-prob.toml", "16-override-flag.toml", "20-many-single-candidates.toml"))],
)  # fmt: skip
def test_what_is_read_again_gives_the_same_estimates(name, tmp_path):
    log = case(name)
    path = written(log, tmp_path).path
    propensity = {"kind": log.mapping.propensity.kind}
    if propensity["kind"] == "monte_carlo":
        propensity["draws"] = int(log.decisions["draws"].drop_nulls()[0])
    again = read_log(path, {"kind": "decisions", "shape": "dsjson", "file": str(path),
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
