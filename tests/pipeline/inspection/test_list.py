"""Tests of listing and showing: what a folder contains, and what is wrong with damaged files."""

import json
import shutil
import subprocess
import sys

import polars as pl
import pytest

from hindcast.flows.commands.run import Request
from hindcast.flows.runs.stages import run_stages
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.inspection.columns import aligned, size
from hindcast.pipeline.inspection.list import entry_of, find, listing, recipes
from hindcast.pipeline.inspection.show import details
from hindcast.pipeline.recipes.loading import known_recipes, load_recipe
from hindcast.pipeline.workloads.folder import load_workload
from tests.conftest import TINY


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a whole run: a dataset, a checkpoint and an evaluation."""
    folder = tmp_path_factory.mktemp("listed") / "run"
    run_stages(Request("binpack-synthetic-v1", str(folder), TINY))
    return folder


@pytest.fixture
def copy(tiny_dataset, tmp_path):
    shutil.copytree(tiny_dataset, tmp_path / "data" / "tiny")
    return tmp_path / "data" / "tiny"


@pytest.mark.slow
def test_a_run_lists_all_that_it_made_and_nothing_twice(run):
    found = {str(e.folder.relative_to(run)): e for e in find([run])}
    kinds = [e.kind for e in found.values()]
    assert sorted(kinds) == ["checkpoint", "dataset", "evaluation", "run"]
    assert not any(e.damage for e in found.values())
    assert found["dataset"].name.startswith("binpack-synthetic-v1+")
    assert found["evaluation"].digest == found["dataset"].digest == found["."].digest


def test_an_entry_says_what_the_manifest_says(tiny_dataset):
    entry = entry_of(tiny_dataset)
    manifest = ds.open(tiny_dataset).manifest
    assert entry.digest == manifest.digest
    assert entry.bytes == sum(f.bytes for f in (*manifest.parts, manifest.episodes))
    assert entry.facts["decisions"] == manifest.counts["decisions"]
    assert entry.facts["level"] == "mixed"
    assert json.loads(json.dumps(entry.to_json()))["episodes"] == 96


def test_a_workload_of_its_own_is_listed_and_shown(tiny_dataset, tmp_path):
    shutil.copytree(tiny_dataset / "workload", tmp_path / "w")
    [entry] = find([tmp_path])
    assert (entry.kind, entry.name, entry.damage) == ("workload", "synthetic", "")
    facts = details(tmp_path / "w").facts
    assert facts["tasks"] == load_workload(tmp_path / "w").tasks.height
    assert facts["provenance"]["counts"]["jobs"] == 60


def break_json(folder):
    (folder / "manifest.json").write_text("{")


def forget_a_part(folder):
    (folder / "data" / "part-00001.parquet").unlink()


def cut_a_part(folder):
    path = folder / "data" / "part-00000.parquet"
    path.write_bytes(path.read_bytes()[:-1])


def forget_the_episodes(folder):
    (folder / "episodes.parquet").unlink()


def lie_about_the_version(folder):
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 99', 1))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (break_json, "not valid JSON"),
        (forget_a_part, "data/part-00001.parquet: is missing"),
        (cut_a_part, "data/part-00000.parquet: has"),
        (forget_the_episodes, "episodes.parquet: is missing"),
        (lie_about_the_version, "version is 99"),
    ],
)
def test_what_is_damaged_is_listed_with_the_reason(damage, said, copy):
    damage(copy)
    [entry] = find([copy.parent])
    assert said in entry.damage
    assert "dataset" in entry.kind
    assert said in listing([entry])[-1]
    with pytest.raises(DatasetError, match="tiny"):
        details(copy)


@pytest.mark.parametrize("name", ["evaluation.json", "checkpoint.json", "run.json"])
@pytest.mark.parametrize("content", ["[]", "{}", "\xff", '{"weights": {}, "stages": 3}'])
def test_any_other_damaged_description_is_listed_too(name, content, tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / name).write_text(content, encoding="latin-1")
    [entry] = find([tmp_path])
    assert entry.kind == name.removesuffix(".json")
    assert entry.damage


def test_an_unfinished_build_is_listed_as_such(copy):
    (copy / "manifest.json").unlink()
    (copy / ".building").mkdir()
    assert [e.kind for e in find([copy.parent])] == ["unfinished dataset"]


def test_nothing_is_found_where_nothing_is(tmp_path):
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path)
    assert list(find([tmp_path])) == []


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DatasetError, match="no such folder"):
        list(find([tmp_path / "no"]))
    with pytest.raises(DatasetError, match="no such folder"):
        details(tmp_path / "no")
    with pytest.raises(DatasetError, match="`hindcast list"):
        details(tmp_path)


def test_a_dataset_in_detail(tiny_dataset):
    shown = details(tiny_dataset)
    facts, episodes = shown.facts, ds.open(tiny_dataset).episodes()
    assert [s["split"] for s in facts["splits"]] == ["train", "validation"]
    assert sum(s["decisions"] for s in facts["splits"]) == facts["decisions"]
    for behaviour in facts["behaviours"]:
        own = episodes.filter(behaviour=behaviour["behaviour"])
        assert behaviour["return"]["mean"] == pytest.approx(own["return"].mean())
        assert behaviour["return"]["low"] <= behaviour["return"]["mean"]
    assert 0 < facts["coverage"]["smallest_propensity"] < 1
    assert facts["coverage"]["mean_support"] == 1
    assert facts["warnings"] == []
    text = "\n".join(shown.lines)
    assert facts["digest"] in text
    assert "random_linear+eps0.1" in text
    json.dumps(facts, allow_nan=False)


@pytest.mark.slow
def test_a_run_an_evaluation_and_a_checkpoint_in_detail(run):
    told = details(run).facts
    assert {e["kind"] for e in told["holds"]} == {"dataset", "checkpoint", "evaluation"}
    evaluation = details(run / "evaluation").facts
    scores = pl.read_parquet(run / "evaluation" / "scores.parquet")
    means = {p["policy"]: p["mean"] for p in evaluation["policies"]}
    assert set(means) == set(scores["policy"])
    expected = scores.filter(policy="tetris", metric="makespan_s")["value"].mean()
    assert means["tetris"] == pytest.approx(expected)
    [checkpoint] = [e.folder for e in find([run / "agents"])]
    facts = details(checkpoint).facts
    assert facts["training"]["steps"] == 20
    assert facts["name"] == "trajectory_preference"


@pytest.mark.slow
def test_recipes_are_listed_with_their_levels():
    found = {r["name"]: r for r in recipes()}
    assert list(found) == known_recipes()
    main = load_recipe("slots-deeprm-v1")
    assert found["slots-deeprm-v1"]["episodes"] == 250 * sum(b.episodes for b in main.behaviours)
    assert found["slots-deeprm-random-v1"]["level"] == "random"
    assert found["slots-deeprm-v1"]["digest"] == main.digest


@pytest.mark.parametrize(
    ("count", "said"),
    [(None, "-"), (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_500_000, "2.5 MB"),
     (3e9, "3.0 GB")],
)  # fmt: skip
def test_sizes_for_people(count, said):
    assert size(count) == said


def test_columns_are_aligned():
    assert aligned([("a", "1"), ("bbb", "22")], right=(1,)) == ["a     1", "bbb  22"]


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--agents", "--estimators"])
def test_names_are_listed_without_a_simulator(option):
    code = (
        f"import sys; from hindcast.flows.cli import main; main(['list', {option!r}]);"
        "print([m for m in ('numba', 'polars', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_a_dataset_is_shown_without_pandas(tiny_dataset):
    """Arrow imports it for every conversion to numpy."""
    code = (
        "import sys; from hindcast.flows.cli import main;"
        f"main(['show', {str(tiny_dataset)!r}]); print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
