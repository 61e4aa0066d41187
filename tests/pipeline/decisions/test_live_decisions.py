"""Tests of single decisions: their features are those of the dataset, and their log closes."""

import json
import re

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.decisions.encoding import encode
from hindcast.pipeline.decisions.live.description import Description, read_description
from hindcast.pipeline.decisions.live.records import Records
from hindcast.pipeline.decisions.log import MOST_LEVELS, DecisionLog
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.recipes.toml import table_toml
from hindcast.pipeline.scenarios.decisions import IDENTIFIER
from tests.pipeline.decisions.decision_cases import ROWS, case, cases, long_table

LOGS = (
    "01-long.toml", "03-nested.toml", "05-log.dsjson", "06-log.cbadf.txt", "07-obp.npz", "08-obd",
    "47-a-counts-from-0.dsjson",
    "09-router.toml", "10-sessions.toml", "14-cost.toml", "43-not-finite.toml",
)  # fmt: skip


def described(log: DecisionLog) -> Description:
    encoded = encode(log)
    kinds = {"context": encoded.context_kinds, "candidates": encoded.candidate_kinds}
    return Description(
        log.mapping, kinds, {n: [*v][:MOST_LEVELS] for n, v in log.vocabulary.items()}
    )


def known(row):
    """Return a row without what is missing."""
    return {k: v for k, v in row.items() if v is not None and str(v) != "nan"}


def records_of(name: str, log: DecisionLog, made: Records) -> list[dict]:
    """Return the decisions of a log as records that are still to be decided."""
    if log.mapping.shape in ("nested", "dsjson"):
        files = [cases() / f for f in log.mapping.files]
        records = [json.loads(s) for s in files[0].read_text("utf-8-sig").splitlines() if s]
        return [records[line - 1] for line in log.decisions["line"]]
    contexts = log.context.cast({pl.Categorical: pl.String}).to_dicts() or [{}] * len(log)
    features = log.features.cast({pl.Categorical: pl.String}).to_dicts()
    ids, feasible = log.candidates["id"].cast(pl.String), log.candidates["feasible"]
    m, found = made.mapping, []
    for d, row in enumerate(log.decisions.iter_rows(named=True)):
        at = range(log.offsets[d], log.offsets[d + 1])
        if made.vowpal:
            multi = [{"_tag": ids[k], **known(features[k])} for k in at]
            found.append({"EventId": row["id"], "c": {**known(contexts[d]), "_multi": multi}})
            continue
        names, own = {**m.candidates.numbers, **m.candidates.categories}, m.candidates.feasible
        listed = [
            {m.candidates.id: ids[k], **({own: feasible[k]} if own else {})}
            | {names[n]: v for n, v in known(features[k]).items()}
            for k in at
        ]  # fmt: skip
        record = {m.columns.decision: row["id"], m.candidates.list: listed}
        for what in ("session", "unit", "time"):
            if path := getattr(m.columns, what):
                record[path] = row[what]
        paths = {**m.context.numbers, **m.context.categories}
        found.append(record | {paths[n]: v for n, v in known(contexts[d]).items()})
    return found


def served(records, made, folder, draw):
    """Decide all records, write their log with rewards, and return it as it is read."""
    lines, outcomes = [], []
    mapping = made.mapping_of_log("served.jsonl", "served.outcomes.jsonl")
    for record in records:
        moment = made.read(record, "record")
        p = (
            np.where(moment.feasible, 1.0, 0.0)
            + 3.0 * (np.arange(len(moment.ids)) == 0) * moment.feasible
        )
        p = (p / p.sum()).tolist()
        choice = int(draw.choice(len(p), p=p))
        lines.append(json.dumps(made.logged(record, moment, moment.id, choice, p, "mine")))
        outcome = {mapping.outcomes.decision: moment.id, **nested(mapping.outcomes.terms)}
        outcomes.append(json.dumps(outcome | {mapping.outcomes.time or "at": "2031-04-01"}))
    (folder / "served.jsonl").write_text("\n".join(lines))
    (folder / "served.outcomes.jsonl").write_text("\n".join(outcomes))
    (folder / "served.toml").write_text(table_toml(mapping.as_table()))
    return read_log(folder / "served.toml")


def nested(terms):
    """Return rewards of 1 by their dotted paths."""
    made: dict = {}
    for path in terms:
        *parents, last = path.split(".")
        to = made
        for step in parents:
            to = to.setdefault(step, {})
        to[last] = 1.0
    return made


@pytest.mark.parametrize("name", LOGS)
def test_features_of_a_record_are_those_of_the_dataset(name):
    log = case(name)
    encoded, made = encode(log), Records(described(log))
    moments = [made.read(record, "record") for record in records_of(name, log, made)]
    assert [m.id for m in moments] == log.decisions["id"].to_list()
    assert [m.ids for m in moments] == [
        tuple(log.candidates["id"][a:b].cast(pl.String))
        for a, b in zip(log.offsets[:-1], log.offsets[1:], strict=True)
    ]
    feasible = np.concatenate([m.feasible for m in moments])
    assert feasible.tolist() == log.candidates["feasible"].to_list()
    for kinds, rows, expected in (
        (encoded.context_kinds, np.stack([m.context for m in moments]), encoded.of_context),
        (encoded.candidate_kinds, np.concatenate([m.candidates for m in moments]),
         encoded.candidate),
    ):  # fmt: skip
        for column, (feature, kind) in enumerate(kinds.items()):
            if kind != IDENTIFIER:
                right = expected(feature, np.arange(len(rows)))
                assert np.array_equal(rows[:, column], right, equal_nan=True), feature


@pytest.mark.parametrize("name", LOGS)
def test_the_log_of_decisions_made_is_ingested_with_the_same_features(name, tmp_path):
    log = case(name)
    made = Records(described(log))
    again = served(records_of(name, log, made), made, tmp_path, np.random.default_rng(0))
    assert not again.quarantine.height
    assert again.decisions["id"].to_list() == log.decisions["id"].to_list()
    assert (again.decisions["logger"] == "mine").all()
    assert again.counts["in_weights"] == len(log)
    assert {c.code for c in again.cautions} <= {"few_decisions", "leak", "drift"}
    for column in ("session", "unit", "time"):
        if log.mapping.shape not in ("obd", "cb_adf"):
            assert again.decisions[column].equals(log.decisions[column], null_equal=True), column
    several = np.diff(log.offsets) > 1
    assert (again.decisions["propensity"].to_numpy()[~several] == 1.0).all()
    sides = (log.context, again.context), (log.features, again.features)
    for before, after in sides:
        for feature in before.columns:
            one, other = before[feature], after[feature]
            if one.dtype == pl.Categorical:
                one, other = one.cast(pl.String), other.cast(pl.String)
            assert one.equals(other, null_equal=True), feature


def of_rows(**changed) -> Records:
    """Return the records of a small log in rows, without a missing number."""
    return Records(described(read_log(long_table(), {**ROWS, **changed})))


def record(**changed):
    listed = [{"arm": "ash", "x": 0.5, "size": "small"}, {"arm": "elm", "x": 1, "size": "large"}]
    return {"id": "n1", "hour": 3, "tier": "basic", "candidates": listed, **changed}


def test_what_the_training_did_not_have_is_read_as_ingest_reads_it_and_is_told():
    made = of_rows()
    kinds = made.description.kinds
    columns = [*kinds["candidates"]]
    odd = [{"arm": "new", "size": "giant"}, {"arm": 7, "x": "0.25", "size": None, "ok": False}]
    moment = made.read(record(candidates=odd, tier=4), "record")
    assert moment.ids == ("new", "7")
    assert moment.feasible.tolist() == [True, False]
    one, other = (dict(zip(columns, row, strict=True)) for row in moment.candidates)
    levels = [n for n in columns if n.startswith("size=")]
    assert [n for n in levels if one[n]] == ["size=*"]
    assert not any(other[n] for n in levels)
    assert np.isnan(one["x"])
    assert other["x"] == 0.25
    assert moment.unseen == (
        "tier is '4', no level of the training: read as tier=*",
        "x is missing, which it never was in the log: read as 0",
        "size is 'giant', no level of the training: read as size=*",
    )
    assert made.read(record(), "record").unseen == ()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([], "the record is a list, expected an object"),
        ({"candidates": None}, "candidates holds no candidates"),
        ({"candidates": [{"arm": "a", "x": 1}] * 2}, "two candidates have the same id"),
        ({"candidates": [{"arm": "a", "ok": 0}]}, "none of the 1 candidates is feasible"),
        ({"candidates": [{"arm": "a", "x": "much"}]}, "x is 'much', expected a number"),
        ({"candidates": [{"arm": "a", "x": 1e99}]}, "a number of the candidates is not finite"),
        ({"hour": 10**400}, "expected a finite number"),
        ({"id": "\ud800"}, "is no valid text"),
        ({"hour": float("inf")}, "hour is inf, expected a finite number"),
        ({"x": [1.0]}, "no error"),
        ({"candidates": ["a", "b"], "x": [1.0]}, "a list of 1 values beside 2 candidates"),
    ],
)
def test_a_record_that_cannot_be_read_is_refused_with_its_place(wrong, said):
    made, given = of_rows(), record(**wrong) if isinstance(wrong, dict) else wrong
    if said == "no error":  # the objects have it, so that a list beside them is not looked at
        assert made.read(given, "line 3").feasible.all()
        return
    with pytest.raises(InputError, match=rf"^line 3: .*{re.escape(said)}"):
        made.read(given, "line 3")


def test_dsjson_names_the_feasible_candidates_in_a_and_has_one_slot():
    made = Records(described(case("05-log.dsjson")))
    c = {"u": {"hour": 3}, "_multi": [{"_tag": n, "a": {"x": 0.5}} for n in ("ash", "elm", "fir")]}
    moment = made.read({"c": c, "a": [3, 1]}, "record")
    assert (moment.id, moment.ids) == (None, ("ash", "elm", "fir"))
    assert moment.feasible.tolist() == [True, False, True]
    assert made.read({"c": c, "a": [0, 1]}, "record").feasible.tolist() == [True, True, False]
    for wrong, said in (
        ([4], "list of actions [4] does not fit 3 candidates"),
        ([[1]], "list of actions [[1]] does not fit 3 candidates"),
        (["1"], "list of actions ['1'] does not fit 3 candidates"),
        ({"1": 2}, "actions `a` are {'1': 2}, expected a list of numbers"),
    ):
        with pytest.raises(InputError, match=rf"^record: the {re.escape(said)}$"):
            made.read({"c": c, "a": wrong}, "record")
    line = made.logged({"c": c}, moment, "n1", 2, [0.25, 0.0, 0.75], "mine")
    assert (line["a"], line["p"]) == ([3, 1], [0.75, 0.25])
    odd = {"c": {"u": {"hour": 3}, "_multi": [{"candidate": "x", "a": {"x": 1, "kind": "huge"}}]}}
    assert made.read(odd, "record").unseen == (
        "candidate is no feature of the training: not read",
        "a.kind is 'huge', no level of the training: read as a.kind=*",
    )
    for wrong in ({}, {"c": {**c, "_slots": [{}]}}, {"c": {"_multi": ["ash"]}}):
        with pytest.raises(InputError, match=r"^line 1: "):
            made.read(wrong, "line 1")
    wrong = {"c": {"_multi": [{"a": {"x": "much"}}]}}
    with pytest.raises(InputError, match=r"a\.x is 'much', expected a number"):
        made.read(wrong, "line 1")


def test_only_what_the_mapping_reads_is_logged_and_old_choices_are_not():
    made = of_rows()
    old = record(chosen="fir", r=3.5, prompt="long", candidates=[
        {"arm": "ash", "x": 0.5, "size": "small", "p": 0.9, "chosen": 1}, {"arm": "elm"},
    ])  # fmt: skip
    moment = made.read(old, "record")
    assert made.logged(old, moment, "n1", 1, [0.25, 0.75], "mine") == {
        "id": "n1", "t": None, "hour": 3, "tier": "basic",
        "candidates": [{"arm": "ash", "x": 0.5, "size": "small"}, {"arm": "elm"}],
        "chosen": "elm", "propensity": 0.75, "probabilities": [0.25, 0.75], "logger": "mine",
    }  # fmt: skip


def test_a_feature_may_have_the_name_of_a_column_that_is_written():
    table = long_table().rename({"x": "propensity"})
    candidates = {"numbers": ["propensity"], "categories": ["size"]}
    made = Records(described(read_log(table, {**ROWS, "candidates": candidates})))
    assert made.mapping.columns.propensity == "_propensity"


def test_a_description_is_read_again_and_refused_where_it_is_damaged():
    description = of_rows().description
    table = json.loads(json.dumps(description.as_table()))
    assert read_description(table, "x") == description
    for part in ("mapping", "kinds", "levels"):
        with pytest.raises(DatasetError, match="x: this is no description of a log"):
            read_description({**table, part: 3}, "x")
    del table["levels"]["candidates.size"]
    with pytest.raises(DatasetError, match="x: this is no description of a log"):
        read_description(table, "x")


def objects_with_flags(d):
    """Return a decision whose choice and probabilities stand in the objects of its candidates."""
    count = 2 + d % 2
    return {"id": f"d{d}", "rew": 1.0, "arms": [
        {"name": f"m{k}", "f": {"x": d / 8 + k}, "taken": k == d % 2, "p": 1 / count}
        for k in range(count)
    ]}  # fmt: skip


def dotted(d):
    """Return a decision in nested objects, with maps by the names of candidates."""
    names = [f"m{k}" for k in range(2 + d % 2)]
    return {
        "meta": {"id": f"d{d}", "ts": 1e9 + d}, "fb": {"rew": 1.0},
        "in": {"hour": d % 24, "arms": names, "x": dict.fromkeys(names, d / 8)},
        "out": {"pick": names[d % 2], "probs": {n: 1 / len(names) for n in names}},
    }  # fmt: skip


def wide(d):
    """Return a decision in columns by candidate; odd ones have no third candidate."""
    return {"id": f"d{d}", "hour": d % 24, "x_1": d / 8, "x_2": d / 9,
            "x_3": None if d % 2 else 1.0, "pick": str(1 + d % 2), "p": 1 / (3 - d % 2),
            "rew": 1.0}  # fmt: skip


def listed(d):
    """Return the same before its choice, with a list of candidates."""
    x = {k: wide(d)[f"x_{k}"] for k in (1, 2, 3)}
    arms = [{"id": str(k), "x": value} for k, value in x.items() if value is not None]
    return {"id": f"d{d}", "hour": d % 24, "candidates": arms}


@pytest.mark.parametrize(
    ("row", "mapping", "given", "written"),
    [
        (objects_with_flags, {
            "shape": "nested",
            "candidates": {"list": "arms", "id": "name", "numbers": {"x": "f.x"}},
            "columns": {"decision": "id", "chosen": "taken", "probabilities": "p", "reward": "rew"},
        }, objects_with_flags, {"taken": "m1", "p": [0.4, 0.6]}),
        (dotted, {
            "shape": "nested", "candidates": {"list": "in.arms", "numbers": {"x": "in.x"}},
            "context": {"numbers": ["in.hour"]},
            "columns": {"decision": "meta.id", "time": "meta.ts", "chosen": "out.pick",
                        "probabilities": "out.probs", "reward": "fb.rew"},
        }, dotted, {"out": {"pick": "m1", "probs": [0.4, 0.6]}, "propensity": 0.6}),
        (wide, {
            "shape": "wide", "candidates": {"numbers": {"x": "x_*"}},
            "context": {"numbers": ["hour"]},
            "columns": {"decision": "id", "chosen": "pick", "propensity": "p", "reward": "rew"},
        }, listed, {"chosen": "2", "probabilities": [0.4, 0.6]}),
    ],
    ids=["objects with flags", "dotted paths", "wide"],
)  # fmt: skip
def test_records_of_other_forms_close_the_loop(row, mapping, given, written, tmp_path):
    log = read_log([row(d) for d in range(40)], {"kind": "decisions", **mapping})
    made = Records(described(log))
    again = served([given(d) for d in range(40)], made, tmp_path, np.random.default_rng(0))
    assert not again.quarantine.height
    assert again.features["x"].equals(log.features["x"])
    taken = again.offsets[:-1] + again.decisions["chosen"].to_numpy()
    assert again.candidates["probability"].to_numpy()[taken] == pytest.approx(
        again.decisions["propensity"].to_numpy()
    )
    two = given(int(row is wide))
    line = made.logged(two, made.read(two, "record"), "n1", 1, [0.4, 0.6], "mine")
    assert line == line | written
