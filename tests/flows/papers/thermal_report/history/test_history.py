"""Tests of history files: the report's Figure 4 to the last digit, round trips, located errors."""

import copy
import dataclasses
import json
import os
import re

import numpy as np
import polars as pl
import pytest

from hindcast.flows.papers.thermal_report.history.conversion import episodes, to_log
from hindcast.flows.papers.thermal_report.history.exporting import to_history
from hindcast.flows.papers.thermal_report.history.importing import check, ingest
from hindcast.flows.papers.thermal_report.history.records import (
    parse_history,
    read_history,
    record_json,
    write_records,
)
from hindcast.flows.papers.thermal_report.history.records_table import read_table
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.part_writer import PartWriter
from hindcast.pipeline.dataset.building.recorder import Recording, make_log
from hindcast.pipeline.dataset.decisions import Columns
from hindcast.pipeline.dataset.part import read_blocks
from hindcast.pipeline.dataset.sampling import sample_decisions
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import DatasetError, InputError, StorageError, VerificationFailed
from hindcast.pipeline.inspection.show import details
from hindcast.pipeline.recipes.workload_source import RECORD
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.thermal.config import ThermalConfig, settled
from hindcast.pipeline.scenarios.thermal.instances import Jobs, draw_jobs, make_instance
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.policies.heuristics import heuristics
from tests.flows.papers.thermal_report.history.leaky import leaky_history

SCENARIO = load_scenario("thermal")
CONFIG = settled(ThermalConfig(jobs=40, steps=60))
PAPER = settled(ThermalConfig(preset="paper", jobs=3, steps=20))
HISTORY = ThermalConfig(features="history")
FIGURE_4_HEAT = (4.6919742701607256e-17, 8.351714200886092e-17)


def blocks_of(folder, policy: str, episodes_of: list[Jobs], config: ThermalConfig = CONFIG):
    """Return blocks of a part with one episode per list of jobs, each in its own row group."""
    spec = SCENARIO.spec(config, "level")
    behaviour = Behaviour(policy, heuristics("thermal")[policy], float(policy == "random"))
    path = folder / "part.parquet"
    writer = PartWriter(path, spec)
    for number, jobs in enumerate(episodes_of):
        log = make_log(spec, 100, 600)
        instance = make_instance(dataclasses.replace(config, jobs=len(jobs.process)), 0, jobs)
        rng = np.random.default_rng(number)
        assert Recording(SCENARIO, spec, instance, behaviour, rng, number).go_on(log)
        writer.write(log)
    writer.close()
    return list(read_blocks(path, spec))


def some_blocks(folder):
    """Return two episodes of random play."""
    drawn = [draw_jobs(CONFIG, np.random.default_rng(seed)) for seed in range(2)]
    return blocks_of(folder, "random", drawn)


def figure_4_jobs() -> Jobs:
    rows = np.array([(10, 3, 1795), (9, 4, 1086), (5, 1, 1086)], np.int64)
    return Jobs(*rows.T)


def all_json(history) -> list[dict]:
    return [record_json(history, row) for row in range(len(history))]


def same(one, other) -> bool:
    """Compare two histories, value by value."""
    arrays = (
        (h.time, h.action, h.reward, *h.state.arrays, *h.next_state.arrays) for h in (one, other)
    )
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*arrays, strict=True))


def records(folder) -> list[dict]:
    """Return a history as parsed JSON, without numpy types."""
    return json.loads(json.dumps(all_json(to_history(some_blocks(folder)))))


def test_states_after_the_placement_are_the_sample_of_the_report(tmp_path):
    """With preset paper and server 5 for every job, all numbers of Figure 4 are met."""
    blocks = blocks_of(tmp_path, "max_distance", [figure_4_jobs()], PAPER)
    first = all_json(leaky_history(blocks, PAPER))[0]
    assert first["TIME"] == 0
    assert first["ACTION"] == 5
    assert first["REWARD"]["REWARD"] == 27.00000047999997
    assert first["STATE"]["JOB_STATE"] == {
        "SUBMIT_TIME": 0, "DEADLINE": 1795, "PROCESS_TIME": 3, "RESOURCES": 10, "FINISH_TIME": 2,
    }  # fmt: skip
    assert first["NEXT_STATE"]["JOB_STATE"] == {
        "SUBMIT_TIME": 1, "DEADLINE": 1086, "PROCESS_TIME": 4, "RESOURCES": 9, "FINISH_TIME": 4,
    }  # fmt: skip
    assert first["STATE"]["DC"]["TOTAL_HEAT"] == FIGURE_4_HEAT[0]
    assert first["NEXT_STATE"]["DC"]["TOTAL_HEAT"] == FIGURE_4_HEAT[1]
    for state in (first["STATE"], first["NEXT_STATE"]):
        assert state["SERVER_STATE"]["0"] == {
            "RESOURCE": 40, "X": 0, "Y": 0, "USAGE": 0.0, "ENERGY": 0.0, "HEAT": 0.0, "IS_VALID": 1,
        }  # fmt: skip
    assert first["STATE"]["SERVER_STATE"]["5"]["USAGE"] == 0.25
    assert first["STATE"]["SERVER_STATE"]["5"]["HEAT"] == FIGURE_4_HEAT[0]


def test_states_do_not_hold_the_decision(tmp_path):
    """In normally written files the first state is empty and no finish time is known."""
    blocks = blocks_of(tmp_path, "max_distance", [figure_4_jobs()], PAPER)
    first = all_json(to_history(blocks))[0]
    assert first["STATE"]["DC"]["TOTAL_HEAT"] == 0.0
    assert first["STATE"]["SERVER_STATE"]["5"]["USAGE"] == 0.0
    assert first["STATE"]["JOB_STATE"]["FINISH_TIME"] is None
    assert first["REWARD"]["REWARD"] == blocks[0].reward[0]


def test_a_dataset_written_and_read_again_is_the_same(tmp_path):
    """All fields that the file can hold come back bit for bit, row by row."""
    blocks = some_blocks(tmp_path)
    path = tmp_path / "history.json"
    write_records(path, [to_history(blocks)])
    spec = SCENARIO.spec(HISTORY, "difference")
    log = to_log(read_history(path), spec, HISTORY)
    at = 0
    for block in blocks:
        rows, values = slice(at, at + len(block)), slice(at * 6, (at + len(block)) * 6)
        decided = block.choice >= 0
        np.testing.assert_array_equal(log.context[:, rows].T, block.context)
        np.testing.assert_array_equal(log.candidates[:8, values].T, block.candidates[:, :8])
        assert np.isnan(log.candidates[8:, values]).all()
        np.testing.assert_array_equal(log.feasible[values], block.feasible)
        time, reward, elapsed = log.numbers[:3, rows]
        np.testing.assert_array_equal(time, block.time_s)
        np.testing.assert_array_equal(reward, block.reward)
        np.testing.assert_array_equal(elapsed, block.elapsed_s)
        episode, step, choice = log.labels[:3, rows]
        np.testing.assert_array_equal(episode, block.episode)
        np.testing.assert_array_equal(step, block.step)
        np.testing.assert_array_equal(choice, block.choice)
        assert np.isnan(log.propensity[rows][decided]).all()
        at += len(block)
    assert at == log.rows


def test_a_file_read_and_written_again_is_the_same(tmp_path):
    """Through a dataset folder, too, all float64 values are equal, with finish times if leaky."""
    blocks = blocks_of(tmp_path, "max_distance", [figure_4_jobs()] * 2, PAPER)
    for name, history in (("plain", to_history(blocks)), ("leaky", leaky_history(blocks, PAPER))):
        path = tmp_path / f"{name}.json"
        write_records(path, [history])
        ingest(path, tmp_path / name)
        again = tmp_path / f"{name}-again.json"
        write_records(again, [read_table(tmp_path / name / RECORD)])
        assert again.read_bytes() == path.read_bytes()
        assert same(read_history(again), read_history(path))


def test_keys_go_by_name(tmp_path):
    """Reversing the order of all keys changes nothing."""

    def turned(value):
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(v) for v in value] if isinstance(value, list) else value

    value = records(tmp_path)
    assert same(parse_history(turned(value), "f"), parse_history(value, "f"))


def test_episodes_end_where_the_next_state_is_not_the_next_record(tmp_path):
    history = parse_history(records(tmp_path), "f")
    assert episodes(history) == [range(40), range(40, 80)]
    value = records(tmp_path)
    value[10]["NEXT_STATE"]["DC"]["TOTAL_HEAT"] += 1.0
    assert episodes(parse_history(value, "f"))[:2] == [range(11), range(11, 40)]
    assert episodes(parse_history(value[:1], "f")) == [range(1)]


def change(value, record: int, path: str, new) -> None:
    *folders, last = path.split(".")
    at = value[record]
    for folder in folders:
        at = at[folder]
    if new is KeyError:
        del at[last]
    else:
        at[last] = new


@pytest.mark.parametrize(
    ("path", "new", "message"),
    [
        ("TIME", KeyError, "record 3: the key TIME is missing"),
        ("REWARD", 3.0, "record 3: REWARD is a number, expected an object"),
        ("REWARD.REWARD", "x", r'record 3: REWARD.REWARD is "x", expected a number'),
        ("REWARD.REWARD", float("nan"), "record 3: REWARD.REWARD is NaN, expected a finite"),
        ("REWARD.REWARD", 10**400, "record 3: REWARD.REWARD is 1000"),
        ("STATE.DC.TOTAL_HEAT", KeyError, "record 3: the key STATE.DC.TOTAL_HEAT is missing"),
        ("STATE.SERVER_STATE.2.HEAT", KeyError, "key STATE.SERVER_STATE.2.HEAT is missing"),
        ("STATE.SERVER_STATE.2.IS_VALID", 2, "SERVER_STATE.2.IS_VALID is 2, expected 0 or 1"),
        ("STATE.SERVER_STATE.5", KeyError, "STATE.SERVER_STATE has 5 servers, expected 6"),
        ("NEXT_STATE.SERVER_STATE.6", {}, "NEXT_STATE.SERVER_STATE has 7 servers, expected 6"),
        ("NEXT_STATE.SERVER_STATE", [], "NEXT_STATE.SERVER_STATE is a list, expected an object"),
        ("NEXT_STATE.JOB_STATE.DEADLINE", None, "NEXT_STATE.JOB_STATE.DEADLINE is null"),
        ("ACTION", 6, "record 3: ACTION is 6, expected a server, 0..5"),
        ("ACTION", -1, "record 3: ACTION is -1, expected a server"),
        ("ACTION", 1.5, "record 3: ACTION is 1.5, expected a whole number"),
        ("ACTION", True, "record 3: ACTION is true, expected a number"),
    ],
)
def test_a_fault_is_told_with_its_record_and_key(tmp_path, path, new, message):
    value = records(tmp_path)
    change(value, 3, path, new)
    with pytest.raises(InputError, match=r"log\.json: record 3") as caught:
        parse_history(value, "log.json")
    assert re.search(message, str(caught.value))


def test_an_action_that_is_not_valid_is_told(tmp_path):
    value = records(tmp_path)
    action = value[3]["ACTION"]
    change(value, 3, f"STATE.SERVER_STATE.{action}.IS_VALID", 0)
    with pytest.raises(InputError, match=rf"ACTION is {action}, but STATE.*{action}.IS_VALID is 0"):
        parse_history(value, "f")


def test_a_missing_key_is_told_with_the_nearest_one(tmp_path):
    value = records(tmp_path)
    value[0]["STATE"]["JOB STATE"] = value[0]["STATE"].pop("JOB_STATE")
    with pytest.raises(InputError, match=r"STATE\.JOB_STATE is missing; it has 'JOB STATE'"):
        parse_history(value, "f")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not valid JSON"),
        (b"\xff\xfe\x00", "not valid JSON"),
        (b"{}", "a JSON object, expected a list"),
        (b"[]", "no records"),
        (b"[3]", "record 0: the record is a number, expected an object"),
    ],
)
def test_what_is_no_history_is_refused(tmp_path, content, message):
    path = tmp_path / "history.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_history(path)
    with pytest.raises(InputError, match="no such file"):
        read_history(tmp_path / "other.json")


def test_unknown_keys_are_left_out_and_told(tmp_path):
    value = records(tmp_path)
    value[2]["STATE"]["DC"]["HUMIDITY"] = 1
    assert parse_history(value, "f").unknown_keys == ("STATE.DC.HUMIDITY",)


@pytest.mark.slow
def test_a_history_becomes_a_dataset(tmp_path):
    """The dataset opens, its decisions can be sampled, and verification detects a change."""
    path, out = tmp_path / "history.json", tmp_path / "set"
    path.write_text(json.dumps(records(tmp_path)))
    result = ingest(path, out)
    assert (result.episodes, result.decisions) == (2, 80)
    dataset = ds.open(out)
    assert dataset.manifest.provenance["recorded"] == "elsewhere"
    assert dataset.spec == SCENARIO.spec(HISTORY, "difference")
    assert "Propensities are NaN" in (out / "README.md").read_text()
    decisions = sample_decisions(
        dataset, "train", np.random.default_rng(0), Columns(6, transitions=True)
    )
    assert len(decisions.reward) == 80
    learned = list(dataset.spec.learned_candidates)
    assert np.isfinite(decisions.candidates[:, :, learned]).all()
    assert np.isfinite(decisions.context).all()
    assert np.isnan(decisions.propensity).all()
    assert "80 converted again" in dict(verify(out).checks)["decisions"]
    table = pl.read_parquet(out / RECORD)
    table.with_columns(pl.col("STATE.DC.TOTAL_HEAT") + 1.0).write_parquet(out / RECORD)
    with pytest.raises(VerificationFailed, match=r"recorded\.parquet: the SHA-256"):
        check(dataset)
    with pytest.raises(StorageError, match="not an empty folder"):
        ingest(path, out)


def test_the_card_of_a_history_claims_no_probabilities(tmp_path):
    (tmp_path / "h.json").write_text(json.dumps(records(tmp_path)))
    ingest(tmp_path / "h.json", tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "The log has no propensities, so importance weights cannot be computed." in card
    assert "license_name: history-trace-terms" in card
    assert "in a simulator" not in card
    assert "hindcast ingest history h.json" in " ".join(card.split())
    assert details(tmp_path / "out").facts["coverage"]["smallest_propensity"] is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkfifo, "device, FIFO or socket"),
        (lambda path: path.symlink_to("/dev/zero"), "device, FIFO or socket"),
        (lambda path: path.symlink_to(path), "cannot be read"),
        (lambda path: path.write_text("[" + "9" * 5000 + "]"), "not valid JSON"),
        (lambda path: None, "no such file"),
    ],
    ids=["fifo", "device", "loop", "number", "missing"],
)
def test_what_is_no_file_of_json_is_refused(tmp_path, make, message):
    make(tmp_path / "h.json")
    with pytest.raises(InputError, match=message):
        read_history(tmp_path / "h.json")


def test_a_history_that_reveals_the_decision_is_marked(tmp_path):
    blocks = blocks_of(tmp_path, "max_distance", [figure_4_jobs()], PAPER)
    write_records(tmp_path / "h.json", [leaky_history(blocks, PAPER)])
    ingest(tmp_path / "h.json", tmp_path / "out")
    notes = ds.open(tmp_path / "out").manifest.provenance["notes"]
    assert any("reveal it" in note for note in notes)


@pytest.mark.parametrize("left", [(), (".building",), (".lock", ".building/.plan.json.partial")])
def test_an_ingestion_that_wrote_nothing_is_given_again(tmp_path, left):
    """The folders that a full disk leaves are no dataset; anything else is not touched."""
    path = tmp_path / "log.json"
    path.write_text(json.dumps(records(tmp_path)))
    out = tmp_path / "out"
    out.mkdir()
    for name in left:
        place = out / name
        place.parent.mkdir(exist_ok=True)
        if name.endswith("building"):
            place.mkdir()
        else:
            place.touch()
    assert ingest(path, out).decisions > 0
    (tmp_path / "foreign" / ".building").mkdir(parents=True)
    (tmp_path / "foreign" / "mine.txt").touch()
    with pytest.raises(StorageError, match="not an empty folder"):
        ingest(path, tmp_path / "foreign")


def test_what_was_read_from_a_file_is_written_again(tmp_path):
    path = tmp_path / "history.json"
    path.write_text(json.dumps(records(tmp_path)))
    ingest(path, tmp_path / "out")
    blocks = list(ds.open(tmp_path / "out").blocks(0))
    assert same(to_history(blocks), read_history(path))
    with pytest.raises(DatasetError, match="no decisions"):
        to_history([])


def test_parsing_leaves_the_value_alone(tmp_path):
    value = records(tmp_path)
    before = copy.deepcopy(value)
    parse_history(value, "f")
    assert value == before


@pytest.mark.slow
def test_a_history_in_a_store_becomes_the_same_dataset(tmp_path):
    """A history that is read from a URL and written to a URL gives the same dataset."""
    import fsspec

    from hindcast.pipeline.storage import files as storage
    from hindcast.pipeline.storage.location import location

    path = tmp_path / "d.json"
    path.write_text(json.dumps(records(tmp_path)))
    ingest(path, tmp_path / "out" / "d")
    place = location("memory://history")
    storage.write_text(place / "d.json", path.read_text())
    ingest(place / "d.json", place / "d")
    for file in (tmp_path / "out" / "d").rglob("*"):
        if file.is_file():
            name = file.relative_to(tmp_path / "out" / "d").as_posix()
            assert (place / "d" / name).read_bytes() == file.read_bytes(), name
    verify(place / "d")
    fsspec.filesystem("memory").store.clear()
