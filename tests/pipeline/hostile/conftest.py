"""Fixtures: a dataset and a checkpoint to tamper with, and a file that must never be opened."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def folder(tiny_dataset, tmp_path) -> Path:
    """Return a dataset to tamper with."""
    return Path(shutil.copytree(tiny_dataset, tmp_path / "dataset"))


@pytest.fixture
def canary(tmp_path) -> Path:
    """Return a file that must never be opened."""
    path = tmp_path / "canary"
    path.write_bytes(b"secret")
    return path


@pytest.fixture
def checkpoint(tiny_dataset, tmp_path) -> Path:
    """Return a trained checkpoint."""
    from tests.policies.trainings import train

    return train(
        tiny_dataset, "behaviour_cloning", steps=2, seed=0, out=tmp_path / "checkpoint", settings={}
    )
