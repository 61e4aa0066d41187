"""Tests of datasets that are made of logs of decisions, and of what `verify` finds in them."""

import json

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

import hindcast
from hindcast.flows.cli import main
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.decisions.cautions import checked_propensities_of
from hindcast.pipeline.decisions.conversion import convert
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.record import read_record, same_log
from hindcast.pipeline.decisions.verification import check
from hindcast.pipeline.errors import InputError, StorageError, VerificationFailed
from tests.pipeline.decisions.decision_cases import ROWS, case, cases, long_table

SESSIONS = {**ROWS, "columns": {**ROWS["columns"], "session": "s"}}


@pytest.fixture
def made(tmp_path):
    convert(read_log(long_table(), ROWS), tmp_path / "d", "log")
    return tmp_path / "d"


def checks(folder, **more):
    return dict(verify(folder, **more).checks)


@pytest.mark.slow
def test_every_decision_is_an_episode_of_its_own(made):
    dataset = ds.open(made)
    rows = dataset.transitions().sort("time_s").collect()
    table = long_table()
    assert rows["time_s"].to_list() == [60.0 * i for i in range(12)]
    assert rows["reward"].to_list() == [d % 3 - 0.5 * ((d * 7) % (2 + d % 2)) for d in range(12)]
    assert rows["terminated"].all()
    first = rows.row(0, named=True)
    assert [c["x"] for c in first["candidates"]] == pytest.approx(table["x"][:2].to_list())
    assert [c["size=large"] for c in first["candidates"]] == [0.0, 1.0]
    assert first["behaviour_probabilities"] == [0.25, 0.75]
    assert dataset.manifest.counts["episodes"] == 12


def test_codes_are_identifiers_and_levels_are_features(made):
    spec = ds.open(made).spec
    kinds = {f.name: f.identifier for f in spec.candidates}
    assert kinds == {"x": False, "size=large": False, "size=small": False, "size=*": False,
                     "size": True, "candidate": True}  # fmt: skip


def test_windows_are_units_and_splits_are_ranges(made):
    episodes = ds.open(made).episodes()
    assert episodes["window"].to_list() == list(range(12))
    order = episodes["split"].unique(maintain_order=True).to_list()
    assert order == [s for s in ("train", "validation", "test") if s in order]


@pytest.mark.slow
def test_verify_recomputes_what_can_be_and_says_what_cannot(made):
    found = checks(made)
    assert "not re-simulated" in found["decisions"]
    assert "how the decisions were drawn" in found["not compared"]


@pytest.mark.slow
def test_the_record_is_the_log(made):
    again = read_record(made, ds.open(made).manifest.provenance)
    assert same_log(read_log(long_table(), ROWS), again) == ""


@pytest.mark.slow
def test_the_same_log_gives_the_same_bytes(made, tmp_path):
    convert(read_log(long_table(), ROWS), tmp_path / "e", "log")
    for name in ("manifest.json", "recorded.parquet", "data/part-00000.parquet", "README.md"):
        assert (made / name).read_bytes() == (tmp_path / "e" / name).read_bytes()


@pytest.mark.slow
def test_a_session_is_an_episode_until_a_decision_without_reward(tmp_path):
    """Sessions of four decisions; the second one has no reward in its third decision."""
    table = long_table().with_columns(s=pl.col("id").str.slice(1).cast(pl.Int64) // 4)
    lost = table.with_columns(r=pl.when(pl.col("id") != "d6").then("r"))
    result = convert(read_log(lost, SESSIONS), tmp_path / "d", "log")
    dataset = ds.open(result.folder)
    episodes = dataset.episodes().sort("steps", descending=True)
    assert episodes["steps"].to_list() == [4, 4, 2]
    assert episodes["truncated"].all()
    assert dataset.manifest.provenance["counts"]["cut_sessions"] == 1
    assert "cut_sessions" in [c.code for c in dataset.manifest.caveats]
    assert checks(result.folder)
    whole = convert(read_log(table, {**SESSIONS, "sessions_end": True}), tmp_path / "e", "log")
    assert not ds.open(whole.folder).episodes()["truncated"].any()


@pytest.mark.slow
def test_missing_numbers_have_a_column_of_their_own(tmp_path):
    table = long_table().with_columns(x=pl.when(pl.col("arm") != "elm").then("x"))
    convert(read_log(table, ROWS), tmp_path / "d", "log")
    rows = ds.open(tmp_path / "d").transitions().collect()
    for candidates in rows["candidates"]:
        for c in candidates:
            assert c["x_missing"] == float(np.isnan(c["x"]))
    assert checks(tmp_path / "d")


@pytest.mark.parametrize("damage", ["record", "part", "split", "mapping", "caveat"])
def test_damage_is_found(made, damage):
    manifest = json.loads((made / "manifest.json").read_text())
    if damage == "record":
        table = pl.read_parquet(made / "recorded.parquet")
        table.with_columns(reward=pl.col("reward") + 1).write_parquet(made / "recorded.parquet")
    elif damage == "part":
        (made / "data/part-00000.parquet").write_bytes(b"PAR1")
    elif damage == "split":
        manifest["provenance"]["vocabulary"]["candidates.size"] = {"large": 1}
    elif damage == "mapping":
        manifest["provenance"]["mapping"]["split"]["by"] = "time"
    else:
        manifest["caveats"] = [{"code": "deterministic", "text": "made up", "numbers": {}}]
    (made / "manifest.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    with pytest.raises(VerificationFailed):
        verify(made)


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    "01-long.toml", "07-obp.npz", "08-obd", "09-router.toml", "10-sessions.toml", "11-ccb.dsjson",
    "12-pdrop.dsjson", "17-override-two-names.toml", "41-no-propensity.toml", "43-not-finite.toml",
    "45-what-logs-hold.dsjson", "49-greedy-part-says-1.toml",
])  # fmt: skip
def test_cases_become_datasets_that_verify_against_their_logs(name, tmp_path):
    convert(case(name), tmp_path / "d", name)
    found = checks(tmp_path / "d", trace=cases() / name)
    assert "read again" in found["decisions"]


@pytest.mark.slow
def test_another_log_is_not_that_of_the_dataset(tmp_path):
    convert(case("01-long.toml"), tmp_path / "d", "log")
    with pytest.raises(InputError, match="not the log of the dataset"):
        verify(tmp_path / "d", trace=cases() / "14-cost.toml")


@pytest.mark.slow
def test_other_folders_are_not_overwritten(tmp_path, made):
    convert(read_log(long_table(24), ROWS), made, "log")  # a dataset of decisions is replaced
    assert ds.open(made).manifest.counts["decisions"] == 24
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("")
    with pytest.raises(StorageError, match=r"mine\.txt"):
        convert(read_log(long_table(), ROWS), tmp_path / "notes", "log")


@pytest.mark.parametrize("text", ["[]", '{"provenance": 3}', '{"provenance": {"format": "swf"}}'])
def test_a_folder_with_any_other_manifest_is_not_overwritten(text, tmp_path):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(StorageError, match="this folder holds another dataset"):
        convert(read_log(long_table(), ROWS), tmp_path, "made")


def test_what_needs_a_simulator_is_refused_by_name(made):
    with pytest.raises(InputError, match="hindcast ope DATASET"):
        hindcast.evaluate(made, ["random"], out=made.parent / "e")
    with pytest.raises(InputError, match="hindcast ope DATASET"):
        hindcast.make_env(made)


@pytest.mark.slow
def test_ingest_in_python_and_on_the_command_line(tmp_path, capsys):
    made = hindcast.ingest("decisions", long_table(), tmp_path / "a", mapping=ROWS)
    assert made.decisions == 12
    (tmp_path / "log.csv").write_text(long_table().write_csv())
    (tmp_path / "log.toml").write_text(
        'kind = "decisions"\nfile = "log.csv"\n[columns]\ndecision = "id"\nchosen = "chosen"\n'
        'candidate = "arm"\nprobability = "p"\nreward = "r"\ntime = "t"\nfeasible = "ok"\n'
    )
    ingest = ["ingest", "decisions"]
    assert main([*ingest, str(tmp_path / "log.toml"), "--out", str(tmp_path / "b")]) == 0
    assert "12 decisions" in capsys.readouterr().out
    assert main([*ingest, str(tmp_path / "log.csv"), "--out", str(tmp_path / "c")]) == 2
    assert "hindcast init" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


@pytest.mark.slow
def test_pieces_of_a_log_give_the_same_tests_and_bytes_of_the_same_decisions(tmp_path, monkeypatch):
    """A piece holds 20 candidates: about seven decisions."""
    table = long_table(60, np.random.default_rng(6))
    whole = read_log(table, ROWS)
    tests = checked_propensities_of(whole)
    convert(whole, tmp_path / "whole", "log")
    for name, size in (
        ("decisions.log._PIECE", 20), ("decisions.cautions.SMALL_PIECE", 20),
        ("decisions.batch._FEW", 3), ("decisions.assembly._COUNTED", 20),
        ("decisions.conversion._EPISODES", 4), ("dataset.documents.card.header._ROWS", 4),
    ):  # fmt: skip
        monkeypatch.setattr(f"hindcast.pipeline.{name}", size)
    pieces = read_log(table, ROWS)
    assert len(list(pieces.pieces())) > 5
    again = checked_propensities_of(pieces)
    assert again.e_value == pytest.approx(tests.e_value)
    assert again.mean_weight_se == pytest.approx(tests.mean_weight_se)
    assert again.p_value == pytest.approx(tests.p_value)
    assert {s.name: s.decisions for s in again.sets} == {s.name: s.decisions for s in tests.sets}
    convert(pieces, tmp_path / "d", "log")
    record = read_record(tmp_path / "d", ds.open(tmp_path / "d").manifest.provenance)
    assert same_log(record, whole) == ""
    assert checks(tmp_path / "d")
    for name in ("data/part-00000.parquet", ds.manifest.EPISODES, ds.manifest.CARD):
        assert (tmp_path / "d" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_log_may_have_more_windows_than_an_evaluation_plays(monkeypatch, tmp_path):
    monkeypatch.setattr("hindcast.pipeline.recipes.loading._MOST_EPISODES", 2)
    folder = convert(read_log(long_table(), ROWS), tmp_path / "d", "log").folder
    assert ds.open(folder).episodes().height == 12


@pytest.mark.slow
def test_parts_are_filled_with_row_groups_and_hold_one_split(tmp_path, monkeypatch):
    """A row group has about eight candidates; a part is full after its second group."""
    monkeypatch.setattr("hindcast.pipeline.decisions.conversion._GROUP", 8)
    monkeypatch.setattr("hindcast.pipeline.decisions.conversion._PART", 3000)
    log = read_log(long_table(60, np.random.default_rng(6)), ROWS)
    dataset = ds.open(convert(log, tmp_path / "d", "log").folder)
    assert len(dataset.manifest.parts) > 3
    parts = [dataset.part(p) for p in range(len(dataset.manifest.parts))]
    assert max(pq.ParquetFile(path).num_row_groups for path in parts) > 1
    splits = dataset.episodes().group_by("first_part").agg(pl.col("split").n_unique())
    assert (splits["split"] == 1).all()
    assert checks(tmp_path / "d")
    met = [int(e) for b in dataset.batches(7, np.random.default_rng(0)) for e in b.episode]
    assert sorted(met) == list(range(dataset.episodes("train").height))
    pq.write_table(pq.read_table(parts[0]), parts[0])  # the same rows in one row group
    with pytest.raises(VerificationFailed, match="row groups are not those"):
        check(dataset)
