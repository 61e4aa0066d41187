"""Tests of `init` on logs of decisions: the mapping that names and values suggest."""

import json
import tomllib

import numpy as np
import polars as pl
import pytest

import hindcast
from hindcast.flows.cli import main
from hindcast.pipeline.decisions.mapping import load_mapping, parse_mapping
from hindcast.pipeline.decisions.proposals.proposal import propose
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.shapes.tables import Tables
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.storage.location import traces_folder
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


def foreign(decisions=60):
    """Return a log in rows whose names say nothing."""
    names = {"id": "auction", "t": "wann", "arm": "anzeige", "x": "gebot", "size": "art",
             "chosen": "war_es", "p": "anteil", "r": "ertrag", "hour": "stunde",
             "tier": "klasse"}  # fmt: skip
    return long_table(decisions, np.random.default_rng(8)).drop("ok").rename(names)


def test_a_table_whose_names_say_nothing_is_found_by_its_values(tmp_path):
    text = foreign().with_columns(pl.col("anteil") * 100).write_csv()
    assert proposal(tmp_path, text) is None
    found = propose(tmp_path / "log.csv", by_values=True)
    assert found.table["columns"] == {
        "decision": "auction", "time": "wann", "candidate": "anzeige", "chosen": "war_es",
        "probability": "anteil",
    }  # fmt: skip
    assert found.table["candidates"]["numbers"] == ["gebot", "ertrag"]
    told = " ".join(found.unsure)
    assert "anteil as probability" in told
    assert "percent" in told
    assert "no column is a reward" in told


@pytest.mark.slow
def test_init_looks_at_values_only_if_the_table_holds_no_jobs(tmp_path, capsys):
    (tmp_path / "log.csv").write_text(foreign().write_csv())
    assert main(["init", str(tmp_path / "log.csv")]) == 0
    assert "auction as decision" in capsys.readouterr().out
    jobs = "job,submit,start,end,cores,chance\n" + "".join(
        f"{i // 2},{i},{i + 1},{i + 9},{i % 2},{(0.3, 0.7)[i % 2]}\n" for i in range(40)
    )
    (tmp_path / "jobs.csv").write_text(jobs)
    assert propose(tmp_path / "jobs.csv", by_values=True) is not None
    assert main(["init", str(tmp_path / "jobs.csv")]) == 0
    assert "ingest table" in capsys.readouterr().out
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    assert main(["init", str(tmp_path / "other.csv")]) == 2
    assert "A log of decisions needs" in capsys.readouterr().err


def test_a_wide_table_whose_names_say_nothing_is_found_by_its_values(tmp_path):
    rows = [f"V{i},{i % 7 / 7},{i % 5},{1 + i % 2},.5,{i % 3}" for i in range(30)]
    text = "vorgang,preis_1,preis_2,wahl,anteil,ertrag\n" + "\n".join(rows)
    assert proposal(tmp_path, text) is None
    found = propose(tmp_path / "log.csv", by_values=True).table
    assert found["columns"] == {"decision": "vorgang", "chosen": "wahl", "propensity": "anteil"}
    assert found["candidates"] == {"numbers": {"preis": "preis_*"}}


@pytest.mark.slow
def test_records_whose_names_say_nothing_are_found_by_their_values(tmp_path):
    """Outcomes are found beside them by the ids that they share."""
    rng = np.random.default_rng(9)
    records = [
        {"req": f"r-{i}", "wege": ["kurz", "lang"], "weg": str(rng.choice(["kurz", "lang"])),
         "anteil": 0.5} for i in range(20)
    ]  # fmt: skip
    (tmp_path / "danach.jsonl").write_text(
        "\n".join(json.dumps({"req": r["req"], "gut": 1, "seen_at": 5.0}) for r in records)
    )
    text = "\n".join(map(json.dumps, records))
    assert proposal(tmp_path, text, "log.jsonl") is None
    found = propose(tmp_path / "log.jsonl", by_values=True)
    assert found.table["columns"] == {"decision": "req", "chosen": "weg", "propensity": "anteil"}
    assert found.table["outcomes"] == {
        "file": "danach.jsonl", "decision": "req", "reward": "gut", "time": "seen_at",
    }  # fmt: skip
    (tmp_path / "x").mkdir()
    assert main(["init", str(tmp_path / "log.jsonl"), "--out", str(tmp_path / "x" / "m.toml")]) == 0
    assert read_log(tmp_path / "x" / "m.toml").counts["decisions"] == 20


@pytest.mark.parametrize("shape", ["rows", "wide"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_outcomes_of_a_table_are_found_in_a_second_one(tmp_path, shape, ending):
    """Not in a log of the same decisions, nor in a table of other ids."""
    log = long_table(30, np.random.default_rng(2)).drop("r")
    if shape == "wide":
        log = pl.DataFrame({
            "id": [f"d{i}" for i in range(30)], "price_1": [i / 7 for i in range(30)],
            "price_2": [i % 5 for i in range(30)], "choice": [1 + i % 2 for i in range(30)],
            "p": [0.5] * 30,
        })  # fmt: skip
    later = pl.DataFrame({
        "what": [f"d{i}" for i in range(30)], "seen_at": [f"2031-03-02T08:{i:02}:00Z"
        for i in range(30)], "note": ["none"] * 30, "gain": [i % 4 for i in range(30)],
    })  # fmt: skip
    log.with_columns(gain=1).write_csv(tmp_path / "again.csv")
    later.with_columns(what=pl.lit("e") + pl.col("what")).write_csv(tmp_path / "elsewhere.csv")
    (tmp_path / "empty.csv").touch()
    assert "outcomes" not in proposal(tmp_path, log.write_csv()).table
    if ending == "csv":
        later.write_csv(tmp_path / "later.csv")
    else:
        later.write_parquet(tmp_path / "later.parquet")
    (tmp_path / "x").mkdir()
    assert main(["init", str(tmp_path / "log.csv"), "--out", str(tmp_path / "x" / "m.toml")]) == 0
    outcomes = tomllib.loads((tmp_path / "x" / "m.toml").read_text())["outcomes"]
    assert outcomes == {
        "file": str(tmp_path / f"later.{ending}"), "decision": "what", "reward": "gain",
        "time": "seen_at",
    }  # fmt: skip
    rewards = read_log(tmp_path / "x" / "m.toml").decisions["reward"]
    assert rewards.to_list() == later["gain"].to_list()


def test_a_damaged_parquet_file_is_named(tmp_path):
    path = tmp_path / "log.parquet"
    long_table(40, np.random.default_rng(2)).write_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    assert propose(path) is None
    with pytest.raises(TraceError, match=r"log\.parquet: this table cannot be read"):
        Tables([path]).schema()


def listed(decisions=40):
    """Return records whose candidates are objects without a known name."""
    rng = np.random.default_rng(10)
    places = rng.integers(0, 2, decisions)
    return places, [
        {"spur": f"t{i}", "anfang": f"2031-03-01T08:{i:02}:00Z", "ertrag": i % 3,
         "knoten": [{"wer": f"k{k}", "last": k + i % 4, "anteil": (0.3, 0.7)[k]} for k in (0, 1)]}
        for i in range(decisions)
    ]  # fmt: skip


@pytest.mark.parametrize("by", ["flag", "position"])
def test_a_choice_inside_of_the_list_or_by_its_position_is_found(tmp_path, by):
    places, records = listed()
    for place, record in zip(places.tolist(), records, strict=True):
        if by == "position":
            record["stelle"] = place
        for k, candidate in enumerate(record["knoten"] if by == "flag" else ()):
            candidate["genommen"] = k == place
    text = "\n".join(map(json.dumps, records))
    assert proposal(tmp_path, text, "log.jsonl") is None
    found = propose(tmp_path / "log.jsonl", by_values=True)
    assert found.table["columns"] == {
        "decision": "spur", "time": "anfang", "probabilities": "anteil",
        "chosen": "genommen" if by == "flag" else "stelle",
    }  # fmt: skip
    assert found.table["candidates"] == {"list": "knoten", "id": "wer", "numbers": ["last"]}
    (tmp_path / "log.toml").write_text(found.toml)
    log = read_log(tmp_path / "log.toml")
    assert log.decisions["chosen"].to_list() == places.tolist()
    with pytest.raises(TraceError, match="none of the 40 decisions can be used: 40 have no reward"):
        hindcast.ingest("decisions", tmp_path / "log.toml", tmp_path / "d")


def test_probabilities_beside_the_kind_none_are_told(tmp_path):
    """They are ignored, which a person who has just added the column would not expect."""
    table = long_table(20)
    columns = {"decision": "id", "candidate": "arm", "chosen": "chosen", "probability": "p",
               "reward": "r"}  # fmt: skip
    for kind, notes in (
        ("none", ['p is not used, since propensity.kind is "none"']),
        ("exact", []),
    ):
        log = read_log(table, {"columns": columns, "propensity": {"kind": kind}})
        assert [*log.notes] == notes


def test_a_list_of_records_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "log.json").write_text(json.dumps(listed()[1]))
    (tmp_path / "log.toml").write_text(
        'file = "log.json"\nshape = "nested"\ncandidates = {list = "knoten"}\n'
        'columns = {chosen = "stelle", reward = "ertrag"}\n'
    )
    with pytest.raises(TraceError, match="the file is one JSON list"):
        read_log(tmp_path / "log.toml")


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


@pytest.mark.slow
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
