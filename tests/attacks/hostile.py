"""Hostile recipes, traces, manifests and archives, through the command line as a user gives them.

    python -m tests.attacks.hostile --cases 300 --seed 0 --out hostile.csv

Every command has to end within 10 s and 1.5 GB, with exit code 0, 1 or 2, without a traceback, and
with one line where it fails. An audit hook records what it opens: no file outside of the case's own
folder but those of Python and of the packages, and no address.
"""

import argparse
import gzip
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.attacks.forks import MODULES, ROOT, TIMED_OUT, Forks, Outcome, reported
from tests.conftest import TINY

SECONDS = 10.0
MEMORY = 1_500_000_000
SETS = tuple(word for value in TINY for word in ("--set", value))
KNOWN = tuple(
    os.path.realpath(place)
    for place in (ROOT, sys.prefix, sys.base_prefix, "/proc", "/sys", "/dev", "/usr/lib",
                  "/usr/share", "/lib", "/etc/localtime", "/etc/mime.types", "/etc/ld.so.cache")
)  # fmt: skip
VALUES = (
    "-1", "0", "1e308", "1e-320", "nan", "inf", "-inf", "10000000000000000000000000", "true",
    '""', '"../../canary"', '"/etc/passwd"', '"s3://bucket/x"', '"http://127.0.0.1:9/x"',
    '"\\u0000"', '"\\u001b[2J"', '"a\\nb"', '"\\u202e"', "[]", "[[[[]]]]", "{}", "{a={b={}}}",
    "1979-05-27", "[1,2", '"' + "x" * 70_000 + '"', "[" * 3000,
)  # fmt: skip
KEYS = (
    "id", "description", "scenario", "objective", "seed", "trace", "trace.format", "trace.path",
    "trace.settings", "trace.settings.n_jobs", "config", "config.machines",
    "config.jobs_per_window", "split.train", "split.test", "split", "behaviours", "behaviours.0",
    "evaluate.seeds", "evaluate.policies", "evaluate.references", "train.agents", "train.steps",
    "online.agent", "online.settings", "dataset_splits", "x" * 300, "a.b.c.d.e.f.g", "\u202e", "",
)  # fmt: skip
JSON: tuple[Any, ...] = (
    None, "x", "../canary", "/etc/passwd", "s3://bucket/x", "\ud800", "\x00", "\x1b[2J", -1, 0,
    10**7, 10**12, 10**30, 1e308, float("nan"), True, [], [[1]], {}, {"a": 1}, "x" * 100_000,
)  # fmt: skip
BYTES: dict[str, bytes] = {
    "empty": b"",
    "nul": b"\x00" * 5000,
    "text": b"hello world\n" * 50,
    "not utf-8": b"\xff\xfe\x80" * 700,
    "escapes": b"; \x1b[2J\x1b]0;x\x07 MaxProcs: 8\n1 2 \x1b[31m 4\n",
    "one long line": b"1 " * 4_000_000,
    "long number": b"9" * 100_000 + b" 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n",
    "huge numbers": b"1e999 " * 18 + b"\n" + b"99999999999999999999 " * 18 + b"\n",
    "infinite": b"nan inf -inf " * 6 + b"\n",
    "many columns": (b"1 " * 900_000 + b"\n") * 2,
    "deep json": b"[" * 200_000,
    "deep objects": b'{"a":' * 100_000,
    "json list": b"[1,2,3]",
    "json records": b'[{"TIME": 1e400, "STATE": {}, "ACTION": 7}]',
    "sqlite header": b"SQLite format 3\x00" + b"\xff" * 4000,
    "zip": b"PK\x03\x04" + b"\x00" * 100,
    "gzip cut off": gzip.compress(b"1 2 3\n" * 5000)[:-20],
    "gzip of nothing": gzip.compress(b""),
    "gzip bomb": gzip.compress(b"1" * 300_000_000, 9),
    "gzip bomb of lines": gzip.compress(b"1\n" * 30_000_000, 9),
    "gzip in gzip": gzip.compress(gzip.compress(b"1" * 1_000_000)),
    "parquet header": b"PAR1" + b"\xff" * 200 + b"PAR1",
    "carriage returns": b"1 2 3\r4 5 6\r" * 500,
    "quotes": b'"' * 300_001 + b"\n",
    "commas": b"," * 500_000 + b"\n",
}


@dataclass(frozen=True)
class Case:
    """Case: a name, a command line, and a function that makes its files in a folder."""

    name: str
    argv: tuple[str, ...]
    make: Callable[[Path], None] = lambda _folder: None


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="cases whose name begins so")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    rows = []
    forks = Forks([name for name in MODULES if name != "torch._dynamo"])
    with tempfile.TemporaryDirectory(prefix="hostile-") as scratch:
        top = Path(scratch)
        (top / "canary").write_text("secret")
        (top / "tmp").mkdir()
        made = top / "made"
        done = forks.run(
            ("build", "binpack-synthetic-v1", *SETS, "--out", str(made), "--direct"), seconds=120
        )
        if done.code:
            raise SystemExit(done.err)
        loaded = forks.run(("-c", "pass")).memory  # what every forked process has
        for case in _drawn(_cases(made), options.cases, options.seed):
            if case.name.startswith(options.only):
                rows.append(_attack(forks, top, case, loaded))
                if rows[-1]["faults"]:
                    print(f"{case.name}: {rows[-1]['faults']}", flush=True)
    forks.close()
    return reported(rows, "cases", options.out)


def _drawn(cases: list[Case], count: int, seed: int) -> list[Case]:
    """Return so many of the cases, of every kind about the same share."""
    order = np.random.default_rng(seed).permutation(len(cases))[:count]
    return [cases[i] for i in sorted(order)]


def _cases(made: Path) -> list[Case]:
    return [*_overrides(), *_recipes(made), *_traces(), *_manifests(made), *_places(made)]


def _overrides() -> Iterator[Case]:
    for number, key in enumerate(KEYS):
        for value in VALUES[number % 3 :: 3]:
            words = ("build", "binpack-synthetic-v1", *SETS, "--set", f"{key}={value}")
            yield Case(f"override {key[:30]}={value[:30]}", (*words, "--out", "out", "--direct"))


def _recipes(made: Path) -> Iterator[Case]:
    argv = ("build", "recipe.toml", *SETS, "--out", "out", "--direct")
    plain = (ROOT / "datasets" / "binpack-synthetic-v1" / "recipe.toml").read_bytes()
    texts = {
        **BYTES,
        "plain and nul": plain + b"\x00",
        "plain and escape": plain.replace(b'id = "', b'id = "\\u001b[2J'),
        "name of a folder above": plain.replace(b'id = "', b'id = "../../'),
        "many keys": plain + b"".join(b"k%d = 1\n" % i for i in range(50_000)),
        "dotted keys": plain + b"x." * 20_000 + b"y = 1\n",
        "tables": b"".join(b"[a%d]\n" % i for i in range(50_000)),
    }
    for name, content in texts.items():
        yield Case(f"recipe {name}", argv, _bytes("recipe.toml", content))
    yield Case("recipe fifo", argv, lambda folder: os.mkfifo(folder / "recipe.toml"))
    yield Case("recipe folder", argv, lambda folder: (folder / "recipe.toml").mkdir())
    yield Case("recipe loop", argv, lambda f: (f / "recipe.toml").symlink_to("recipe.toml"))
    yield Case("recipe link", argv, lambda f: (f / "recipe.toml").symlink_to("/dev/zero"))
    yield Case("recipe of a dataset", ("build", "data", "--out", "out", "--direct"),
               lambda folder: _changed(made, folder, "id", "../../x"))  # fmt: skip


def _traces() -> Iterator[Case]:
    names = {
        "swf": ("log.swf", "log.swf.gz"),
        "alibaba2017": ("jobs.csv", "batch_task.csv", "batch_task.csv.gz"),
        "azure2020": ("packing.sqlite", "vms.csv", "vms.csv.gz"),
        "history": ("h.json",),
    }
    for form, files in names.items():
        for file in files:
            argv = ("ingest", form, file, "--out", "out", "--direct")
            for name, content in BYTES.items():
                plain = file.endswith(".gz") and not content.startswith(b"\x1f\x8b")
                packed = gzip.compress(content, 1) if plain else content
                yield Case(f"trace {file} {name}", argv, _bytes(file, packed))
            yield Case(f"trace {file} fifo", argv, lambda f, file=file: os.mkfifo(f / file))
            yield Case(f"trace {file} loop", argv, lambda f, file=file: (f / file).symlink_to(file))
            yield Case(
                f"trace {file} zeros", argv, lambda f, file=file: (f / file).symlink_to("/dev/zero")
            )


def _manifests(made: Path) -> Iterator[Case]:
    commands = (("show", "data"), ("verify", "data"), ("build", "data", "--out", "out", "--direct"),
                ("export", "data", "--to", "csv", "--out", "out"), ("list", "."))  # fmt: skip
    manifest = json.loads((made / "manifest.json").read_text())
    places = sorted(set(_paths(manifest)))
    rng = np.random.default_rng(1)
    for number in range(120):
        place = places[int(rng.integers(len(places)))]
        value = JSON[int(rng.integers(len(JSON)))]
        argv = commands[number % len(commands)]
        shown = f"{place}={str(value)[:20]!r}"
        yield Case(f"manifest {argv[0]} {shown}", argv,
                   lambda f, p=place, v=value: _changed(made, f, p, v))  # fmt: skip
    for name, content in BYTES.items():
        for file in ("manifest.json", "episodes.parquet"):
            argv = commands[len(name) % 2]

            def make(folder: Path, file: str = file, content: bytes = content) -> None:
                shutil.copytree(made, folder / "data")
                (folder / "data" / file).write_bytes(content)

            yield Case(f"dataset {argv[0]} {file} {name}", argv, make)


def _places(made: Path) -> Iterator[Case]:
    commands = (("show", "data"), ("verify", "data"), ("build", "data", "--out", "out", "--direct"),
                ("export", "data", "--to", "huggingface", "--out", "out"),
                ("evaluate", "data", "--policy", "tetris", "--out", "out", "--direct"),
                ("train", "data", "--agent", "behaviour_cloning", "--steps", "1", "--out", "out",
                 "--direct"))  # fmt: skip
    targets = ("../../canary", "{top}/canary", "/etc/passwd", "data/../../../canary", "/dev/zero")
    for argv in commands:
        for target in targets:
            for place in ("parts.0.path", "episodes.path", "recipe.trace.path"):

                def changed(folder: Path, place: str = place, target: str = target) -> None:
                    _changed(made, folder, place, target.format(top=folder.parent))

                yield Case(f"place {argv[0]} {place}={target}", argv, changed)
            for file in ("data/part-00000.parquet", "README.md", "workload/tasks.parquet"):

                def linked(folder: Path, file: str = file, target: str = target) -> None:
                    shutil.copytree(made, folder / "data")
                    (folder / "data" / file).unlink()
                    path = target.format(top=folder.parent)
                    (folder / "data" / file).symlink_to(path)

                yield Case(f"link {argv[0]} {file}->{target}", argv, linked)


def _bytes(name: str, content: bytes) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return make


def _paths(value: Any, prefix: str = "") -> Iterator[str]:
    """Yield the places of a JSON value, such as parts.0.path."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield f"{prefix}{key}"
        if isinstance(inner, dict | list):
            yield from _paths(inner, f"{prefix}{key}.")


def _changed(made: Path, folder: Path, place: str, value: Any) -> None:
    """Copy the dataset and change one value of its manifest."""
    shutil.copytree(made, folder / "data")
    path = folder / "data" / "manifest.json"
    manifest = json.loads(path.read_text())
    keys: list[Any] = [int(key) if key.isdigit() else key for key in place.split(".")]
    inner = manifest
    for key in keys[:-1]:
        inner = inner[key] if isinstance(inner, list) else inner.setdefault(key, {})
    inner[keys[-1]] = value
    path.write_text(json.dumps(manifest))


def _attack(forks: Forks, top: Path, case: Case, loaded: int) -> dict[str, object]:
    folder = top / "case"
    folder.mkdir()
    try:
        case.make(folder)
        found = forks.run(
            case.argv, cwd=folder, seconds=SECONDS, memory=3 * MEMORY, audit=True,
            env={"TMPDIR": str(top / "tmp"), "XDG_CACHE_HOME": str(top / "tmp")},
        )  # fmt: skip
    finally:
        shutil.rmtree(folder)
    return {
        "case": case.name, "command": case.argv[0], "code": found.code,
        "line": " ".join(found.lines)[:300], "seconds": round(found.seconds, 2),
        "memory": found.memory - loaded, "faults": "; ".join(_faults(found, top, loaded)),
    }  # fmt: skip


def _faults(found: Outcome, top: Path, loaded: int) -> list[str]:
    faults = list(found.stray)
    if found.memory > loaded + MEMORY:
        faults.append(f"{(found.memory - loaded) / 1e9:.1f} GB")
    if found.code == TIMED_OUT:
        faults.append(f"longer than {SECONDS:.0f} s")
    elif found.code not in {0, 1, 2}:
        faults.append(f"exit code {found.code}: {found.err[-200:]}")
    if found.code == 2 and len(found.lines) != 1:
        faults.append(f"lines: {found.lines}")
    if any(not c.isprintable() for line in found.lines for c in line):
        faults.append("control characters in the line")
    if any(len(line) > 2000 for line in found.lines):
        faults.append(f"a line of {max(map(len, found.lines))} characters")
    own = (f"{top}/case", f"{top}/tmp")
    for event, what in found.events:
        if event.startswith("socket"):
            faults.append(f"{event} {what}")
        elif event == "subprocess.Popen":
            if what != "git":  # describes the checkout of this package, for provenance
                faults.append(f"started {what}")
        elif not what.isdigit():
            path = os.path.normpath(os.path.join(f"{top}/case", what))  # noqa: PTH118
            if not path.startswith((*own, *KNOWN)) or path == "/dev/zero":
                faults.append(f"{event} {path}")
    return list(dict.fromkeys(faults))


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
