"""Tests that a pickle is never loaded, whatever file it is in."""

import os
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hindcast.pipeline.errors import InputError, VerificationFailed
from hindcast.pipeline.storage.files import read_json, sha256_file, write_json
from hindcast.policies.networks.checkpoint import load_policy
from tests.pipeline.hostile.tampering import PART, command, mend, read_all, refused


class Bomb:
    """Object that runs a command when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch '{self.path}'",)


def test_a_pickle_is_never_loaded(checkpoint, tmp_path, tiny_dataset, capsys):
    """Pickles are refused in place of the weights, with fitting digests, and beside them."""
    went_off = tmp_path / "went off"
    content = pickle.dumps(Bomb(went_off))
    pickle.loads(content)  # the bomb works
    assert went_off.exists()
    went_off.unlink()
    weights = checkpoint / "weights.safetensors"
    weights.write_bytes(content)
    description = read_json(checkpoint / "checkpoint.json")
    description["weights"] = {"bytes": len(content), "sha256": sha256_file(weights)}
    write_json(checkpoint / "checkpoint.json", description)
    assert "never loaded" in refused(lambda: load_policy(checkpoint))
    out = tmp_path / "evaluation"
    code, said = command(
        capsys, "evaluate", "binpack-synthetic-v1", "--policies", checkpoint, "--out", out,
        "--direct",
    )  # fmt: skip
    assert (code, said.count("\n")) == (2, 1)
    for name in ("model.pt", "model.d3", "policy.pkl", "weights.bin"):
        (checkpoint / "checkpoint.json").unlink(missing_ok=True)
        (checkpoint / name).write_bytes(content)
        assert "never loaded" in refused(lambda: load_policy(checkpoint))
    assert not went_off.exists()


@pytest.mark.slow
def test_a_pickle_inside_parquet_is_never_loaded(folder, tmp_path):
    """Extension types that a file declares are not unpickled, as Arrow once did."""
    went_off = tmp_path / "went off"
    path = folder / PART
    table = pq.read_table(path)
    field = table.schema.field("episode")
    metadata = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Bomb(went_off)),
    }
    fields = [field.with_metadata(metadata) if f.name == "episode" else f for f in table.schema]
    pq.write_table(table.cast(pa.schema(fields)), path)
    mend(folder)
    for read in read_all(folder):
        with suppress(InputError, VerificationFailed):
            read()
    assert not went_off.exists()
