"""Tests from a dataset folder to a checkpoint folder, with any number of interruptions."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError, RecipeError
from hindcast.policies.networks.checkpoint import load_policy, read_description
from tests.folders import content
from tests.policies.trainings import train

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent.parent.parent


def test_a_checkpoint_comes_with_its_curves_and_its_dataset(tiny_dataset, tmp_path):
    folder = train(tiny_dataset, "behaviour_cloning", steps=5, seed=1, out=tmp_path / "a")
    assert load_policy(folder).name == "behaviour_cloning"
    curves = pl.read_parquet(folder / "metrics.parquet")
    assert {"loss", "log_agreement", "validation_loss"} <= set(curves["metric"])
    assert curves["step"].max() == 5
    dataset = read_description(folder)["training"]["dataset"]
    assert dataset["recipe"] == f"binpack-synthetic-v1+{dataset['digest'][:6]}"
    assert not (folder / "training.safetensors").exists()


def test_the_best_on_validation_lies_beside_the_last(tiny_dataset, tmp_path):
    """Both checkpoints act, and each description states which of the two it is."""
    out = train(tiny_dataset, "behaviour_cloning", steps=6, seed=1, out=tmp_path / "a",
                settings={"learning_rate": 1.0})  # fmt: skip
    last, best = read_description(out)["training"], read_description(out / "best")["training"]
    assert last["best"] == best["best"]
    assert best["steps"] == last["best"]["step"] < last["steps"] == best["of_steps"] == 6
    assert last["best"]["metric"] == "validation_loss"
    losses = pl.read_parquet(out / "metrics.parquet").filter(pl.col("metric") == "validation_loss")
    assert last["best"]["score"] == -losses["value"].min()
    weights = [load_policy(folder).weights["layer0.weight"] for folder in (out, out / "best")]
    assert not np.array_equal(*weights)


def test_checkpoints_on_the_way_act(tiny_dataset, tmp_path):
    out = train(tiny_dataset, "behaviour_cloning", steps=5, seed=1, out=tmp_path / "a",
                checkpoint_every=2)  # fmt: skip
    steps = sorted(p.name for p in (out / "checkpoints").iterdir())
    assert steps == ["step-000002", "step-000004", "step-000005"]
    loaded = [load_policy(out / "checkpoints" / name).weights["layer0.weight"] for name in steps]
    assert np.array_equal(loaded[-1], load_policy(out).weights["layer0.weight"])
    assert not np.array_equal(loaded[0], loaded[1])


def test_what_is_finished_is_left_alone_and_what_is_other_replaces_it(tiny_dataset, tmp_path):
    """No file of the earlier training stays where it could be mistaken for the later training's."""
    out = tmp_path / "a"
    train(tiny_dataset, "behaviour_cloning", steps=4, seed=1, out=out, checkpoint_every=2)
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}
    train(tiny_dataset, "behaviour_cloning", steps=4, seed=1, out=out, checkpoint_every=2)
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()} == before
    train(tiny_dataset, "behaviour_cloning", steps=3, seed=2, out=out)
    assert not list((out / "checkpoints").iterdir())
    assert read_description(out)["training"]["seed"] == 2


def test_an_unknown_setting_is_named_and_nothing_is_written(tiny_dataset, tmp_path):
    with pytest.raises(RecipeError, match="did you mean 'learning_rate'"):
        train(
            tiny_dataset, "behaviour_cloning", steps=5, seed=1, out=tmp_path / "a",
            settings={"learning_rat": 0.1},
        )  # fmt: skip
    assert not list(tmp_path.iterdir())


KILLED = """
import sys
from pathlib import Path
from tests.policies.trainings import train
train(Path(sys.argv[1]), "trajectory_preference", steps=150, seed=4, out=Path(sys.argv[2]),
      checkpoint_every=40, resume_s=0.0)
"""


@pytest.mark.nightly
def test_a_run_killed_at_any_moment_ends_in_the_same_content(tiny_dataset, tmp_path):
    """After repeated SIGKILLs at saved states and a final full run, every file is equal."""
    whole = train(tiny_dataset, "trajectory_preference", steps=150, seed=4, out=tmp_path / "whole",
                  checkpoint_every=40)  # fmt: skip
    out = tmp_path / "killed"
    state, seen, kills = out / "training.safetensors", 0, 0
    for wait_s in (0.0, 0.1):
        started = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tiny_dataset), str(out)],
            cwd=ROOT, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        while started.poll() is None:
            if state.is_file() and state.stat().st_mtime_ns > seen:
                time.sleep(wait_s)
                started.send_signal(signal.SIGKILL)
                started.wait()
                kills += 1
                break
            time.sleep(0.002)
        if not state.is_file():
            break
        seen = state.stat().st_mtime_ns
    assert kills >= 1
    train(tiny_dataset, "trajectory_preference", steps=150, seed=4, out=out, checkpoint_every=40)
    assert content(out) == content(whole)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_curves_are_drawn_in_tensorboard(tiny_dataset, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    out = train(tiny_dataset, "behaviour_cloning", steps=3, seed=1, out=tmp_path / "a",
                tensorboard=tmp_path / "board")  # fmt: skip
    events = EventAccumulator(str(tmp_path / "board" / "behaviour_cloning-seed1"))
    events.Reload()
    curves = pl.read_parquet(out / "metrics.parquet").filter(pl.col("metric") == "loss")
    shown = events.Scalars("loss")
    assert [e.step for e in shown] == curves["step"].to_list()
    np.testing.assert_allclose([e.value for e in shown], curves["value"], rtol=1e-6)


def test_without_tensorboard_the_extra_is_named(tiny_dataset, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(InputError, match=r"pip install 'hindcast-scheduling\[tensorboard\]'"):
        train(tiny_dataset, "behaviour_cloning", steps=1, seed=1, out=tmp_path / "a",
              tensorboard=tmp_path / "board")  # fmt: skip


def test_checkpoints_of_one_run_have_names_that_tell_them_apart(
    tiny_dataset, tiny_recipe, tmp_path
):
    """Their groups differ, too: an evaluation must not take them for seeds of one agent."""
    from hindcast.policies.entrants import entrants

    out = train(tiny_dataset, "behaviour_cloning", steps=4, seed=1, out=tmp_path / "a",
                checkpoint_every=2)  # fmt: skip
    folders = [out, out / "best", out / "checkpoints" / "step-000002"]
    found = entrants(tiny_recipe, [str(folder) for folder in folders])
    assert [(c.behaviour.name, c.group) for c in found] == [
        ("behaviour_cloning-seed1", "behaviour_cloning"),
        ("behaviour_cloning-best-seed1", "behaviour_cloning-best"),
        ("behaviour_cloning-step2-seed1", "behaviour_cloning-step2"),
    ]
