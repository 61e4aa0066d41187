"""Tests of all export formats: complete or absent, the same bytes each time, clear refusals."""

import hashlib
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.flows import cli
from hindcast.pipeline import dataset as ds
from hindcast.pipeline import exports
from hindcast.pipeline.decisions.conversion import convert
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.errors import InputError, StorageError, UnknownName
from hindcast.pipeline.exports import EXPORTS, export
from hindcast.pipeline.exports._labels import labels_of
from hindcast.pipeline.exports._target import new_folder
from hindcast.pipeline.testing import check_export
from tests.pipeline.decisions.decision_cases import ROWS, long_table

# `history` and `obp` hold datasets of one kind alone.
GENERAL = [name for name in EXPORTS if not name.startswith(("history", "obp"))]
SPLITTING = [name for name in GENERAL if EXPORTS[name].split]
PADDING = [name for name in EXPORTS if EXPORTS[name].pads]


def digests(path: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below the folder."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return {
        str(p.relative_to(path.parent)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files
    }


def listed(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize("name", EXPORTS)
def test_the_module_says_what_is_lost(name):
    __import__(EXPORTS[name].module)
    said = sys.modules[EXPORTS[name].module].__doc__
    assert "What is lost:" in said
    words = set(re.findall(r"[a-z]+", EXPORTS[name].lost)) - {"the", "of", "in", "and", "by"}
    assert len(words & set(re.findall(r"[a-z]+", said))) > len(words) / 2
    assert EXPORTS[name].name == name


@pytest.mark.slow
@pytest.mark.parametrize("name", GENERAL)
def test_it_is_whole_or_not_there_and_the_same_twice(name, thermal):
    check_export(name, thermal.folder)


def test_the_messages_of_a_place_that_is_taken(thermal, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(StorageError, match="choose another --out"):
        export(thermal.folder, "csv", tmp_path)
    with pytest.raises(StorageError, match=r"is a file, expected a new folder"):
        export(thermal.folder, "csv", tmp_path / "mine.txt")
    with pytest.raises(StorageError, match=r"exists already"):
        export(thermal.folder, "d4rl", tmp_path / "mine.txt")


def test_an_empty_folder_is_filled(thermal, tmp_path):
    export(thermal.folder, "csv", tmp_path)
    assert (tmp_path / "episodes.csv").is_file()


def test_nothing_is_written_into_the_dataset(thermal):
    before = listed(thermal.folder)
    with pytest.raises(StorageError, match="inside the dataset"):
        export(thermal.folder, "csv", thermal.folder / "data" / "csv")
    assert listed(thermal.folder) == before


def test_unknown_formats_and_candidates(thermal, tmp_path):
    with pytest.raises(UnknownName, match="unknown format 'minary'; did you mean 'minari'"):
        export(thermal.folder, "minary", tmp_path / "x")
    with pytest.raises(
        InputError, match="csv keeps every candidate; the option is for minari, d3rlpy"
    ):
        export(thermal.folder, "csv", tmp_path / "x", candidates=3)
    with pytest.raises(InputError, match="at least 1"):
        export(thermal.folder, "d4rl", tmp_path / "x", candidates=0)
    with pytest.raises(InputError, match="no such folder"):
        export(tmp_path / "none", "csv", tmp_path / "x")
    with pytest.raises(
        InputError, match="croissant holds the whole dataset; the option is for huggingface, minari"
    ):
        export(thermal.folder, "croissant", tmp_path / "x", split="train")
    for name in SPLITTING:
        with pytest.raises(InputError, match="split 'tets' has no episodes; known: train, valid"):
            export(thermal.folder, name, tmp_path / "x", split="tets")
    assert not listed(tmp_path)


def decisions_of(name: str, path: Path) -> set[tuple[int, int]]:
    """Return (episode, step) of the decisions of an export."""
    if name == "huggingface":
        rows = pl.read_parquet(path / "data" / "*.parquet").filter(pl.col("choice").is_not_null())
    elif name == "csv":
        rows = pl.read_csv(path / "decisions.csv").filter(pl.col("choice").is_not_null())
        assert set(rows["episode"]) == set(pl.read_csv(path / "candidates.csv")["episode"])
        assert set(rows["episode"]) == set(pl.read_csv(path / "episodes.csv")["episode"])
    elif name == "dsjson":
        lines = path.read_text().splitlines()
        rows = pl.DataFrame(
            [tuple(map(int, json.loads(line)["EventId"].split("/"))) for line in lines],
            schema=["episode", "step"], orient="row",
        )  # fmt: skip
    elif name == "d3rlpy":
        episode = np.load(path / "episode.npy")
        assert len(np.load(path / "last_observations.npy")) == len(np.unique(episode))
        rows = pl.DataFrame({"episode": episode}).with_columns(
            step=pl.int_range(pl.len()).over("episode")
        )
    else:
        h5py = pytest.importorskip("h5py")
        [file_path] = [path] if path.is_file() else path.rglob("*.hdf5")
        with h5py.File(file_path) as file:
            if name == "d4rl":
                assert set(file["episodes/episode"]) == set(file["infos/episode"])
                return set(zip(file["infos/episode"], file["infos/step"], strict=True))
            assert list(file) == [f"episode_{i}" for i in range(len(file))]
            groups = [(group.attrs["episode"], len(group["actions"])) for group in file.values()]
        return {(episode, step) for episode, steps in groups for step in range(steps)}
    assert rows.select("episode", "step").is_unique().all()
    return set(rows.select("episode", "step").rows())


@pytest.mark.slow
@pytest.mark.parametrize("name", SPLITTING)
def test_a_split_is_written_alone(name, thermal, tmp_path):
    """Formats whose readers take everything hold the train split unless all is asked for."""
    rows = thermal.decisions.join(thermal.episodes.select("episode", "split"), "episode")
    assert set(rows["split"]) == {"train", "validation"}
    found = {}
    for split in ("train", "validation", "all", None):
        result = export(thermal.folder, name, tmp_path / f"{split}", split=split)
        found[split] = decisions_of(name, tmp_path / f"{split}")
        wanted = rows if split == "all" else rows.filter(split=split or EXPORTS[name].split)
        if split is None and EXPORTS[name].split == "all":
            wanted = rows
        assert found[split] == set(wanted.select("episode", "step").rows())
        partial = wanted.height < rows.height
        assert any("--split all writes the others too" in note for note in result.notes) == partial
    assert {n for n in SPLITTING if EXPORTS[n].split == "train"} == {"minari", "d3rlpy", "d4rl"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in SPLITTING if n != "dsjson"])
def test_single_decisions_of_a_log_are_written(name, tmp_path):
    """They have no closing row in the dataset, and one in the formats that need it."""
    folder = convert(read_log(long_table(60), ROWS), tmp_path / "log", "log").folder
    episodes = ds.open(folder).episodes()
    for split in ("train", "test"):
        export(folder, name, tmp_path / split, split=split)
        expected = {(episode, 0) for episode in episodes.filter(split=split)["episode"]}
        assert decisions_of(name, tmp_path / split) == expected


@pytest.mark.parametrize("name", ["minari", "d4rl"])
def test_a_missing_library_is_named_with_its_extra(name, thermal, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match=re.escape("pip install 'hindcast-scheduling[export]'")):
        export(thermal.folder, name, tmp_path / "x")
    assert not listed(tmp_path)


@pytest.mark.parametrize("name", GENERAL)
def test_damage_in_a_part_is_named_and_nothing_is_left(name, images, tmp_path):
    broken = tmp_path / "broken"
    for path in listed(images.folder):
        if path.is_file():
            target = broken / path.relative_to(images.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    part = broken / images.dataset.manifest.parts[0].path
    part.write_bytes(part.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"part-00000.parquet"):
        export(broken, name, tmp_path / "out")
    assert listed(tmp_path)[0] == broken
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["huggingface", "croissant"])
def test_a_card_that_is_no_text_of_the_dataset_is_refused(name, thermal, tmp_path):
    """A card that is a link is not exported, as the link could name any file of this machine."""
    shutil.copytree(thermal.folder, tmp_path / "d")
    card = tmp_path / "d" / "README.md"
    card.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        export(tmp_path / "d", name, tmp_path / "x")
    card.unlink()
    (tmp_path / "secret").write_text("secret")
    card.symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="symbolic link"):
        export(tmp_path / "d", name, tmp_path / "x")
    card.unlink()
    export(tmp_path / "d", name, tmp_path / "x")
    assert "secret" not in (tmp_path / "x" / "README.md").read_text()


def test_a_failure_inside_the_folder_removes_it(tmp_path):
    def fail() -> None:
        with new_folder(tmp_path / "x") as temporary:
            (temporary / "half").write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not listed(tmp_path)


@pytest.mark.parametrize("name", ["csv", "d3rlpy"])
def test_what_killed_exports_left_is_removed(name, thermal, tmp_path):
    folder, file = tmp_path / ".x.123.partial", tmp_path / ".x.124.partial"
    folder.mkdir()
    (folder / "half").touch()
    file.touch()
    other = tmp_path / ".xy.123.partial"
    other.touch()
    export(thermal.folder, name, tmp_path / "x")
    assert list(tmp_path.glob(".*")) == [other]


@pytest.mark.slow
def test_objects_of_a_store_get_the_same_files(thermal, tmp_path):
    """An export from a store (here memory://) has the same files as a local export."""
    from hindcast.pipeline.storage.location import location

    remote = location("memory://exports/csv")
    export(thermal.folder, "csv", remote)
    export(thermal.folder, "csv", tmp_path / "csv")
    for path in listed(tmp_path / "csv"):
        assert (remote / path.name).read_bytes() == path.read_bytes()
    with pytest.raises(StorageError, match="not empty"):
        export(thermal.folder, "csv", remote)
    single = location("memory://exports/x.hdf5")
    export(thermal.folder, "d4rl", single)
    export(thermal.folder, "d4rl", tmp_path / "x.hdf5")
    assert single.read_bytes() == (tmp_path / "x.hdf5").read_bytes()


@pytest.mark.parametrize("name", GENERAL)
def test_a_dataset_in_a_store_is_exported_alike(name, thermal, tmp_path):
    from hindcast.pipeline.storage.location import location

    remote = location(f"memory://exports/dataset-{name}")
    for path in listed(thermal.folder):
        if path.is_file():
            (remote / path.relative_to(thermal.folder).as_posix()).upload(path)
    export(remote, name, tmp_path / "a" / "x")
    export(thermal.folder, name, tmp_path / "b" / "x")
    assert digests(tmp_path / "a" / "x") == digests(tmp_path / "b" / "x")


@pytest.mark.parametrize("name", PADDING)
def test_the_command_says_what_was_cut_and_what_is_lost(name, images, tmp_path, capsys):
    arguments = ["export", str(images.folder), "--to", name, "--out", str(tmp_path / "x")]
    assert cli.main([*arguments, "--candidates", "4", "--split", "train"]) == 0
    said = capsys.readouterr().out
    total = images.episodes.filter(split="train")["steps"].sum()
    assert f"{total:,} of {total:,} decisions" in said
    assert f"{total:,} of {total:,} decisions (100.00%) had more than K candidates" in said
    assert EXPORTS[name].lost in said


def test_the_command_prints_json(thermal, tmp_path, capsys):
    out = tmp_path / "x.hdf5"
    assert cli.main(
        ["export", str(thermal.folder), "--to", "d4rl", "--out", str(out), "--json"]
    ) == 0  # fmt: skip
    said = json.loads(capsys.readouterr().out)
    assert said["export"] == str(out)
    assert said["bytes"] == out.stat().st_size
    assert said["format"] == "d4rl"
    assert said["files"] == 1


def test_the_command_refuses_in_one_line(thermal, tmp_path, capsys):
    for wrong, said in (
        (["--to", "hugingface"], "did you mean 'huggingface'?"),
        (["--to", "csv", "--candidates", "0"], "at least 1"),
        (["--to", "csv", "--candidate", "3"], "did you mean '--candidates'?"),
    ):
        code = cli.main(["export", str(thermal.folder), *wrong, "--out", str(tmp_path / "x")])
        captured = capsys.readouterr()
        assert code == 2
        assert said in captured.err
        assert captured.err.count("\n") == 1
    assert not listed(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", PADDING)
def test_the_size_of_the_pieces_changes_nothing(name, long, tmp_path, monkeypatch):
    """Rows are padded a bounded number at a time; the number changes neither draws nor files."""
    from hindcast.pipeline.exports import _padding as padding

    export(long.folder, name, tmp_path / "a" / "x", candidates=2)
    monkeypatch.setattr(padding, "_BYTES", 1 << 16)
    export(long.folder, name, tmp_path / "b" / "x", candidates=2)
    if name == "d3rlpy":  # chunks of an HDF5 file depend on the first piece
        assert digests(tmp_path / "a" / "x") == digests(tmp_path / "b" / "x")
        return
    h5py = pytest.importorskip("h5py")

    def content(folder: Path) -> dict:
        [path] = [p for p in [folder, *listed(folder)] if p.is_file() and p.suffix != ".json"]
        items: dict = {}
        with h5py.File(path) as file:
            file.visititems(items.__setitem__)
            return {n: i[()] for n, i in items.items() if isinstance(i, h5py.Dataset)}

    one, other = content(tmp_path / "a" / "x"), content(tmp_path / "b" / "x")
    assert one.keys() == other.keys()
    for key, values in one.items():
        np.testing.assert_array_equal(values, other[key], err_msg=key)


@pytest.mark.slow
def test_draws_follow_from_the_recipe_s_seed(long):
    from hindcast.pipeline.exports import _padding as padding

    manifest = long.dataset.manifest
    seeds = (manifest.recipe.seed, manifest.recipe.seed, 77)
    drawn = []
    for seed in seeds:
        recipe = replace(manifest.recipe, seed=seed)
        dataset = replace(long.dataset, manifest=replace(manifest, recipe=recipe))
        labels = labels_of(dataset, "all")
        drawn.append([r.candidates for r in padding.padded(dataset, 2, labels, exports._silent)])
    assert all((a == b).all() for a, b in zip(drawn[0], drawn[1], strict=True))
    assert any((a != b).any() for a, b in zip(drawn[0], drawn[2], strict=True))
