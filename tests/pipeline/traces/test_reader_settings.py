"""Tests of settings of readers: in recipes, on the command line, in the cache, in verify."""

import json

import polars as pl
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.traces import cache
from hindcast.pipeline.traces.slurm import SlurmSettings
from tests.pipeline.traces import test_slurm

RECIPE = """
id = "own-log"
description = "a made log"
scenario = "binpack"
objective = "makespan"
level = "mixed"
seed = 1
[config]
cluster = "trace"
machines = 1
jobs_per_window = 2
[trace]
{trace}
[split]
train = "0..0"
validation = "1..1"
test = "2..2"
[[behaviours]]
policy = "random"
episodes = 1
"""


@pytest.fixture
def log(tmp_path):
    """Return a log of six jobs of eight cores, of which two run at a time."""
    first = test_slurm.FIRST
    times = [{"Submit": first + 300 * n, "Start": first + 300 * n} for n in range(6)]
    return test_slurm.log(tmp_path, *(test_slurm.row(str(n), **t) for n, t in enumerate(times)))


def recipe(tmp_path, trace: str):
    """Write a recipe with this section [trace]; return its path."""
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(trace=trace))
    return path


@pytest.mark.slow
def test_the_command_line_sets_what_the_log_does_not_say(log, tmp_path, capsys):
    out = tmp_path / "workload"
    words = ["ingest", "slurm", str(log), "--out", str(out), "--direct"]
    assert main([*words, "--set", "processors=64", "--set", "time_zone=Europe/Berlin"]) == 0
    assert pl.read_parquet(out / "machines.parquet")["cores"].to_list() == [64]
    assert "how many processors" not in capsys.readouterr().err
    assert main(words) == 0
    assert pl.read_parquet(out / "machines.parquet")["cores"].to_list() == [16]
    assert "how many processors" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("form", "setting", "message"),
    [
        ("slurm", "processor=4", "unknown key 'processor'; did you mean 'processors'?"),
        ("slurm", "processors=0", "processors is 0, expected from 1"),
        ("slurm", "processors=many", "processors is 'many'"),
        ("slurm", "time_zone=Mars", "there is no time zone 'Mars'"),
        ("azure2020", "processors=4", "the format azure2020 has no settings"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(
    form, setting, message, log, tmp_path, capsys
):
    out = tmp_path / "workload"
    words = ["ingest", form, str(log), "--out", str(out), "--set", setting, "--direct"]
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_recipe_sets_them_too(log, tmp_path):
    trace = f'format = "slurm"\npath = "{log.name}"\nsettings = '
    found = load_source(load_recipe(recipe(tmp_path, trace + "{processors = 99}")))
    assert found.machines["cores"].to_list() == [99]
    with pytest.raises(RecipeError, match=r"trace\.settings: unknown key 'cores'"):
        load_source(load_recipe(recipe(tmp_path, trace + "{cores = 99}")))
    other = trace.replace("slurm", "azure2020") + "{processors = 99}"
    with pytest.raises(RecipeError, match="the format azure2020 has no settings"):
        load_source(load_recipe(recipe(tmp_path, other)))


@pytest.mark.slow
def test_other_settings_are_another_entry_of_the_cache(log, tmp_path, monkeypatch):
    monkeypatch.setenv("HINDCAST_CACHE", str(tmp_path / "cache"))
    settings = (None, SlurmSettings(processors=99), None, SlurmSettings(processors=99))
    found = [cache.read_trace("slurm", log, each).machines["cores"][0] for each in settings]
    assert found == [16, 99, 16, 99]
    assert cache.clear()[0] == 2


@pytest.mark.slow
def test_verify_finds_the_table_beside_its_mapping(log, tmp_path, capsys):
    """The dataset of a mapping has two raw files; a change of either is found."""
    (tmp_path / "jobs.toml").write_text(
        f'file = "{log.name}"\nseparator = "|"\n[columns]\nsubmit = "Submit"\nstart = "Start"\n'
        'duration = "ElapsedRaw"\ncores = "AllocCPUS"\n'
    )
    path = recipe(tmp_path, 'format = "table"\npath = "jobs.toml"')
    out = str(tmp_path / "dataset")
    assert main(["build", str(path), "--out", out, "--direct"]) == 0
    words = ["verify", out, "--trace", str(tmp_path / "jobs.toml")]
    assert main(words) == 0
    assert "read again from" in capsys.readouterr().out
    manifest = json.loads((tmp_path / "dataset" / "manifest.json").read_text())
    assert [f["name"] for f in manifest["provenance"]["files"]] == ["jobs.toml", log.name]
    log.write_text(log.read_text().replace("|600|", "|601|"))
    assert main(words) == 2
    assert "this is not the trace" in capsys.readouterr().err
