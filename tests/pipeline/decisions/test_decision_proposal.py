"""Tests of `init` on logs of decisions: the mapping that names and values suggest."""

import json
import tomllib

import numpy as np
import polars as pl
import pytest

import hindcast
from hindcast.flows.cli import main
from hindcast.pipeline.decisions.mapping import load_mapping, parse_mapping
from hindcast.pipeline.decisions.proposal import propose
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.shapes.tables import Tables
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.recipes.loading import traces_folder
from tests.pipeline.decisions.decision_cases import dsjson_lines, long_table, nested_records

CASES = sorted(p.name for p in (traces_folder() / "../cases/decisions").glob("*.toml"))


@pytest.mark.parametrize("name", CASES)
def test_init_proposes_the_mapping_beside_each_case(name):
    """The split of one case is a wish that no value tells."""
    folder = traces_folder() / "../cases/decisions"
    right = load_mapping(folder / name).as_table()
    found = parse_mapping(tomllib.loads(propose(folder / right["file"][0]).toml), "").as_table()
    if name.startswith("19-"):
        del right["split"], found["split"]
    assert found == right


def proposal(folder, text, name="log.csv"):
    (folder / name).write_text(text)
    return propose(folder / name)


def test_other_names_are_found_by_values(tmp_path):
    """Identifiers, flags in words, a cost in other columns."""
    table = long_table(40, np.random.default_rng(2)).rename({
        "id": "request_id", "t": "created_at", "arm": "variant", "ok": "eligible", "p": "pscore",
        "r": "total_cost",
    })  # fmt: skip
    table = table.with_columns(
        is_chosen=pl.when(pl.col("chosen") == 1).then(pl.lit("true")).otherwise(pl.lit("false")),
        user=pl.col("request_id").str.slice(1).cast(pl.Int64) // 4,
    ).drop("chosen")
    found = proposal(tmp_path, table.write_csv()).table
    assert found["columns"] == {
        "decision": "request_id", "unit": "user", "time": "created_at", "candidate": "variant",
        "chosen": "is_chosen", "feasible": "eligible", "probability": "pscore",
        "cost": "total_cost",
    }  # fmt: skip
    assert found["context"] == {"numbers": ["hour"], "categories": ["tier"]}
    assert found["candidates"] == {"numbers": ["x"], "categories": ["size"]}


def test_wide_tables_are_proposed(tmp_path):
    rows = [f"r{i},{i % 7 / 7},{i % 5},{1 + i % 2},.5,{i % 3}" for i in range(30)]
    found = proposal(tmp_path, "id,price_1,price_2,chosen,p,reward\n" + "\n".join(rows))
    assert found.table["shape"] == "wide"
    assert found.table["candidates"] == {"numbers": {"price": "price_*"}}
    assert found.table["columns"] == {"decision": "id", "chosen": "chosen", "propensity": "p",
                                      "reward": "reward"}  # fmt: skip
    (tmp_path / "log.toml").write_text(found.toml)
    assert read_log(tmp_path / "log.toml").counts["decisions"] == 30


def test_what_is_proposed_for_records_reads_them(tmp_path):
    records = nested_records(long_table(30, np.random.default_rng(3)))
    found = proposal(tmp_path, "\n".join(map(json.dumps, records)), "log.jsonl")
    (tmp_path / "log.toml").write_text(found.toml)
    assert read_log(tmp_path / "log.toml").counts["decisions"] == 30
    assert found.table["candidates"]["list"] == "arms"


def test_a_damaged_parquet_file_is_named(tmp_path):
    path = tmp_path / "log.parquet"
    long_table(40, np.random.default_rng(2)).write_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    assert propose(path) is None
    with pytest.raises(TraceError, match=r"log\.parquet: this table cannot be read"):
        Tables([path]).schema()


def test_what_is_no_log_of_decisions_is_left_to_others(tmp_path):
    jobs = "job,submit,start,end,cores\n1,0,5,9,4\n2,1,5,9,8\n"
    assert proposal(tmp_path, jobs) is None
    assert proposal(tmp_path, '{"a": 1}\n', "log.jsonl") is None
    assert proposal(tmp_path, "", "log.csv") is None
    assert propose(tmp_path) is None


def test_a_file_that_describes_itself_needs_its_shape_alone(tmp_path):
    text = "\n".join(dsjson_lines(long_table()))
    assert proposal(tmp_path, text, "log.json").table["shape"] == "dsjson"
    (tmp_path / "log.toml").write_text(propose(tmp_path / "log.json").toml)
    assert read_log(tmp_path / "log.toml").counts["decisions"] == 12


def test_unsure_things_are_named(tmp_path):
    table = long_table(20, np.random.default_rng(4)).drop("p").rename({"r": "latency_ms"})
    local = table.with_columns(t=pl.col("t").str.replace("Z", ""))
    text = " ".join(proposal(tmp_path, local.write_csv()).unsure)
    assert "latency_ms is read as a cost" in text
    assert "no column is a propensity" in text
    assert "times have no zone" in text


def test_init_then_ingest_then_ope(tmp_path, capsys):
    log = tmp_path / "log.csv"
    log.write_text(long_table(120, np.random.default_rng(5)).write_csv())
    assert main(["init", str(log)]) == 0
    assert "hindcast ingest decisions" in capsys.readouterr().out
    assert (
        main(["ingest", "decisions", str(tmp_path / "log.toml"), "--out", str(tmp_path / "d")]) == 0
    )
    assert main(["verify", str(tmp_path / "d")]) == 0
    found = hindcast.ope(tmp_path / "d", ["uniform"])
    assert found.support["decisions"].to_list() == [120]
