"""Fixtures shared by the tests of pipeline/."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from hindcast.pipeline.storage.files import sha256_file


@pytest.fixture(scope="session")
def cut_dataset(tiny_dataset, tmp_path_factory):
    """Return the tiny dataset in row groups of 97 rows, which episodes cross."""
    folder = tmp_path_factory.mktemp("cut") / "dataset"
    shutil.copytree(tiny_dataset, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    for part in manifest["parts"]:
        path = folder / part["path"]
        table = pq.read_table(path)
        pq.write_table(table, path, row_group_size=97, compression="zstd")
        part |= {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
