"""Tests of trainings as one program: folders as from single trainings, failures, interruptions."""

import json

import numpy as np
import polars as pl
import pytest

from hindcast.flows import cli
from hindcast.flows.runs.sweep import Request, check
from hindcast.pipeline.errors import InputError
from hindcast.policies.networks.checkpoint import load_policy, read_description
from hindcast.policies.offline import stacked_training
from hindcast.policies.offline.q_learning.agents import QLearning
from hindcast.policies.offline.stacked_training import Member, can_stack, train_stacked
from hindcast.policies.training.job import Options
from tests.folders import content
from tests.policies.trainings import train

NETWORK = {"network.hidden": [4], "minibatch": 8}
RATES = (1e-3, 1e-2)


def _members(folder):
    return [
        Member({**NETWORK, "learning_rate": rate}, seed, folder / f"{rate}-{seed}")
        for rate in RATES
        for seed in (0, 1)
    ]


def _train(dataset, members, **more):
    return train_stacked(dataset, "double_dqn", members, Options(4, device="cpu"), **more)


def _weights(folder):
    return load_policy(folder).weights


@pytest.mark.slow
def test_folders_are_those_of_single_trainings(tiny_dataset, tmp_path):
    members, told = _members(tmp_path / "stack"), []
    assert not _train(tiny_dataset, members, progress=lambda *now: told.append(now))
    assert told == [(4, 16), (8, 16), (12, 16), (16, 16)]
    for member in members[1:3]:
        single = train(
            tiny_dataset, "double_dqn", steps=4, seed=member.seed, out=tmp_path / "single",
            settings=member.settings, device="cpu",
        )  # fmt: skip
        assert content(single).keys() == content(member.out).keys()
        for name, value in _weights(single).items():
            np.testing.assert_allclose(value, _weights(member.out)[name], atol=1e-5)
        one, other = (read_description(folder)["training"] for folder in (single, member.out))
        assert one.pop("key") != other.pop("key")
        assert {k: one[k] for k in ("config", "dataset", "seed", "steps")} == {
            k: other[k] for k in ("config", "dataset", "seed", "steps")
        }
        curves = [pl.read_parquet(folder / "metrics.parquet") for folder in (single, member.out)]
        assert curves[0].schema == curves[1].schema
        assert curves[0].drop("value").equals(curves[1].drop("value"))
        np.testing.assert_allclose(*(curve["value"] for curve in curves), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["WIDTH", "memory"])
def test_what_does_not_fit_is_trained_in_several_stacks(limit, tiny_dataset, tmp_path, monkeypatch):
    """Weights do not depend on the stacks, and finished trainings are left alone."""
    members = _members(tmp_path / "whole")
    _train(tiny_dataset, members)
    widths, usual = [], stacked_training._train

    def counted(opened, agent, stack, *more):
        widths.append([one.identity.seed for one in stack])
        return usual(opened, agent, stack, *more)

    monkeypatch.setattr(stacked_training, "_train", counted)
    monkeypatch.setattr(stacked_training, "padded_bytes", lambda _decisions, _network: 10)
    value = {"WIDTH": 3, "memory": lambda _device: 19}[limit]
    monkeypatch.setattr(stacked_training, limit, value)
    parts = _members(tmp_path / "parts")
    _train(tiny_dataset, parts)
    assert widths == ([[0, 0, 1], [1]] if limit == "WIDTH" else [[0, 0], [1, 1]])
    for one, other in zip(members, parts, strict=True):
        weights = _weights(one.out)
        assert all(np.array_equal(v, weights[k]) for k, v in _weights(other.out).items())
    written = {one.out: (one.out / "checkpoint.json").stat().st_mtime_ns for one in parts}
    (parts[2].out / "checkpoint.json").unlink()
    _train(tiny_dataset, parts)
    assert widths[2:] == [[parts[2].seed]]
    for one in parts:
        now = (one.out / "checkpoint.json").stat().st_mtime_ns
        assert (now == written[one.out]) == (one is not parts[2])


@pytest.mark.slow
def test_a_training_that_does_not_fit_is_a_single_one(tiny_dataset, tmp_path, monkeypatch):
    """Its decisions are not padded, so its weights are those of a single training, bit for bit."""
    (member,) = _members(tmp_path / "stack")[:1]
    monkeypatch.setattr(stacked_training, "memory", lambda _device: 1)
    monkeypatch.setattr(QLearning, "stack", None)
    _train(tiny_dataset, [member])
    single = train(
        tiny_dataset, "double_dqn", steps=4, seed=0, out=tmp_path / "single",
        settings=member.settings, device="cpu",
    )  # fmt: skip
    weights = _weights(single)
    assert all(np.array_equal(v, weights[k]) for k, v in _weights(member.out).items())


@pytest.mark.slow
def test_a_training_that_diverges_leaves_the_others_alone(tiny_dataset, tmp_path):
    members = _members(tmp_path / "stack")
    broken = Member({**NETWORK, "learning_rate": 1e38}, 0, tmp_path / "broken")
    failed = _train(tiny_dataset, [members[0], broken, members[1]])
    assert list(failed) == [broken.out]
    assert "not finite after 4 steps" in failed[broken.out]
    assert not (broken.out / "checkpoint.json").exists()
    other = _members(tmp_path / "other")[:2]
    _train(tiny_dataset, other)
    for one, two in zip(members, other, strict=False):
        weights = _weights(one.out)
        assert all(np.array_equal(v, weights[k]) for k, v in _weights(two.out).items())


@pytest.mark.slow
def test_a_sweep_has_the_same_files_and_table_with_and_without_stacks(
    tiny_dataset, tmp_path, capsys
):
    """An agent that cannot be stacked is trained after the others, as always."""
    path = tmp_path / "sweep.toml"
    path.write_text(
        """
        agents = ["double_dqn", "behaviour_cloning"]
        steps = 2
        seeds = [0, 1]
        settings.double_dqn.network.hidden = [[4], [4, 4]]
        """
    )
    tables = []
    for stacked in ("yes", "no"):
        out = tmp_path / stacked
        argv = ("train", tiny_dataset, "--sweep", path, "--out", out, "--direct", "--json")
        code = cli.main([*map(str, argv), "--device", "cpu", "--stacked", stacked])
        assert code == 0
        assert json.loads(capsys.readouterr().out)["runs"] == 6
        tables.append(pl.read_parquet(out / "sweep.parquet").drop("checkpoint"))
    kept = [content(tmp_path / stacked).keys() for stacked in ("yes", "no")]
    assert kept[0] == kept[1]
    one, two = (table.sort("agent", "settings", "seed") for table in tables)
    assert one.schema == two.schema
    for name in one.columns:
        if one[name].dtype == pl.Float64:
            assert ((one[name] - two[name]).abs().max() or 0.0) < 1e-5
        else:
            assert one[name].equals(two[name])


def test_which_trainings_can_be_stacked():
    assert can_stack("double_dqn", {"network.hidden": [8], "discount": 0.9})
    assert not can_stack("double_dqn", {"network.hidden": [8, 8], "network.kind": "deepsets"})
    assert not can_stack("cql", {})
    assert not can_stack("behaviour_cloning", {})


def test_a_program_of_several_trainings_is_of_this_process(tmp_path, monkeypatch):
    monkeypatch.setattr("hindcast.flows.runners.check", lambda _request: None)
    table = {"agents": ["double_dqn"]}
    request = Request("d", table, str(tmp_path / "s"), stacked="yes", runner="dask")
    with pytest.raises(InputError, match="--stacked yes is one program in this process"):
        check(request)


def test_stacks_are_for_several_trainings(tmp_path, capsys):
    argv = ("train", "d", "--agent", "double_dqn", "--out", tmp_path / "x", "--stacked", "yes")
    assert cli.main([*map(str, argv), "--direct"]) == 2
    assert "--stacked is for several trainings" in capsys.readouterr().err
