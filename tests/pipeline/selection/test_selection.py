"""Tests of filter, merge and split: rows stay as they are, and results say where they are from."""

import json
import shutil
from dataclasses import replace

import polars as pl
import pyarrow.parquet as pq
import pytest

import hindcast
from hindcast.flows.cli import main
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.errors import DatasetError, InputError, VerificationFailed
from hindcast.pipeline.selection.selecting import check_parents
from hindcast.pipeline.storage.files import sha256_file, write_json
from hindcast.policies.training.delivery.gates import _windows_of
from tests.conftest import TINY

SETTINGS = (
    *TINY, 'split.train="0..3"', 'split.validation="4..4"', 'split.test="5..5"',
    'behaviours=[{policy="random", episodes=2}, {policy="tetris", epsilon=0.2}]',
)  # fmt: skip


def build(folder, *more):
    return hindcast.build("binpack-synthetic-v1", folder, overrides=(*SETTINGS, *more))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return build(tmp_path_factory.mktemp("whole") / "d")


def rows(dataset):
    """Return the decisions with what an episode is known by, but not its number."""
    labels = dataset.episodes().select("episode", "split", "behaviour", "window", "seed")
    found = pl.concat(pl.read_parquet(dataset.folder / p.path) for p in dataset.manifest.parts)
    joined = found.join(labels, on="episode").drop("episode")
    return joined.sort("behaviour", "window", "seed", "step")


def kept(dataset, condition):
    return rows(dataset).filter(condition)


def checks(dataset, *parents):
    return dict(hindcast.verify(dataset, parents=parents).checks)


@pytest.mark.slow
def test_rows_of_a_selection_are_those_of_its_parent(whole, tmp_path):
    one = hindcast.filter(whole, tmp_path / "e", behaviour=["random"], window="1..2,4")
    expected = kept(whole, pl.col("window").is_in([1, 2, 4]) & (pl.col("behaviour") == "random"))
    assert rows(one).equals(expected)
    assert one.episodes()["episode"].to_list() == list(range(6))
    found = checks(one, whole)
    assert found["draws"] == "6 episodes drawn again from the recipe's seed"
    said = f"{expected.height:,} rows (decisions and closing rows) are those of the parents"
    assert found["parents"].endswith(said)
    assert "--parent" not in found["not compared"]
    assert "--parent" in checks(one)["not compared"]


def test_numbers_of_episodes_are_those_of_the_parent(whole, tmp_path):
    numbers = whole.episodes().select("behaviour", "seed", "window").rows()
    some = hindcast.filter(whole, tmp_path / "some", episodes="3,6..7")
    others = hindcast.filter(whole, tmp_path / "others", drop_episodes="3,6..7")
    found = [d.episodes().select("behaviour", "seed", "window").rows() for d in (some, others)]
    assert found[0] == [numbers[3], numbers[6], numbers[7]]
    assert sorted(found[0] + found[1]) == sorted(numbers)


@pytest.mark.slow
def test_a_condition_is_on_the_table_of_episodes(whole, tmp_path):
    table = whole.episodes()
    bound = float(table["return"].median())
    one = hindcast.filter(whole, tmp_path / "e", where=f"return < {bound} AND steps > 0")
    assert one.episodes()["return"].to_list() == table["return"].filter(
        table["return"] < bound
    ).to_list()  # fmt: skip
    checks(one, whole)


@pytest.mark.slow
def test_split_and_merge_give_the_same_rows(whole, tmp_path):
    parts = hindcast.split(whole, tmp_path / "s")
    assert list(parts) == ["train", "validation"]
    assert [d.episodes()["split"].unique().to_list() for d in parts.values()] == [
        ["train"], ["validation"]
    ]  # fmt: skip
    both = hindcast.merge([*parts.values()], tmp_path / "m")
    assert rows(both).equals(rows(whole))
    assert both.manifest.data_sha256 == whole.manifest.data_sha256
    assert not both.manifest.caveats or "selected" not in {c.code for c in both.manifest.caveats}
    checks(both, *parts.values())


def test_the_same_selection_has_the_same_bytes(whole, tmp_path):
    for name in "ab":
        hindcast.filter(whole, tmp_path / name, window="0..2")
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.*"))
    assert len(files) >= 6
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("by", ["time", "hash"])
def test_only_train_windows_are_divided(whole, tmp_path, by):
    parts = hindcast.split(whole, tmp_path / "s", by=by, validation=0.25, test=0.25)
    windows = {name: {*d.episodes()["window"]} for name, d in parts.items()}
    assert 4 in windows["validation"]
    assert set.union(*windows.values()) == {0, 1, 2, 3, 4}
    assert sum(map(len, windows.values())) == 5
    if by == "time":
        assert windows == {"train": {0, 1}, "validation": {2, 4}, "test": {3}}
    for dataset in parts.values():
        checks(dataset, whole)
    assert rows(hindcast.merge([*parts.values()], tmp_path / "m")).height == rows(whole).height


@pytest.mark.slow
def test_builds_by_different_behaviours_are_merged(whole, tmp_path):
    other = build(
        tmp_path / "o", 'behaviours=[{policy="first_fit"}, {policy="random", episodes=3}]'
    )
    both = hindcast.merge([whole, other], tmp_path / "m")
    found = both.episodes().group_by("behaviour").len().sort("behaviour").rows()
    assert found == [("first_fit", 5), ("random", 15), ("tetris+eps0.2", 5)]
    assert len(both.manifest.merged) == 1
    checks(both, whole, other)
    shutil.copytree(both.folder, tmp_path / "c")
    last = (pl.col("behaviour") == "random") & (pl.col("seed") == 2)
    seeds = pl.when(last).then(3).otherwise("seed").cast(pl.Int64).alias("seed")
    reseal(tmp_path / "c", both.episodes().with_columns(seeds))
    with pytest.raises(VerificationFailed, match="is none of the recipes'"):
        hindcast.verify(tmp_path / "c", quick=True)
    checks(hindcast.filter(both, tmp_path / "f", behaviour=["first_fit"]), both)
    with pytest.raises(DatasetError, match="made of several recipes"):
        hindcast.load_recipe(tmp_path / "m")


@pytest.mark.slow
def test_datasets_of_other_problems_are_refused_with_the_difference(whole, tmp_path):
    other = build(tmp_path / "o", "config.machines=3")
    with pytest.raises(DatasetError, match=r"config.machines is \d+ in the dataset and 3"):
        hindcast.merge([whole, other], tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_an_episode_with_two_results_is_refused(whole, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(whole.folder, copy)
    table = whole.episodes().with_columns(pl.col("return") + (pl.col("episode") == 2))
    reseal(copy, table)
    with pytest.raises(DatasetError, match="different results for the episode of behaviour"):
        hindcast.merge([whole, copy], tmp_path / "m")


def reseal(folder, table=None):
    """Write the table of episodes, and the manifest with the digests of all files."""
    manifest = json.loads((folder / "manifest.json").read_text())
    if table is not None:
        table.write_parquet(folder / "episodes.parquet")
    for entry in (manifest["episodes"], *manifest["parts"]):
        path = folder / entry["path"]
        entry |= {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
    write_json(folder / "manifest.json", manifest)
    write_json(folder / "manifest.json", mf.to_json(mf.read_manifest(folder)))


def drop_caveat(folder, table):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["caveats"] = [c for c in manifest["caveats"] if c["code"] != "selected"]
    write_json(folder / "manifest.json", manifest)
    return table


def tamper_row(folder, table):
    part = folder / "data" / "part-00000.parquet"
    rows = pl.read_parquet(part)
    rows = rows.with_columns(reward=pl.col("reward") + (pl.int_range(pl.len()) == 1))
    pq.write_table(rows.to_arrow().cast(pq.read_schema(part)), part)
    return table


@pytest.mark.parametrize(("tamper", "fault"), [
    (tamper_row, "the reward differs"),
    (lambda _, t: t.with_columns(seed=pl.lit(7, pl.Int64)), "is none of the recipes'"),
    (lambda _, t: t.with_columns(split=pl.lit("validation")), "in another split"),
    (lambda _, t: t.with_columns(seed=pl.lit(0, pl.Int64)), "is there twice"),
    (drop_caveat, "the caveats do not name the selection of its lineage"),
])  # fmt: skip
def test_a_changed_selection_is_found(whole, tmp_path, tamper, fault):
    one = hindcast.filter(whole, tmp_path / "e", window="0..1", where="steps > 0")
    reseal(one.folder, tamper(one.folder, one.episodes()))
    with pytest.raises(VerificationFailed, match=fault):
        hindcast.verify(one.folder, quick=True)


def test_a_selection_that_left_out_more_is_found_with_its_parent(whole, tmp_path):
    """The episodes are right, but the condition would keep others as well."""
    one = hindcast.filter(whole, tmp_path / "e", window="0..1")
    text = (one.folder / "manifest.json").read_text().replace('"0..1"', '"0..2"')
    (one.folder / "manifest.json").write_text(text)
    value = json.loads(text)
    manifest = mf.read_manifest(one.folder)
    value["digest"] = mf.digest_of(manifest.recipes, manifest.lineage)
    write_json(one.folder / "manifest.json", value)
    write_json(one.folder / "manifest.json", mf.to_json(mf.read_manifest(one.folder)))
    with pytest.raises(VerificationFailed, match=r"not those that filter --window 0\.\.2 selects"):
        hindcast.verify(one.folder, parents=[whole])


@pytest.mark.parametrize("arguments", [
    {"window": 5}, {"episodes": {}}, {"where": ["a"]}, {"behaviour": "random"},
    {"split": ["train", 1]},
])  # fmt: skip
def test_arguments_of_a_wrong_type_are_one_line(whole, tmp_path, arguments):
    """The lineage of a dataset from elsewhere may have anything."""
    one = hindcast.filter(whole, tmp_path / "e", window="0..1")
    lineage = replace(one.manifest.lineage, arguments=arguments)
    changed = replace(one, manifest=replace(one.manifest, lineage=lineage))
    with pytest.raises(VerificationFailed, match="has arguments of a wrong type"):
        check_parents(changed, [whole])


def test_a_result_inside_of_a_parent_is_refused(whole, tmp_path):
    shutil.copytree(whole.folder, tmp_path / "d")
    for out in (tmp_path / "d" / "inside", tmp_path / "x" / ".." / "d" / "data" / "deep"):
        with pytest.raises(InputError, match="lies in the given dataset"):
            hindcast.filter(tmp_path / "d", out, window="0")
    checks(hindcast.open_dataset(tmp_path / "d"))


@pytest.mark.slow
def test_a_gate_plays_the_windows_of_a_divided_dataset(whole, tmp_path):
    parts = hindcast.split(whole, tmp_path / "s", by="time", validation=0.25, test=0.25)
    both = hindcast.merge([*parts.values()], tmp_path / "m")
    played = [_windows_of(dataset, 0) for dataset in (whole, both)]
    assert [(sorted(w.train), sorted(w.validation)) for w in played] == [
        ([0, 1, 2, 3], [4]), ([0, 1], [2, 4])
    ]  # fmt: skip


@pytest.mark.slow
def test_lineage_is_shown_and_names_no_place(whole, tmp_path, capsys):
    one = hindcast.filter(whole, tmp_path / "e", where="return < 0")
    two = hindcast.filter(one, tmp_path / "f", window="0..1")
    assert main(["show", str(two.folder)]) == 0
    out = capsys.readouterr().out
    assert "lineage   filter --window 0..1" in out
    assert "filter --where 'return < 0'" in out
    assert whole.manifest.data_sha256[:12] in out
    assert str(tmp_path) not in (two.folder / "manifest.json").read_text()
    card = (two.folder / "README.md").read_text()
    assert "filter --where 'return < 0'" in card
    assert "no sample of what the behaviours do" in " ".join(card.replace("> ", "").split())


@pytest.mark.slow
def test_a_selection_by_outcome_is_a_caution_and_one_by_window_is_none(whole, tmp_path, capsys):
    by_window = hindcast.filter(whole, tmp_path / "w", window="0..3", split=["train"])
    assert "selected" not in {c.code for c in by_window.manifest.caveats}
    assert main(["filter", str(whole.folder), "--where", "return < 0", "--out",
                 str(tmp_path / "e")]) == 0  # fmt: skip
    assert "biased by the selection" in capsys.readouterr().err
    found = hindcast.ope(tmp_path / "e", ["tetris"], truth_seeds=0, estimators=["snis"])
    assert any("biased by the selection" in note for note in found.description["notes"])


def test_exports_of_a_selection_work(whole, tmp_path):
    one = hindcast.filter(whole, tmp_path / "e", window="0..1")
    hindcast.export(one, "csv", tmp_path / "csv")
    decisions = pl.read_csv(tmp_path / "csv" / "decisions.csv")
    assert decisions["episode"].n_unique() == one.episodes().height


@pytest.mark.parametrize(("line", "told"), [
    ([], "expected a condition"),
    (["--where", "retrun < 0"], "did you mean 'return'"),
    (["--where", "return"], "expected a condition on each episode"),
    (["--where", "return <"], "cannot be used"),
    (["--where", "return < 'a'"], "cannot be used"),
    (["--where", "steps IN (SELECT a FROM read_csv('/x.csv'))"], "without SELECT, FROM"),
    (["--where", "steps IN (FROM read_csv('/x.csv'))"], "without SELECT, FROM"),
    (["--where", "steps > READ_PARQUET('x')"], "without SELECT, FROM"),
    (["--where", " AND ".join(["steps > 0"] * 400)], "of up to 2,000 characters"),
    (["--where", "return > 1e9"], "none of its 15 episodes is kept"),
    (["--episodes", "3,900"], "there is no episode 900, expected some of 0 to 14"),
    (["--drop-episodes", "three"], "expected numbers or ranges"),
    (["--behaviour", "tetri"], "unknown behaviour 'tetri'"),
    (["--split", "test"], "unknown split 'test'"),
])  # fmt: skip
def test_bad_conditions_are_one_line_and_write_nothing(whole, tmp_path, capsys, line, told):
    assert main(["filter", str(whole.folder), *line, "--out", str(tmp_path / "e")]) == 2
    [text] = [t for t in capsys.readouterr().err.splitlines() if t.startswith("hindcast:")]
    assert told in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_folders_and_shares_that_cannot_be_used_are_refused(whole, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(InputError, match="is not empty"):
        hindcast.filter(whole, tmp_path / "full", window="0")
    with pytest.raises(InputError, match="expected at least 2"):
        hindcast.merge([whole], tmp_path / "m")
    with pytest.raises(InputError, match="sum above 0 and below 1"):
        hindcast.split(whole, tmp_path / "s", by="time", validation=0.5, test=0.5)
    with pytest.raises(InputError, match="kept by split --part test"):
        hindcast.split(whole, tmp_path / "s", by="time", validation=0.5, test=0.01)
    with pytest.raises(DatasetError, match="was not made of others"):
        hindcast.verify(whole, parents=[whole])
    one = hindcast.filter(whole, tmp_path / "e", window="0")
    assert hindcast.load_recipe(one.folder).digest == whole.recipe.digest
    with pytest.raises(DatasetError, match="its parents have the data"):
        hindcast.verify(one, parents=[one])
    with pytest.raises(InputError, match="made of others"):
        hindcast.append("binpack-synthetic-v1", one.folder, overrides=SETTINGS)
    with pytest.raises(InputError, match="does not build it"):
        hindcast.build(one.folder, tmp_path / "again")
    assert not (tmp_path / "s").exists()
