"""Tests of the readers of logs of decisions: shapes, counts, quarantine, refusals."""

import gzip
import json
import re

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.decisions.cautions import checked_propensities_of
from hindcast.pipeline.decisions.mapping import load_mapping, parse_mapping
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.shapes.tables import Tables
from hindcast.pipeline.errors import InputError, RecipeError, TraceError
from hindcast.pipeline.recipes.toml import table_toml
from tests.pipeline.decisions.decision_cases import (
    NESTED,
    ROWS,
    case,
    cases,
    dsjson_lines,
    long_table,
    nested_records,
    real,
)

MEANT = ("chosen", "propensity", "reward", "weight", "time_s", "split")


def same(one, other, features=True):
    """Assert that two logs hold the same decisions."""
    assert one.decisions.select("id", *MEANT).equals(other.decisions.select("id", *MEANT))
    assert one.offsets.tolist() == other.offsets.tolist()
    for name in ("id", "feasible"):
        assert one.candidates[name].cast(pl.String).equals(other.candidates[name].cast(pl.String))
    np.testing.assert_array_equal(
        one.candidates["probability"].to_numpy(), other.candidates["probability"].to_numpy()
    )
    if features:
        np.testing.assert_array_equal(one.feature("x"), other.feature("x"))


@pytest.fixture
def table():
    return long_table()


@pytest.fixture
def rows(table):
    return read_log(table, ROWS)


def test_rows_become_decisions(rows):
    """d1 has three candidates, and its second one was taken with .3."""
    d1 = rows.decisions.row(1, named=True)
    assert (d1["id"], d1["chosen"], d1["propensity"], d1["reward"]) == ("d1", 1, 0.3, 0.5)
    assert rows.counts["decisions"] == 12
    assert rows.counts["candidates"] == 30
    assert rows.decisions["time_s"].to_list() == [60.0 * i for i in range(12)]


@pytest.mark.parametrize("name", ["count", "level"])
def test_a_feature_may_have_any_name(table, name):
    categories = {**ROWS["candidates"], "categories": [name]}
    log = read_log(table.rename({"size": name}), {**ROWS, "candidates": categories})
    assert log.vocabulary[f"candidates.{name}"]
    assert checked_propensities_of(log) is not None  # counts levels too


@pytest.mark.parametrize("how", ["crlf", "bom", "gzip", "tsv", "parquet", "shuffled", "twice"])
def test_a_table_says_the_same_however_it_is_written(table, rows, how, tmp_path):
    path, text = tmp_path / "log.csv", table.write_csv()
    if how == "crlf":
        path.write_bytes(text.replace("\n", "\r\n").encode())
    elif how == "bom":
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    elif how == "gzip":
        path = tmp_path / "log.csv.gz"
        path.write_bytes(gzip.compress(text.encode()))
    elif how == "tsv":
        path.write_text(table.write_csv(separator="\t"))
    elif how == "parquet":
        path = tmp_path / "log.parquet"
        table.write_parquet(path)
    elif how == "shuffled":  # decisions and the rows of a decision apart; candidates keep order
        order = np.argsort([(i * 5) % 3 for i in range(table.height)], kind="stable")
        path.write_text(table[order].write_csv())
    else:
        path.write_text(pl.concat([table, table[4:9]]).write_csv())
    log = read_log(path, ROWS)
    if how == "shuffled":
        assert log.decisions.select("id", "propensity", "reward").equals(
            rows.decisions.select("id", "propensity", "reward")
        )
    else:
        same(rows, log)
    assert log.counts.get("repeated_rows", 0) == (5 if how == "twice" else 0)


def test_a_log_may_be_cut_into_files(table, rows, tmp_path):
    """The cut is inside a decision."""
    for name, part in (("a", table[:13]), ("b", table[13:])):
        (tmp_path / f"{name}.csv").write_text(part.write_csv())
    same(rows, read_log([tmp_path / "a.csv", tmp_path / "b.csv"], ROWS))


def test_pieces_of_a_table_do_not_cut_decisions(table, rows, monkeypatch):
    monkeypatch.setattr("hindcast.pipeline.decisions.shapes.tables.CHUNK_ROWS", 4)
    same(rows, read_log(table, ROWS))


def test_nested_records_and_frames_say_the_same(table, rows, tmp_path):
    records = nested_records(table)
    same(rows, read_log(records, NESTED))
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    same(rows, read_log(path, NESTED))
    pl.DataFrame(records).write_parquet(tmp_path / "log.parquet")
    same(rows, read_log(tmp_path / "log.parquet", NESTED))


def test_dsjson_says_the_same(table, rows, tmp_path):
    path = tmp_path / "log.dsjson"
    path.write_text("\n".join(dsjson_lines(table)))
    log = read_log(path)
    same(rows, log, features=False)
    np.testing.assert_array_equal(log.feature("f.x"), rows.feature("x"))


def test_wide_tables_have_a_candidate_where_a_cell_is_filled():
    table = pl.DataFrame({
        "id": ["a", "b"], "price_1": [0.5, None], "price_2": [0.25, 1.0], "price_10": [2.0, 3.0],
        "taken": [10, 2], "p": [0.2, 0.6], "cost": [3.0, 4.0],
    })  # fmt: skip
    log = read_log(table, {
        "kind": "decisions", "shape": "wide",
        "columns": {"decision": "id", "chosen": "taken", "propensity": "p", "cost": "cost"},
        "candidates": {"numbers": {"price": "price_*"}},
    })  # fmt: skip
    assert log.candidates["id"].cast(pl.String).to_list() == ["1", "2", "10", "2", "10"]
    assert log.feature("price").tolist() == [0.5, 0.25, 2.0, 1.0, 3.0]
    assert log.decisions["chosen"].to_list() == [2, 0]
    assert log.decisions["reward"].to_list() == [-3.0, -4.0]


def test_slots_of_ccb_and_slates(tmp_path):
    multi = [{"_tag": t, "f": {"x": x}} for t, x in (("a", 1), ("b", 2), ("c", 3))]
    ccb = {"EventId": "e", "c": {"_multi": multi, "_slots": [{"_id": "top"}, {"_id": "side"}]},
           "_outcomes": [{"_label_cost": -1, "_a": [2, 0, 1], "_p": [0.5, 0.25, 0.25]},
                         {"_label_cost": -2, "_a": [1, 0], "_p": [0.25, 0.75]}]}  # fmt: skip
    path = tmp_path / "ccb.dsjson"
    path.write_text(json.dumps(ccb))
    log = read_log(path)
    assert log.decisions["id"].to_list() == ["e/top", "e/side"]
    assert log.decisions["chosen"].to_list() == [2, 1]
    assert log.decisions["propensity"].to_list() == [0.5, 0.25]
    assert log.candidates["feasible"].to_list() == [True] * 5 + [False]
    assert log.candidates["probability"].to_list() == [0.25, 0.25, 0.5, 0.75, 0.25, 0.0]
    assert log.counts["units"] == 1
    slates = {**ccb, "_label_cost": -3}
    slates["c"] = {**ccb["c"], "_multi": [{**c, "_slot_id": s} for s in (0, 1) for c in multi]}
    slates["_outcomes"] = [{"_a": [2, 0, 1], "_p": [0.5, 0.25, 0.25]},
                           {"_a": [1, 0, 2], "_p": [0.25, 0.5, 0.25]}]  # fmt: skip
    path.write_text(json.dumps(slates))
    assert read_log(path).decisions["reward"].to_list() == [0.0, 3.0]


def test_cb_adf_text_has_tags_namespaces_and_unlabelled_blocks(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(
        "shared |u:2 hour:8\n'ash |a x:.5 red\n0:-1:.25 'elm|a x:.75\n\n"
        "|a x:1\n|a x:2\n\n0:2:.5 | y\n| z\n"
    )
    log = read_log(path)
    assert log.counts["without_label"] == 1
    assert log.decisions["id"].to_list() == ["0", "2"]
    assert log.decisions["reward"].to_list() == [1.0, -2.0]
    assert log.context["u.hour"].to_list() == [16.0, 0.0]
    assert log.candidates["id"].cast(pl.String).to_list() == ["ash", "elm", "0", "1"]
    assert log.feature("a.x").tolist() == [0.5, 0.75, 0.0, 0.0]
    assert log.feature("a.red").tolist() == [1.0, 0.0, 0.0, 0.0]
    path.write_text("1:2:.4 | a b\n3:0:.2 | b\n")
    with pytest.raises(TraceError, match="`--cb` text"):
        read_log(path)


def test_obp_takes_the_number_of_arms_from_its_arrays():
    rounds = {
        "action": np.array([0, 1]), "reward": np.array([1.0, 0.0]), "pscore": np.array([0.5, 0.2]),
        "context": np.ones((2, 1)), "action_context": np.arange(6.0).reshape(3, 2),
        "position": None, "pi_b": np.array([[[0.5], [0.25], [0.25]], [[0.3], [0.2], [0.5]]]),
    }  # fmt: skip
    log = read_log(rounds)
    assert log.counts["candidates"] == 6
    assert log.feature("a1").tolist() == [1.0, 3.0, 5.0] * 2
    assert log.candidates["probability"].to_list() == [0.5, 0.25, 0.25, 0.3, 0.2, 0.5]
    del rounds["action_context"]
    with pytest.raises(TraceError, match="largest action does not tell"):
        read_log(rounds)


def test_pickled_objects_are_refused(tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, action=np.array([{}], object), reward=np.ones(1), pscore=np.ones(1))
    with pytest.raises(TraceError, match="pickled objects"):
        read_log(path)


def test_a_damaged_npz_file_is_named(tmp_path):
    """Zeros are written over sixteen bytes, at each of the places in turn."""
    path = tmp_path / "log.npz"
    rounds = {"action": np.arange(400) % 3, "reward": np.ones(400), "pscore": np.full(400, 1 / 3)}
    np.savez_compressed(path, **rounds, n_actions=3)
    whole, refused = path.read_bytes(), 0
    for start in range(0, len(whole), 16):
        path.write_bytes(whole[:start] + bytes(16) + whole[start + 16 :])
        try:
            read_log(path)
        except TraceError:
            refused += 1
    assert refused > 10
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceError, match=r"log\.npz: this is no \.npz file"):
        read_log(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"action": np.array(["a"] * 6)}, "action is no array of numbers"),
        ({"reward": np.ones((6, 1))}, "reward has 2 dimensions, expected 1"),
        ({"pi_b": np.full((6, 2), 0.5)}, "pi_b has 2 arms, expected 3"),
        ({"pi_b": np.full((5, 3), 1 / 3)}, "pi_b has 5 rounds, action has 6"),
        ({"n_actions": 1e9}, "1e+09 arms, expected 1 to 100,000"),
        ({"pi_b": np.full((6, 3, 2), 1 / 3), "position": np.full(6, 2)}, "position is 2 to 2"),
    ],
)
def test_arrays_of_another_form_are_refused(change, reason):
    rounds = {"action": np.arange(6) % 3, "reward": np.ones(6), "pscore": np.full(6, 1 / 3)}
    with pytest.raises(TraceError, match=re.escape(reason)):
        read_log(rounds | {"n_actions": 3} | change)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (pl.col("chosen") * 0, "no candidate is chosen"),
        (pl.lit(1).alias("chosen"), "3 candidates are chosen"),
        (pl.lit(0).alias("ok"), "infeasible"),
        (pl.col("p") * 0.9, "sum to 0.9"),
        (pl.lit(None, pl.Float64).alias("p"), "propensity is missing"),
        (pl.lit(float("inf")).alias("r"), "expected a finite number"),
        (pl.lit("abc").alias("x"), "x is 'abc'"),
        (pl.col("hour") + pl.int_range(pl.len()), "the same id with other content"),
    ],
)
def test_what_cannot_be_used_is_quarantined_with_its_reason(change, reason):
    """The one bad decision of 24 is d5, lines 14 to 16; the others are read."""
    table = long_table(24).with_columns(pl.col("x").cast(pl.String), pl.col("hour").cast(pl.Int64))
    at = pl.col("id") == "d5"
    bad = table.filter(at).with_columns(change).cast(dict(table.schema))
    log = read_log(pl.concat([table.filter(~at), bad]), ROWS)
    assert log.counts["decisions"] == 23
    assert log.counts["quarantined"] == 1
    [row] = log.quarantine.iter_rows(named=True)
    assert row["id"] == "d5"
    assert reason in row["reason"]


def test_an_infeasible_candidate_is_none():
    """Probabilities of the others must then sum to 1; a single feasible one is certain."""
    table = long_table(24).with_columns(
        pl.when((pl.col("id") == "d0") & (pl.col("chosen") == 0))
        .then(0)
        .otherwise("ok")
        .alias("ok")
    )
    log = read_log(table.with_columns(
        pl.when(pl.col("id") == "d0").then(pl.col("chosen") * 1.0).otherwise("p").alias("p")
    ), ROWS)  # fmt: skip
    assert log.decisions["propensity"][0] == 1.0
    assert log.decisions["kind"][0] == "exact"


def test_the_same_id_twice_is_quarantined_both_times():
    records = nested_records(long_table(24))
    again = {**records[3], "r": 9.0}
    in_other_order = dict(reversed(records[5].items()))
    log = read_log([*records, again, in_other_order], NESTED)
    assert log.counts["repeated_decisions"] == 1
    assert log.counts["quarantined"] == 1
    assert "d3" not in log.decisions["id"]
    assert log.quarantine["id"].to_list() == ["d3", "d3"]


def test_outcomes_are_joined_by_id(tmp_path):
    records = [{k: v for k, v in r.items() if k != "r"} for r in nested_records(long_table())]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    outcomes = [{"key": f"d{i}", "o": {"v": float(i)}, "at": f"2031-03-01T09:{i:02}:00Z"}
                for i in range(10)]  # fmt: skip
    outcomes += [outcomes[0], {"key": "d1", "o": {"v": 7.0}}, {"key": "zz", "o": {"v": 1.0}}]
    (tmp_path / "late.jsonl").write_text("".join(json.dumps(o) + "\n" for o in outcomes))
    mapping = {
        **NESTED, "file": "log.jsonl", "columns": {k: v for k, v in NESTED["columns"].items()
                                                   if k != "reward"},
        "outcomes": {"file": "late.jsonl", "decision": "key", "reward": "o.v", "time": "at"},
    }  # fmt: skip
    toml = tmp_path / "log.toml"
    toml.write_text(table_toml(mapping))
    log = read_log(toml)
    assert log.decisions["reward"].to_list() == [0.0, None, *map(float, range(2, 10)), None, None]
    assert log.counts["censored"] == 3
    assert log.counts["outcomes_without_decision"] == 1
    assert log.counts["repeated_outcomes"] == 1
    assert log.counts["decisions_with_several_outcomes"] == 1
    toml.write_text(table_toml({**mapping, "outcomes": {**mapping["outcomes"], "several": "sum"}}))
    assert read_log(toml).decisions["reward"][1] == 8.0
    toml.write_text(table_toml({**mapping, "missing": {"reward": 0}}))
    zero = read_log(toml)
    assert zero.counts["censored"] == zero.counts["censored_by_time"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colums": {}}, "unknown key 'colums'; did you mean 'columns'"),
        ({"columns": {**ROWS["columns"], "choosen": "c"}}, "did you mean 'chosen'"),
        ({"shape": "row"}, "did you mean 'rows'"),
        ({"propensity": {"kind": "montecarlo"}}, "did you mean 'monte_carlo'"),
        ({"split": {"validation": 0.6, "test": 0.5}}, "expected less than 1"),
        ({"missing": {"reward": "zero"}}, "expected 'left out' or a number"),
        ({"columns": {"decision": "id"}}, "columns.chosen is missing"),
        ({"columns": {**ROWS["columns"], "keep": "k", "drop": "d"}}, "expected one"),
    ],
)
def test_a_mapping_is_checked(change, message):
    with pytest.raises(RecipeError, match=message):
        parse_mapping({**ROWS, **change}, "log.toml")


def test_without_a_column_of_propensities_there_are_none(table):
    columns = {k: v for k, v in ROWS["columns"].items() if k != "probability"}
    assert read_log(table, {**ROWS, "columns": columns}).mapping.propensity.kind == "none"
    with pytest.raises(RecipeError, match="no column holds propensities"):
        parse_mapping({**ROWS, "columns": columns, "propensity": {"kind": "exact"}}, "")


@pytest.mark.parametrize(
    "line",
    [
        '{"c":{"_multi":"x"},"a":"q","p":3}',
        '{"c":{"_multi":[]},"a":[],"p":[],"_labelIndex":0}',
        '{"c":{"_multi":[{}],"_slots":[1]},"_outcomes":[{"_a":[9],"_p":[1]}]}',
        '{"c":{"_multi":[{}]},"a":[1],"p":["x"],"_label_cost":1,"_labelIndex":0}',
        '{"c":{"_multi":[{}]},"a":[Infinity],"p":[1],"_label_cost":1,"_labelIndex":0}',
        '{"c":{"_multi":[{}],"_slots":3},"_outcomes":[{"_a":[9],"_p":[1]}]}',
        '{"c":{"_multi":[{}],"_slots":[{}]},"_outcomes":["x"]}',
    ],
)
def test_odd_lines_of_dsjson_are_quarantined_not_raised(table, line, tmp_path):
    path = tmp_path / "log.dsjson"
    path.write_text("\n".join([*dsjson_lines(table), line]))
    log = read_log(path)
    assert (log.counts["decisions"], log.counts["quarantined"]) == (12, 1)
    path.write_text(f"{line}\n" * 3)
    with pytest.raises(TraceError, match="cannot be used"):
        read_log(path)


def test_half_of_a_surrogate_pair_is_no_text(table, tmp_path):
    path, lines = tmp_path / "log.dsjson", dsjson_lines(table)
    name = json.loads(lines[1])["EventId"]
    lines[1] = lines[1].replace(f'"{name}"', '"\\ud83d\\ude00"')
    lines.append(lines[0].replace("_tag", "\\ud800"))
    path.write_text("\n".join(lines))
    log = read_log(path)
    assert log.decisions["id"][1] == "\U0001f600"
    assert log.quarantine["reason"].to_list()[0].startswith("no valid JSON: ")
    assert log.counts["quarantined"] == 1


def test_a_list_of_candidates_that_is_none_costs_its_decision_alone(table, tmp_path):
    records = nested_records(table)
    records[2]["arms"] = 1.5
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    (tmp_path / "log.toml").write_text(table_toml({"file": path.name, **NESTED}))
    log = read_log(tmp_path / "log.toml")
    assert log.quarantine["reason"].to_list() == ["no candidates"]


def test_a_mapping_of_a_column_that_is_not_there_is_refused(table):
    with pytest.raises(TraceError, match="no column 'rr', which the mapping names"):
        read_log(table, {**ROWS, "columns": {**ROWS["columns"], "reward": "rr"}})


def test_the_digest_of_a_mapping_is_that_of_its_meaning():
    one, other = parse_mapping(ROWS, ""), parse_mapping(dict(reversed(ROWS.items())), "")
    assert one.digest == other.digest
    assert parse_mapping(one.as_table(), "") == one


def test_tables_need_a_mapping(tmp_path, table):
    path = tmp_path / "log.csv"
    path.write_text(table.write_csv())
    with pytest.raises(TraceError, match="does not describe itself"):
        read_log(path)
    with pytest.raises(InputError, match="has no mapping"):
        read_log(table)


@pytest.mark.parametrize(
    ("split", "sizes"),
    [
        ({"by": "hash", "validation": 0.2, "test": 0.2}, (57, 18, 21)),
        ({"by": "time", "validation": 0.25, "test": 0.25}, (48, 24, 24)),
    ],
)
def test_splits_of_a_case(split, sizes):
    mapping = load_mapping(cases() / "01-long.toml").as_table()
    log = read_log(cases() / "01-long.csv", {**mapping, "split": split})
    assert tuple(log.counts[name] for name in ("train", "validation", "test")) == sizes


COUNTS = {
    "05-log.dsjson": {"decisions": 96, "candidates": 303},
    "09-router.toml": {"censored": 14, "outcomes_without_decision": 1, "repeated_outcomes": 1},
    "10-sessions.toml": {"sessions": 56, "train": 127, "validation": 40, "test": 27},
    "11-ccb.dsjson": {"sessions": 70, "decisions": 128, "candidates": 502, "feasible": 406},
    "16-override-flag.toml": {"overridden": 14, "in_weights": 116},
    "17-override-two-names.toml": {"overridden": 11, "in_weights": 119},
    "18-repeated-rows.toml": {"decisions": 100, "repeated_rows": 41},
    "19-order-and-equal-times.toml": {"train": 68, "validation": 24, "test": 28},
    "20-many-single-candidates.toml": {"with_several_feasible": 59},
    "32-propensity-zero.toml": {"decisions": 76, "quarantined": 4},
    "33-sum-is-0.93.toml": {"decisions": 73, "quarantined": 7},
    "34-chosen-not-among.toml": {"decisions": 58, "quarantined": 2},
    "35-chosen-infeasible.toml": {"decisions": 57, "quarantined": 3},
    "36-same-id-differs.toml": {"decisions": 58, "quarantined": 2},
    "37-deterministic.toml": {"decisions": 120, "with_several_feasible": 110},
    "40-two-chosen-and-none.toml": {"decisions": 58, "quarantined": 2},
    "42-lost-by-choice.toml": {"decisions": 180, "censored": 56},
    "43-not-finite.toml": {"decisions": 58, "in_weights": 57, "censored": 1, "quarantined": 2},
    "44-override-by-choice.toml": {"overridden": 28},
    "45-what-logs-hold.dsjson": {"decisions": 39, "in_weights": 38, "not_shown": 1,
                                 "outcomes_without_decision": 1, "quarantined": 1},
    "47-a-counts-from-0.dsjson": {"decisions": 40, "actions_from_0": 40},
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_cases_have_their_counts(name):
    assert {key: case(name).counts[key] for key in COUNTS[name]} == COUNTS[name]


REFUSED = {
    "30-percent.toml": r"236 of 272 probabilities are above 1.*percent. divide by 100",
    "31-log-probability.toml": "logarithms",
    "46-p-in-another-order.dsjson": r"13 of 40.*p in the order of the candidates",
    "48-header-only.toml": "no decisions",
}


@pytest.mark.parametrize("name", REFUSED)
def test_cases_are_refused_with_what_to_do(name):
    with pytest.raises(TraceError, match=REFUSED[name]):
        read_log(cases() / name)


def test_shapes_of_one_log_hold_the_same_decisions():
    names = ("01-long", "03-nested", "04-nested")
    one, *others = (case(f"{name}.toml") for name in names)
    for other in others:
        same(one, other)
    chosen = case("02-long-propensity-of-chosen.toml")
    assert one.decisions.select("id", *MEANT).equals(chosen.decisions.select("id", *MEANT))


@pytest.mark.slow
def test_real_logs_have_their_counts():
    folder = real()
    cb = read_log(folder / "vw/dsjson_cb.json")
    assert (cb.counts["decisions"], cb.counts["candidates"], cb.counts["feasible"]) == (23, 92, 92)
    assert cb.decisions["reward"].mean() == pytest.approx(12 / 23)
    ccb = read_log(folder / "vw/ccb_data.json").counts
    assert (ccb["sessions"], ccb["decisions"], ccb["candidates"], ccb["feasible"]) == (
        59, 66, 264, 257)  # fmt: skip
    ldf = read_log(folder / "vw/cb_test_medium.ldf").counts
    assert (ldf["decisions"], ldf["candidates"], ldf["without_label"]) == (10, 25, 5)
    assert read_log(folder / "vw/cb_simple_pdrop.json").decisions["weight"][0] == pytest.approx(10)
    with pytest.raises(TraceError, match=r"_label_ca.*continuous"):
        read_log(folder / "vw/cats_train.json")
    men = read_log(folder / "obd_men/bts")
    assert men.counts["candidates"] == 2000 * 34
    assert men.decisions["reward"].sum() == 15


def test_numbers_of_hundreds_of_digits_are_quarantined():
    """Integers of JSON have no bound. A time that cannot be read is unknown."""
    records, huge = nested_records(long_table(80)), 10**400
    changes = {
        2: {"r": huge}, 3: {"ctx": {"hour": huge, "tier": "gold"}}, 4: {"p": [huge, 0.5]},
        5: {"chosen": huge}, 6: {"chosen": {"of": "ash"}}, 7: {"t": huge},
    }  # fmt: skip
    for k, change in changes.items():
        records[k] |= change
    records[8]["arms"][0]["x"] = -huge
    log = read_log(records, NESTED)
    assert log.quarantine["line"].to_list() == [3, 4, 5, 6, 7, 9]
    reasons = " ".join(log.quarantine["reason"])
    assert reasons.count("expected a finite number") == 4
    assert reasons.count("not among the candidates") == 2
    assert log.counts["decisions"] == 74


@pytest.mark.slow
def test_a_text_among_numbers_far_down_a_table_changes_no_other_row(tmp_path, monkeypatch):
    """Columns of numbers are read as such up to the first text; lines and values stay."""
    monkeypatch.setattr("hindcast.pipeline.decisions.shapes.tables.CHUNK_ROWS", 500)
    table = long_table(4000).with_columns(t=pl.lit(1930118400), x=pl.col("x").cast(pl.String))
    table[-2, "x"], table[-1, "x"] = "n/a", "much"
    path = tmp_path / "log.csv"
    table.write_csv(path)
    pieces = [*Tables([path]).pieces(["x"], ["x"])]
    assert {piece.rows["x"].dtype for piece in pieces} == {pl.Float64(), pl.String()}
    assert [p.line for p in pieces[1:]] == [p.line + p.rows.height for p in pieces[:-1]]
    log, right = read_log(path, ROWS), read_log(table, ROWS)
    same(log, right)
    assert log.quarantine.equals(right.quarantine)
    assert "much" in log.quarantine["reason"][0]
    assert log.decisions["line"].equals(right.decisions["line"])


def test_numbers_that_are_written_differently_repeat_a_row(table, rows):
    """A row that repeats another one by its values counts once, however long its numbers are."""
    again = table.head(2).with_columns(pl.col("x", "p").cast(pl.String) + "0")
    doubled = pl.concat([table.with_columns(pl.col("x", "p").cast(pl.String)), again])
    same(rows, read_log(doubled, ROWS))
