"""Tests of filter, merge and split of logs of decisions: decisions are those of the log."""

import json

import polars as pl
import pytest

import hindcast
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.decisions.conversion import convert
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.record import read_record, same_log
from hindcast.pipeline.errors import DatasetError, InputError, VerificationFailed
from hindcast.pipeline.storage.files import sha256_file, write_json
from tests.pipeline.decisions.decision_cases import ROWS, long_table

SESSIONS = {
    **ROWS, "columns": {**ROWS["columns"], "session": "s"},
    "split": {"by": "time", "validation": 0.0, "test": 0.25},
}  # fmt: skip


def lost(table):
    """Return the log with sessions of three decisions; two decisions have no reward."""
    session = pl.col("id").str.slice(1).cast(pl.Int64) // 3
    reward = pl.when(~pl.col("id").is_in(["d4", "d9"])).then("r")
    return table.with_columns(s=session, r=reward)


@pytest.fixture(scope="module", params=[ROWS, SESSIONS], ids=["single", "sessions"])
def whole(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "d"
    convert(read_log(lost(long_table(24)), request.param), folder, "log")
    return hindcast.open_dataset(folder)


def log_of(dataset):
    return read_record(dataset.folder, dataset.manifest.provenance)


def checks(dataset, *parents):
    return dict(hindcast.verify(dataset, parents=parents).checks)


@pytest.mark.slow
def test_split_and_merge_give_the_same_bytes(whole, tmp_path):
    parts = hindcast.split(whole, tmp_path / "s")
    assert [*parts] == whole.episodes()["split"].unique(maintain_order=True).to_list()
    both = hindcast.merge([*reversed(parts.values())], tmp_path / "m")
    assert same_log(log_of(both), log_of(whole)) == ""
    for name in ("recorded.parquet", "episodes.parquet", "data/part-00000.parquet"):
        assert (both.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    for name, dataset in parts.items():
        assert {*dataset.episodes()["split"]} == {name}
        assert dataset.spec == whole.spec
        assert "decisions are those of the parents" in checks(dataset, whole)["parents"]
    checks(both, *reversed(parts.values()))
    assert "selected" not in {c.code for c in both.manifest.caveats}


@pytest.mark.slow
@pytest.mark.parametrize("timed", [True, False])
def test_parts_of_a_log_of_several_files_are_merged_in_its_order(tmp_path, timed):
    table = long_table(24)
    table = table if timed else table.drop("t")
    first = table["id"].str.slice(1).cast(pl.Int64) < 12
    table.filter(first).write_csv(tmp_path / "zz.csv")
    table.filter(~first).write_csv(tmp_path / "aa.csv")
    columns = {k: v for k, v in ROWS["columns"].items() if timed or k != "time"}
    sources = [tmp_path / "zz.csv", tmp_path / "aa.csv"]
    convert(read_log(sources, {**ROWS, "columns": columns}), tmp_path / "d", "log")
    whole = hindcast.open_dataset(tmp_path / "d")
    assert log_of(whole).decisions["file"].n_unique() == 2
    parts = hindcast.split(whole, tmp_path / "s")
    both = hindcast.merge([*reversed(parts.values())], tmp_path / "m")
    assert same_log(log_of(both), log_of(whole)) == ""


@pytest.mark.slow
def test_a_unit_in_two_splits_is_refused(tmp_path, monkeypatch):
    """A part has one session of a user for validation, and the log another one for training."""
    mapping = {**SESSIONS, "columns": {**SESSIONS["columns"], "unit": "user"}}
    table = lost(long_table(36)).with_columns(user=pl.col("s") // 2)
    convert(read_log(table, mapping), tmp_path / "d", "log")
    whole = hindcast.open_dataset(tmp_path / "d")
    moved = hindcast.split(whole, tmp_path / "s", by="time", validation=0.4, test=0.2)["validation"]
    unit = log_of(moved).decisions["unit_id"][0]
    of_unit = log_of(whole).decisions.filter(pl.col("unit_id") == unit)
    assert of_unit["session"].n_unique() == 2
    one = hindcast.filter(moved, tmp_path / "one", episodes="0")
    there = whole.episodes().filter(pl.col("split") == "train")
    ids = log_of(one).decisions["id"].to_list()
    others = [
        e for e in there["episode"] if not {*ids} & {*ids_of(whole, e, tmp_path)}
        and unit in {*units_of(tmp_path, e)}
    ]  # fmt: skip
    other = tmp_path / f"e{others[0]}"
    with pytest.raises(DatasetError, match=rf"unit {unit} is in the splits train, validation"):
        hindcast.merge([one, other], tmp_path / "m")
    monkeypatch.setattr("hindcast.pipeline.selection.logs.torn_unit", lambda _: "")
    torn = hindcast.merge([one, other], tmp_path / "m")
    with pytest.raises(VerificationFailed, match=rf"unit {unit} is in the splits"):
        hindcast.verify(torn)


def ids_of(whole, episode, folder):
    """Return the ids of an episode's decisions; its dataset is the folder e and its number."""
    return log_of(hindcast.filter(whole, folder / f"e{episode}", episodes=str(episode))).decisions[
        "id"
    ]


def units_of(folder, episode):
    return log_of(hindcast.open_dataset(folder / f"e{episode}")).decisions["unit_id"]


@pytest.mark.slow
def test_decisions_of_a_selection_are_those_of_the_log(whole, tmp_path):
    """Probabilities, masks, choices and rewards stay; a session keeps its end without reward."""
    one = hindcast.filter(whole, tmp_path / "e", episodes="1..2")
    log, parent = log_of(one), log_of(whole)
    places = parent.decisions["id"].is_in(log.decisions["id"].implode()).arg_true()
    assert same_log(log, parent.take(places.to_numpy().astype("int64"))) == ""
    columns = ["context", "feasible", "choice", "propensity", "behaviour_probabilities", "reward"]
    table = whole.transitions().collect()
    wanted = table.filter(pl.col("episode").is_in([1, 2]))
    found = one.transitions().collect()
    assert found.select(columns[1:]).equals(wanted.select(columns[1:]))
    features = [f.name for f in whole.spec.candidates if not f.identifier]
    for name in features:
        one_field = pl.col("candidates").list.eval(pl.element().struct.field(name))
        assert found.select(one_field).equals(wanted.select(one_field))
    assert "not re-simulated" in checks(one, whole)["decisions"]


@pytest.mark.slow
def test_decisions_without_reward_stay_where_the_condition_is_known_before(whole, tmp_path):
    [split, *_] = whole.episodes()["split"]
    log = log_of(hindcast.filter(whole, tmp_path / "e", split=[split]))
    expected = log_of(whole).decisions.filter(pl.col("split") == split)
    assert log.decisions["id"].to_list() == expected["id"].to_list()
    assert log.counts["censored"] == expected["reward"].null_count()
    behaviour = hindcast.filter(whole, tmp_path / "b", behaviour=["recorded"])
    assert same_log(log_of(behaviour), log_of(whole)) == ""
    by_return = hindcast.filter(whole, tmp_path / "w", where="return > -100")
    if whole.episodes()["steps"].max() == 1:
        assert log_of(by_return).counts["censored"] == 0
    dropped = hindcast.filter(whole, tmp_path / "n", drop_episodes="0")
    first = log_of(whole).decisions["id"].to_list()
    assert {*log_of(dropped).decisions["id"]} < {*first}
    assert "d9" in log_of(dropped).decisions["id"]
    for dataset in (behaviour, by_return, dropped):
        checks(dataset, whole)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["time", "hash"])
def test_units_of_the_train_split_are_divided(whole, tmp_path, by):
    parts = hindcast.split(whole, tmp_path / "s", by=by, validation=0.4, test=0.2)
    before = dict(log_of(whole).decisions.select("id", "split").rows())
    for name, dataset in parts.items():
        checks(dataset, whole)
        for decision in log_of(dataset).decisions["id"]:
            assert before[decision] in ("train", name)
    assert same_log(log_of(hindcast.merge([*parts.values()], tmp_path / "m")), log_of(whole)) in (
        "the column split of the decisions", "",
    )  # fmt: skip


@pytest.mark.slow
def test_a_selection_by_reward_is_a_caution_of_every_answer(whole, tmp_path):
    one = hindcast.filter(whole, tmp_path / "e", where="return >= 0")
    assert "biased by the selection" in hindcast.ope(one, ["uniform"]).cautions[0].text
    assert "selected" not in {c.code for c in hindcast.ope(whole, ["uniform"]).cautions}


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["record", "vocabulary", "caveat"])
def test_a_changed_selection_is_found(whole, tmp_path, damage):
    one = hindcast.filter(whole, tmp_path / "e", where="return > -100").folder
    value = json.loads((one / "manifest.json").read_text())
    if damage == "record":
        table = pl.read_parquet(one / "recorded.parquet")
        table.with_columns(reward=pl.col("reward") + 1).write_parquet(one / "recorded.parquet")
        value["provenance"]["tables"]["recorded.parquet"]["sha256"] = sha256_file(
            one / "recorded.parquet"
        )
    elif damage == "vocabulary":
        value["provenance"]["vocabulary"]["candidates.size"] = {"large": 1}
    else:
        value["caveats"] = [c for c in value["caveats"] if c["code"] != "selected"]
    write_json(one / "manifest.json", value)
    write_json(one / "manifest.json", mf.to_json(mf.read_manifest(one)))
    with pytest.raises(VerificationFailed):
        hindcast.verify(one)


def test_another_log_is_refused(whole, tmp_path):
    convert(read_log(long_table().with_columns(x=pl.col("x") * 2), ROWS), tmp_path / "o", "log")
    with pytest.raises(DatasetError, match=r"scale is 1\.0, but 0\.5|are not"):
        hindcast.merge([whole, tmp_path / "o"], tmp_path / "m")
    with pytest.raises(InputError, match="there is no episode 99"):
        hindcast.filter(whole, tmp_path / "m", episodes="99")
    assert not (tmp_path / "m").exists()
