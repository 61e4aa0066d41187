"""Helpers that make hostile folders, and functions that read them."""

import copy
import ctypes
import json
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.decisions import Columns
from hindcast.pipeline.dataset.manifest import read_manifest
from hindcast.pipeline.dataset.sampling import sample_decisions
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import HindcastError, InputError, VerificationFailed
from hindcast.pipeline.exports import export
from hindcast.pipeline.recipes.loading import parse_recipe
from hindcast.pipeline.storage.files import sha256_file
from hindcast.policies.registry import behaviours

PART = "data/part-00000.parquet"


VALUES: tuple[Any, ...] = (
    None, "x", "../x", "\ud800", -1, 0, 7, 10**7, 10**12, 10**30, 1e308, float("nan"), True,
    [], [[1]], {}, {"a": 1},
)  # fmt: skip


def mend(folder: Path, **changes: Any) -> None:
    """Make the manifest consistent with its files and its recipe again, as an attacker can."""
    manifest = {**json.loads((folder / "manifest.json").read_text()), **changes}
    for entry in [*manifest["parts"], manifest["episodes"]]:
        path = folder / entry["path"]
        if path.is_file():
            entry["bytes"], entry["sha256"] = path.stat().st_size, sha256_file(path)
            with suppress(pa.ArrowException, OSError):
                entry["rows"] = pq.read_metadata(path).num_rows
    with suppress(HindcastError):
        manifest["digest"] = parse_recipe(manifest["recipe"], "recipe").digest
    workload = folder / "workload" / "manifest.json"
    manifest["workload_sha256"] = sha256_file(workload)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def read_all(folder: Path) -> list[Callable[[], object]]:
    """Return functions for all operations that read a dataset folder."""
    return [
        lambda: verify(folder),
        lambda: verify(folder, behaviours(read_manifest(folder).recipe)),
        lambda: ds.open(folder),
        lambda: learn(folder),
    ]


def learn(folder: Path) -> None:
    """Run the parts of a training that come before the first step."""
    sample_decisions(
        ds.open(folder),
        "train",
        np.random.default_rng(1),
        Columns(4, transitions=True),
        limit=10_000,
    )


def use(folder: Path, out: Path) -> None:
    """Read the decisions in every other way. Ignore Hindcast's errors and raise others."""
    for read in (
        lambda: learn(folder),
        lambda: list(ds.open(folder).batches(256, np.random.default_rng(1))),
        lambda: list(ds.open(folder).iter_episodes()),
        lambda: ds.open(folder).transitions().collect(),
        lambda: export(folder, "d4rl", out),
    ):
        with suppress(InputError):
            read()


def refused(read: Callable[[], object]) -> str:
    """Return the message of the HindcastError that a function raises."""
    with pytest.raises((InputError, VerificationFailed)) as caught:
        read()
    return str(caught.value)


def command(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str]:
    """Return the exit code and error output of a command line."""
    code = main([str(a) for a in argv])
    return code, capsys.readouterr().err


def assert_commands_refuse(folder: Path, capsys: pytest.CaptureFixture[str], out: Path) -> None:
    """Check that every command that reads a dataset ends with one line and exit code 1 or 2."""
    for argv in (
        ("verify", folder),
        ("train", folder, "--agent", "behaviour_cloning", "--out", out / "a", "--direct"),
        ("export", folder, "--to", "csv", "--out", out / "b"),
        ("show", folder),
        ("diff", folder, folder),
    ):
        code, said = command(capsys, *argv)
        assert code in {1, 2}, argv
        assert said.startswith("hindcast: "), argv
        assert said.count("\n") == 1, argv
        assert "Traceback" not in said
    assert not out.exists() or not any(out.iterdir())
    code, said = command(capsys, "list", folder.parent)
    assert code == 0
    assert "Traceback" not in said


@contextmanager
def opened(path: Path) -> Iterator[list[int]]:
    """Record the operating system's events (inotify) of opening or reading a file."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    assert watch >= 0
    events: list[int] = []
    try:
        flags = 0x00000001 | 0x00000002 | 0x00000020  # access, modify, open
        assert libc.inotify_add_watch(watch, str(path).encode(), flags) >= 0
        yield events
        with suppress(BlockingIOError):
            while content := os.read(watch, 4096):
                events.extend(struct.unpack_from("iIII", content)[1:2])
    finally:
        os.close(watch)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in a JSON value, tables and lists too."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(child, (*path, key))


def changed(value: Any, path: tuple[Any, ...], to: Any) -> tuple[Any, bool]:
    """Return a copy with another value at a path, and whether it differs from the original."""
    value = copy.deepcopy(value)
    at = value
    for key in path[:-1]:
        at = at[key]
    different = type(at[path[-1]]) is not type(to) or at[path[-1]] != to
    at[path[-1]] = to
    return value, different


def tried(file: Path, reads: list[Callable[[], object]], each: int) -> dict[str, int]:
    """Return the number of cases and the number in which a reader accepted a wrong value in a file.

    Each key of the file gets `each` of VALUES in turn and is also left out. Errors that are not
    Hindcast's are raised.
    """
    text, rng = file.read_text(), np.random.default_rng(8)
    value, accepted = json.loads(text), {"cases": 0, "accepted": 0}
    for path in leaves(value):
        for choice in rng.choice(len(VALUES), each, replace=False):
            wrong, different = changed(value, path, VALUES[choice])
            if not different:
                continue
            file.write_text(json.dumps(wrong), errors="surrogatepass")
            for read in reads:
                accepted["cases"] += 1
                with suppress(InputError, VerificationFailed):
                    read()
                    accepted["accepted"] += 1
    file.write_text(text)
    return accepted


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def with_column(name: str, change: Callable[[list[Any]], list[Any]]) -> Any:
    """Return a change of a table that replaces the values of a column."""

    def apply(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(name)
        values = change(table.column(name).to_pylist())
        field = table.schema.field(at)
        return table.set_column(at, field, pa.array(values, field.type))

    return apply


def at(row: int, value: Any) -> Callable[[list[Any]], list[Any]]:
    """Return a change of one row's value. A function is called with the old value."""

    def change(values: list[Any]) -> list[Any]:
        new = value(values[row]) if callable(value) else value
        return [*values[:row], new, *values[row + 1 :]]

    return change
