"""From a dataset folder to a checkpoint folder."""

import pytest

from pipeline.errors import RecipeError
from policies.checkpoint import load_policy
from policies.offline.training import train


def test_a_checkpoint_comes_with_its_curves_and_its_dataset(tiny_dataset, tmp_path):
    folder = train(tiny_dataset, "behaviour_cloning", steps=5, seed=1, out=tmp_path / "a")
    assert load_policy(folder).name == "behaviour_cloning"
    assert (folder / "metrics.parquet").is_file()


def test_an_unknown_setting_is_named_and_nothing_is_written(tiny_dataset, tmp_path):
    with pytest.raises(RecipeError, match="did you mean 'learning_rate'"):
        train(
            tiny_dataset, "behaviour_cloning", steps=5, seed=1, out=tmp_path / "a",
            settings={"learning_rat": 0.1},
        )  # fmt: skip
    assert not list(tmp_path.iterdir())
