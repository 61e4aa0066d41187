"""A dataset and a checkpoint to make hostile, and a file that nobody may open."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def folder(tiny_dataset, tmp_path) -> Path:
    """A dataset to make hostile."""
    return Path(shutil.copytree(tiny_dataset, tmp_path / "dataset"))


@pytest.fixture
def canary(tmp_path) -> Path:
    """A file that nobody may open."""
    path = tmp_path / "canary"
    path.write_bytes(b"secret")
    return path


@pytest.fixture
def checkpoint(tiny_dataset, tmp_path) -> Path:
    """A trained checkpoint."""
    from policies.offline.training import train

    return train(
        tiny_dataset, "behaviour_cloning", steps=2, seed=0, out=tmp_path / "checkpoint", settings={}
    )
