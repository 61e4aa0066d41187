"""Tests of sweeps: the runs of a sweep.toml, errors that name the fault, work done only once."""

import dataclasses
import tomllib

import polars as pl
import pytest

from hindcast.flows.commands import directly
from hindcast.flows.runs.sweep import Request, run
from hindcast.pipeline.errors import DatasetError, InputError, RecipeError
from hindcast.policies.offline import read_config
from hindcast.policies.offline.sweep import load_sweep, plan


def _plan(text):
    return plan(tomllib.loads(text), "sweep.toml")


def test_a_grid_is_every_combination_with_every_seed():
    runs = _plan(
        """
        agents = ["cql", "behaviour_cloning"]
        seeds = [0, 5]
        steps = 7
        [settings]
        learning_rate = [0.1, 0.2]
        network.hidden = [[8], [8, 8]]
        [settings.cql]
        alpha = [1.0, 2.0, 3.0]
        """
    )
    of = {name: [r for r in runs if r.agent == name] for name in ("cql", "behaviour_cloning")}
    assert len(of["cql"]) == 2 * 2 * 2 * 3
    assert len(of["behaviour_cloning"]) == 2 * 2 * 2
    assert {r.seed for r in runs} == {0, 5}
    assert {r.steps for r in runs} == {7}
    assert len({r.name for r in runs}) == len(runs)
    first = of["cql"][0]
    assert first.settings == {"learning_rate": 0.1, "network.hidden": [8], "alpha": 1.0}
    assert first.name.startswith("cql-")
    assert first.name.endswith("-seed0")


def test_a_single_value_is_a_list_of_one_and_nothing_is_run_twice():
    runs = _plan('agents = ["cql", "cql"]\nsettings.cql.alpha = [0.5, 0.5]\nsettings.minibatch = 9')
    assert [r.settings for r in runs] == [{"minibatch": 9, "alpha": 0.5}]
    assert _plan('agents = ["cql"]')[0].name == "cql-default-seed0"


def test_random_search_draws_from_lists_and_ranges_by_its_seed():
    text = """
        agents = ["cql"]
        search = "random"
        draws = 200
        [settings]
        minibatch = {low = 32, high = 34}
        learning_rate = {low = 1e-4, high = 1e-1, scale = "log"}
        discount = {low = 0.5, high = 1.0}
        network.activation = ["relu", "tanh"]
        """
    runs = _plan(text)
    assert {r.settings["minibatch"] for r in runs} == {32, 33, 34}
    rates = [r.settings["learning_rate"] for r in runs]
    assert 1e-4 <= min(rates) < 3e-4
    assert 3e-2 < max(rates) <= 1e-1
    assert 0.4 < sum(rate < 10**-2.5 for rate in rates) / len(rates) < 0.6
    assert {r.settings["network.activation"] for r in runs} == {"relu", "tanh"}
    assert runs == _plan(text)
    assert runs != _plan(f"seed = 1\n{text}")


def test_dotted_settings_keep_the_agents_other_defaults():
    """`network.hidden` replaces the widths, not the whole network."""
    usual = read_config("cql").network
    narrow = read_config("cql", {"network.hidden": [4], "network.activation": "tanh"}).network
    assert narrow == dataclasses.replace(usual, hidden=(4,), activation="tanh")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('agent = ["cql"]', r"sweep.toml: unknown key 'agent'; did you mean 'agents'"),
        ('agents = ["cqll"]', "did you mean 'cql'"),
        ("agents = []", "at least one agent and one seed"),
        ('agents = ["cql"]\nseeds = [-1]', "seeds\\[0\\] is -1, expected from 0"),
        ('agents = ["cql"]\nsteps = 0', "steps is 0"),
        ('agents = ["cql"]\nsearch = "gird"', "did you mean 'grid'"),
        ('agents = ["cql"]\nsettings.alhpa = [1.0]', "settings.alhpa.*did you mean 'alpha'"),
        ('agents = ["cql"]\nsettings.cql.alhpa = 1.0', "settings.cql.alhpa; did you mean 'alpha'"),
        ('agents = ["cql"]\nsettings.network.hiden = [[1]]', "did you mean 'network.hidden'"),
        (
            'agents = ["cql"]\nsettings.double_dqn.discount = 1.0',
            "'double_dqn' is not among the agents",
        ),
        ('agents = ["cql"]\nsettings.alpha = []', "at least one value"),
        ('agents = ["cql"]\nsettings.alpha = ["x"]', "alpha is 'x', expected a number"),
        ('agents = ["cql"]\nsettings.alpha = {low = 1, high = 2}', 'needs search = "random"'),
        (
            'agents = ["cql"]\nsearch = "random"\nsettings.alpha = {low = 2, high = 1}',
            "expected low < high",
        ),
        (
            'agents = ["cql"]\nsearch = "random"\nsettings.alpha = {low=1, high=2, scale="lgo"}',
            "did you mean 'log'",
        ),
    ],
)
def test_errors_name_the_key_and_the_nearest(text, said):
    with pytest.raises(InputError, match=said):
        _plan(text)


def test_a_file_that_is_no_toml_is_named(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text("agents = [")
    with pytest.raises(RecipeError, match=r"sweep\.toml: this file is not valid TOML"):
        load_sweep(path)
    with pytest.raises(RecipeError, match=r"cannot be read"):
        load_sweep(tmp_path / "none.toml")


@pytest.mark.slow
def test_a_sweep_is_tabulated_and_goes_on_where_it_was_interrupted(tiny_dataset, tmp_path):
    """Each run has one step. The second call trains nothing and writes the same table."""
    table = {
        "agents": ["behaviour_cloning", "trajectory_preference"], "seeds": [0, 1], "steps": 4,
        "settings": {"behaviour_cloning": {"learning_rate": [0.01, 0.001]}},
    }  # fmt: skip
    calls = []

    def call(step):
        calls.append(step.out)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return directly(step)

    request = Request(str(tiny_dataset), table, str(tmp_path / "s"))
    with pytest.raises(KeyboardInterrupt):
        run(request, call)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("weights.safetensors")}
    result = run(request)
    assert result["runs"] == 6
    assert not result["failed"]
    assert {p: p.stat().st_mtime_ns for p in before} == before
    rows = pl.read_parquet(tmp_path / "s" / "sweep.parquet")
    assert len(rows) == 6
    assert set(rows["agent"]) == {"behaviour_cloning", "trajectory_preference"}
    assert rows["best_step"].drop_nulls().is_between(1, 4).all()
    assert "validation_loss" in rows.columns
    assert len(result["lines"]) == 1 + 3
    means = rows["mean_preference"].drop_nulls().to_list()
    assert means == sorted(means, reverse=True)


@pytest.mark.slow
def test_a_run_that_fails_has_its_reason_in_the_table(tiny_dataset, tmp_path):
    """Other runs continue. If all runs fail, the sweep fails."""

    def call(step):
        if step.seed == 0:
            raise DatasetError("diverged")
        return directly(step)

    table = {"agents": ["behaviour_cloning"], "seeds": [0, 1], "steps": 2}
    request = Request(str(tiny_dataset), table, str(tmp_path / "s"))
    result = run(request, call)
    assert result["failed"] == {"behaviour_cloning-default-seed0": "diverged"}
    rows = pl.read_parquet(tmp_path / "s" / "sweep.parquet")
    assert rows.sort("seed")["error"].to_list() == ["diverged", None]
    with pytest.raises(DatasetError, match="diverged"):
        run(dataclasses.replace(request, sweep={**table, "seeds": [0]}, out=str(tmp_path)), call)
