"""Tests that no file outside a folder is opened or written, whatever its names and links say."""

import json
import os
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.manifest import read_manifest
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import InputError, VerificationFailed
from hindcast.policies.networks.checkpoint import load_policy
from hindcast.policies.registry import behaviours
from tests.pipeline.hostile.tampering import (
    PART,
    assert_commands_refuse,
    learn,
    mend,
    opened,
    read_all,
    refused,
)


def test_the_canary_sings(canary):
    """The watch notices a file opened by Python and one opened by compiled code."""
    with opened(canary) as events:
        canary.read_bytes()
    assert events
    with opened(canary) as events, suppress(pa.ArrowException):
        pq.read_table(canary)
    assert events


@pytest.mark.parametrize(
    "name",
    [PART, "episodes.parquet", "manifest.json", "workload/manifest.json", "workload/tasks.parquet"],
)
def test_a_link_out_of_the_folder_is_not_followed(folder, canary, capsys, tmp_path, name):
    (folder / name).unlink()
    (folder / name).symlink_to(canary)
    with opened(canary) as events:
        assert "symbolic link" in refused(lambda: verify(folder))
        if not name.startswith("workload"):
            for read in read_all(folder):
                assert "symbolic link" in refused(read)
            assert_commands_refuse(folder, capsys, tmp_path / "out")
    assert events == []


@pytest.mark.parametrize("name", ["README.md", "croissant.json"])
def test_a_document_that_is_a_link_is_not_followed(folder, canary, name):
    (folder / name).unlink()
    (folder / name).symlink_to(canary)
    with opened(canary) as events:
        assert "symbolic link" in refused(lambda: verify(folder))
    assert events == []


@pytest.mark.parametrize("name", ["data", "workload"])
def test_a_folder_that_is_a_link_is_not_followed(folder, tmp_path, name):
    """A folder behind a link is refused although its files are right, as it is outside."""
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    for read in read_all(folder):
        assert "symbolic link" in refused(read)


@pytest.mark.parametrize(
    "name",
    [
        "../canary", "data/../../canary", "/etc/passwd", "/dev/zero", "data/part-00000.parquet\0",
        "", ".", "data", "data/part-0000\u0660.parquet", "DATA/part-00000.parquet",
        "data\\part-00000.parquet", "data/./part-00000.parquet", "data//part-00000.parquet",
        "data/part-00000.parquet/", "\ud800", "x" * 5000, "README.md", "data/*.parquet",
        "s3://bucket/part-00000.parquet", "file:///etc/passwd",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["parts", "episodes"])
def test_only_names_of_the_standard_are_read(folder, canary, kind, name):
    manifest = json.loads((folder / "manifest.json").read_text())
    entry = manifest["parts"][0] if kind == "parts" else manifest["episodes"]
    entry["path"] = name
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with opened(canary) as events:
        for read in read_all(folder):
            assert "manifest.json" in refused(read)
    assert events == []


def test_a_part_that_is_listed_twice_is_refused(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["parts"][1] = manifest["parts"][0]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    for read in read_all(folder):
        assert "twice" in refused(read)


def test_the_trace_that_a_recipe_names_is_not_read(folder, canary):
    """A manifest's recipe is lineage: only `build` and `evaluate` of a recipe read its trace."""
    manifest = json.loads((folder / "manifest.json").read_text())
    recipe = manifest["recipe"]
    recipe["trace"] = {"format": "alibaba2017", "path": str(canary), "settings": {}}
    mend(folder, recipe=recipe)
    with opened(canary) as events:
        learn(folder)
        with suppress(InputError, VerificationFailed):
            verify(folder, behaviours(read_manifest(folder).recipe))
    assert events == []


def test_a_build_does_not_write_through_links(tiny_recipe, tmp_path):
    """A foreign interrupted build, whose folders are links out of it, is not written through."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in (".building", "data", "workload"):
        out = tmp_path / f"build {name}"
        (out / ".building").mkdir(parents=True)
        if name == ".building":
            (out / name).rmdir()
        (out / name).symlink_to(outside)
        assert "symbolic link" in refused(
            lambda out=out: build(tiny_recipe, behaviours(tiny_recipe), out)
        )
        assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", ["checkpoint.json", "weights.safetensors"])
def test_a_checkpoint_of_links_or_pipes_is_refused(checkpoint, canary, name):
    (checkpoint / name).unlink()
    (checkpoint / name).symlink_to(canary)
    with opened(canary) as events:
        assert name in refused(lambda: load_policy(checkpoint))
    assert events == []
    (checkpoint / name).unlink()
    os.mkfifo(checkpoint / name)
    assert name in refused(lambda: load_policy(checkpoint))
