"""Tests that every result says where it was computed, and that threads do not change it."""

import csv
import json
import subprocess
from pathlib import Path

import polars as pl
import pytest
import torch

from docs.generate.results import FOLDER
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.evaluation.studies.study import COLUMNS, read_study
from hindcast.pipeline.evaluation.summary.evaluations import read_evaluation
from hindcast.pipeline.evaluation.summary.results import read_results
from hindcast.pipeline.evaluation.summary.summarise import summarise
from hindcast.pipeline.evaluation.summary.writing import write_summary
from hindcast.pipeline.storage import provenance as pv
from hindcast.pipeline.storage import versions
from hindcast.policies.entrants import entrants
from tests.policies.trainings import train

ROOT = Path(__file__).resolve().parents[1]
FACTS = {
    "hindcast", "commit", "python", "system", "processor", "instructions", "architecture",
    "libraries", "threads", "settings",
}  # fmt: skip


@pytest.fixture
def checkout(monkeypatch, tmp_path):
    """Return a folder that the code takes for its checkout."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "hindcast-x"\nversion = "9.9.9"\n')
    monkeypatch.setattr(versions, "_CHECKOUT", tmp_path / "pyproject.toml")
    versions.version.cache_clear()
    pv.commit.cache_clear()
    yield tmp_path
    versions.version.cache_clear()
    pv.commit.cache_clear()


@pytest.fixture(scope="module")
def agent(tiny_dataset, tmp_path_factory) -> Path:
    return train(
        tiny_dataset, "behaviour_cloning", steps=3, seed=0, out=tmp_path_factory.mktemp("a") / "a"
    )


def git(folder: Path, *arguments: str) -> str:
    name = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(folder), *name, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_record_names_code_processor_libraries_and_threads(monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    record = pv.provenance(torch={"threads": 1})
    assert set(record) == FACTS | {"torch"}
    assert record["hindcast"] == versions.version()
    assert {"numpy", "numba", "llvmlite", "polars", "torch"} <= set(record["libraries"])
    assert min(record["threads"].values()) >= 1
    assert record["settings"]["MKL_CBWR"] == "COMPATIBLE"
    assert pv.key_of(record) != pv.key_of(record | {"commit": "another"})


def test_the_commit_is_that_of_the_checkout_and_of_no_other_repository(checkout, monkeypatch):
    git(checkout, "init", "-q")
    git(checkout, "add", "pyproject.toml")
    git(checkout, "commit", "-qm", "one")
    commit = git(checkout, "rev-parse", "--short=12", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(ROOT / ".git"))
    assert pv.commit() == commit
    (checkout / "pyproject.toml").write_text('[project]\nname = "hindcast-x"\nversion = "9.9.8"\n')
    pv.commit.cache_clear()
    assert pv.commit() == f"{commit}-dirty"


def test_code_without_its_repository_is_a_release_even_inside_another_one(checkout, monkeypatch):
    git(checkout, "init", "-q")
    inside = checkout / "site-packages"
    inside.mkdir()
    (checkout / "pyproject.toml").rename(inside / "pyproject.toml")
    monkeypatch.setattr(versions, "_CHECKOUT", inside / "pyproject.toml")
    assert pv.commit() == "release"


def test_sessions_are_listed_once_each():
    one, two = {"commit": "a"}, {"commit": "b"}
    assert pv.joined([one], one) == [one]
    assert pv.joined([one], two) == [one, two]
    assert pv.joined([one, two], one) == [one, two, one]


@pytest.mark.slow
def test_a_training_says_where_it_ran_and_any_number_of_threads_gives_its_weights(
    agent, tiny_dataset, tmp_path, monkeypatch
):
    [record] = json.loads((agent / "provenance.json").read_text())
    assert record == pv.provenance(torch=record["torch"])
    assert record["torch"]["threads"] == 1
    assert pv.sessions_of_training(agent / "best") == (record,)
    before = torch.get_num_threads()
    for threads in (1, 2):
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        torch.set_num_threads(threads)
        other = train(
            tiny_dataset, "behaviour_cloning", steps=3, seed=0, out=tmp_path / str(threads)
        )
        for name in ("weights.safetensors", "checkpoint.json"):
            assert (other / name).read_bytes() == (agent / name).read_bytes()
        [told] = pv.sessions_of_training(other)
        assert told["settings"]["OMP_NUM_THREADS"] == str(threads)
    torch.set_num_threads(before)


@pytest.mark.slow
def test_an_evaluation_and_its_rows_say_where_policies_were_scored_and_trained(
    agent, tiny_recipe, tmp_path
):
    policies = entrants(tiny_recipe, ["tetris", "first_fit", str(agent), str(agent / "best")])
    for workers in (1, 2):
        evaluate(tiny_recipe, policies, split="test", out=tmp_path / str(workers), workers=workers)
    one, two = (read_evaluation(tmp_path / name) for name in ("1", "2"))
    assert (one.sessions, one.records) == (two.sessions, two.records)
    assert (tmp_path / "1/scores.parquet").read_bytes() == (
        tmp_path / "2/scores.parquet"
    ).read_bytes()
    [scored], [training] = one.sessions, pv.sessions_of_training(agent)
    assert one.records == {
        scored: pv.provenance(),
        pv.key_of(training): training,
    }
    out = write_summary(summarise([tmp_path / "1"]), tmp_path / "out")
    table = read_results((out / "results.csv").read_bytes(), "results.csv")
    rows = dict(table.select("policy", "provenance").unique().iter_rows())
    assert rows["tetris"] == scored
    assert rows["behaviour_cloning"] == f"{scored} {pv.key_of(training)}"
    assert json.loads((out / "provenance.json").read_text()) == one.records


def test_a_training_without_records_is_said_to_have_none(agent, tiny_recipe, tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("checkpoint.json", "weights.safetensors"):
        (tmp_path / "a" / name).write_bytes((agent / name).read_bytes())
    policies = entrants(tiny_recipe, ["first_fit", str(tmp_path / "a")])
    evaluate(tiny_recipe, policies, split="test", out=tmp_path / "e")
    out = write_summary(summarise([tmp_path / "e"]), tmp_path / "out")
    table = read_results((out / "results.csv").read_bytes(), "results.csv")
    assert table.filter(policy="behaviour_cloning")["provenance"][0].endswith(" not-recorded")


@pytest.mark.parametrize("text", ["{}", "[1]", "no JSON", "[" + "{}," * 2000 + "{}]"])
def test_records_that_are_none_are_refused(text, agent, tmp_path):
    (tmp_path / "provenance.json").write_text(text)
    with pytest.raises(DatasetError, match=r"provenance\.json"):
        pv.sessions_of_training(tmp_path)


def test_a_dataset_holds_nothing_of_the_machine_that_built_it(tiny_dataset):
    record = pv.provenance()
    for name in ("manifest.json", "README.md", "croissant.json"):
        text = (tiny_dataset / name).read_text()
        assert record["commit"] not in text
        assert record["processor"] not in text


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.csv")), ids=lambda path: path.stem)
def test_every_row_of_a_committed_table_has_a_record(path):
    known = json.loads((FOLDER / "provenance.json").read_text())
    with path.open(newline="") as file:
        cells = [row["provenance"] for row in csv.DictReader(file)]
    assert cells
    assert {key for cell in cells for key in cell.split()} <= set(known)
    assert all(cells)


def test_a_table_of_0_1_0_says_that_nothing_was_recorded():
    old = pl.read_csv(FOLDER / "online.csv", n_rows=3).drop("provenance").write_csv().encode()
    assert read_results(old, "old.csv")["provenance"].to_list() == ["not-recorded"] * 3


def test_a_study_of_0_1_0_is_read_as_before(tmp_path):
    row = pl.DataFrame([dict.fromkeys(COLUMNS)], schema=dict(COLUMNS)).drop("provenance")
    row.write_parquet(tmp_path / "study.parquet")
    table = read_study(tmp_path)
    assert table.columns == list(COLUMNS)
    assert table["provenance"].to_list() == ["not-recorded"]
