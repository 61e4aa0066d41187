"""Every command that writes, on disks of many sizes that are too small, then with room again.

    python -m tests.attacks.full_disk --sizes 60 --seed 0 --out full_disk.csv

A disk is a tmpfs, so this needs the right to mount. On a full disk a command has to end with exit
code 2 and one line that says so, without a traceback or a crash at exit, and leave nothing but
what the same command continues from. With room, the same command has to give the bytes of a
command that was never disturbed.
"""

import argparse
import getpass
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from tests.attacks.forks import ROOT, Forks, Outcome, reported
from tests.attacks.processes import content
from tests.conftest import TINY

SETS = tuple(word for value in TINY for word in ("--set", value))
MORE = ("--set", 'behaviours=[{policy="tetris",episodes=2}]')
THERMAL = ("config.jobs=25", "config.steps=40")
SPLITS = ('split.train="0..1"', 'split.validation="2..2"', 'split.test="3..3"')
ONLINE = (*SPLITS, "config.steps=5", "online.iterations=2")
PAGE = os.sysconf("SC_PAGESIZE")
ROOM = 1 << 30
TORCH = f"torchinductor_{getpass.getuser()}"  # folder that importing torch may make
BUILDING = ("out/.building/*", "out/data/*", "out/workload/*", "out/policies/*",
            "out/episodes.parquet", "out/README.md", "out/croissant.json")  # fmt: skip
TRAINING = ("out/provenance.json", "out/training.safetensors", "out/metrics.parquet",
            "out/weights.safetensors", "out/best/*", "out/checkpoints/*")  # fmt: skip


@dataclass(frozen=True)
class Writer:
    """Command that writes.

    Attributes:
        argv: Its command line; {disk} and {made} are folders.
        given: Folder below {made} that is copied to the disk as `out` beforehand.
        leaves: Patterns of files that may stay, from which the same command continues.
    """

    argv: tuple[str, ...]
    given: str = ""
    leaves: tuple[str, ...] = ()


def _export(to: str, dataset: str = "dataset") -> Writer:
    return Writer(("export", f"{{made}}/{dataset}", "--to", to, "--out", "{disk}/out"))


WRITERS: Mapping[str, Writer] = {
    "ingest": Writer(("ingest", "swf", "{made}/log.swf", "--out", "{disk}/out", "--direct")),
    "ingest again": Writer(
        ("ingest", "swf", "{made}/longer.swf", "--out", "{disk}/out", "--direct"), "workload"
    ),
    "ingest history": Writer(
        ("ingest", "history", "{made}/history.json", "--out", "{disk}/out", "--direct"), "",
        (*BUILDING, "out/recorded.parquet"),
    ),
    "build": Writer(
        ("build", "binpack-synthetic-v1", *SETS, "--out", "{disk}/out", "--direct"), "", BUILDING
    ),
    "append": Writer(
        ("build", "binpack-synthetic-v1", *SETS, *MORE, "--append", "--out", "{disk}/out",
         "--direct"),
        "dataset",
        ("out/*",),
    ),
    "train": Writer(
        ("train", "{made}/dataset", "--agent", "behaviour_cloning", "--steps", "20", "--out",
         "{disk}/out", "--direct"),
        "",
        TRAINING,
    ),
    "train-online": Writer(
        ("train-online", "slots-deeprm-online", *(
            word for value in ONLINE for word in ("--set", value)
        ), "--out", "{disk}/out", "--direct"),
        "",
        TRAINING,
    ),
    "evaluate": Writer(
        ("evaluate", "binpack-synthetic-v1", *SETS, "--policy", "tetris", "random", "--out",
         "{disk}/out", "--direct"),
        "",
        ("out/.evaluating/*", "out/scores.parquet"),
    ),
    "ope": Writer(
        ("ope", "{made}/dataset", "--policy", "tetris", "--estimators", "is", "snis", "--out",
         "{disk}/out", "--fqe-steps", "5"),
        "",
        ("out/.*/*", "out/truth/*", "out/estimates.parquet"),
    ),
    "report": Writer(("report", "{made}/evaluation", "--out", "{disk}/out", "--direct")),
    "run": Writer(
        ("run", "binpack-synthetic-v1", *SETS, "--out", "{disk}/out", "--direct"), "", ("out/*",)
    ),
    **{
        f"export {to}": _export(to)
        for to in ("huggingface", "croissant", "minari", "d3rlpy", "d4rl", "csv")
    },
    "export history": _export("history", "thermal"),
}  # fmt: skip


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--sizes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--writers", nargs="+", choices=list(WRITERS), default=list(WRITERS))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="full-disk-") as scratch:
        places = Places(Path(scratch))
        if not places.mountable():
            print("skipped: this user may not mount a tmpfs")
            return 0
        forks = Forks()
        try:
            _make(forks, places)
            rows = [
                row
                for name in options.writers
                for row in _attack(forks, places, name, options.sizes, options.seed)
            ]
        finally:
            forks.close()
    return reported(rows, "disks", options.out)


class Places:
    """Folders of a campaign: the disk, a folder for temporary files, and inputs."""

    def __init__(self, scratch: Path) -> None:
        self.disk, self.tmp, self.made = scratch / "disk", scratch / "tmp", scratch / "made"
        for folder in (self.disk, self.tmp, self.made):
            folder.mkdir()

    @contextmanager
    def mounted(self, size: int) -> Iterator[None]:
        """Mount an empty disk of that many bytes."""
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.disk)], check=True
        )
        try:
            yield
        finally:
            subprocess.run(["umount", "-l", str(self.disk)], check=True)

    def grow(self) -> None:
        """Give the disk room."""
        command = ["mount", "-o", f"remount,size={ROOM}", str(self.disk)]
        subprocess.run(command, check=True)

    def mountable(self) -> bool:
        """Return whether a disk can be mounted."""
        try:
            with self.mounted(ROOM):
                return True
        except (subprocess.CalledProcessError, OSError):
            return False

    def files(self, folder: Path | None = None) -> dict[str, str]:
        """Return the SHA-256 of every file on the disk."""
        return content(folder or self.disk)


def _make(forks: Forks, places: Places) -> None:
    """Make the inputs of the commands."""
    made = places.made
    _write_swf(made / "log.swf", 4000)
    _write_swf(made / "longer.swf", 6000)
    thermal = [word for value in (*THERMAL, *SPLITS) for word in ("--set", value)]
    for argv in (
        ("build", "binpack-synthetic-v1", *SETS, "--out", f"{made}/dataset", "--direct"),
        ("build", "thermal-default-v1", *thermal, "--out", f"{made}/thermal", "--direct"),
        ("export", f"{made}/thermal", "--to", "history", "--out", f"{made}/history.json"),
        ("ingest", "swf", f"{made}/log.swf", "--out", f"{made}/workload", "--direct"),
        ("evaluate", "binpack-synthetic-v1", *SETS, "--policy", "tetris", "random", "--out",
         f"{made}/evaluation", "--direct"),
    ):  # fmt: skip
        done = forks.run(argv, env={"TMPDIR": str(places.tmp)})
        if done.code:
            raise SystemExit(f"{' '.join(argv)}: {done.err}")


def _write_swf(path: Path, jobs: int) -> None:
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.integers(1, 60, jobs))
    rows = [
        f"{job} {time} 1 {length} {cpus} -1 -1 {cpus} {2 * length} -1 1 1 1 -1 -1 -1 -1 -1"
        for job, (time, length, cpus) in enumerate(
            zip(times, rng.integers(1, 900, jobs), rng.integers(1, 9, jobs), strict=True), start=1
        )
    ]
    path.write_text("\n".join(["; MaxProcs: 64", *rows, ""]))


def _run(forks: Forks, places: Places, writer: Writer) -> Outcome:
    folders = {"{disk}": str(places.disk), "{made}": str(places.made)}
    argv = list(writer.argv)
    for name, folder in folders.items():
        argv = [word.replace(name, folder) for word in argv]
    whole = argv[-3] in {"minari", "d4rl"}  # HDF5 crashed at the end of the interpreter
    return forks.run(argv, env={"TMPDIR": str(places.tmp)}, whole_exit=whole)


def _attack(
    forks: Forks, places: Places, name: str, sizes: int, seed: int
) -> Iterator[dict[str, object]]:
    started = time.monotonic()
    expected, given, need = _undisturbed(forks, places, name)
    again, _, _ = _undisturbed(forks, places, name)
    varying = {path for path in expected if again.get(path) != expected[path]}
    if varying:
        print(f"{name}: two undisturbed runs differ in {sorted(varying)}")
    rng = np.random.default_rng([seed, list(WRITERS).index(name)])
    shares = (np.arange(sizes) + rng.random(sizes)) / sizes
    wrong = 0
    for share in shares:
        size = given + max(PAGE, int(share * (need - given)) // PAGE * PAGE)
        row = _disk(forks, places, name, size, expected, varying)
        wrong += bool(row["faults"])
        if row["faults"]:
            print(f"{name} on {size} bytes: {row['faults']}")
        yield row
    seconds = time.monotonic() - started
    print(f"{name}: {sizes} sizes from {given} to {need} bytes, {wrong} wrong, {seconds:.0f} s",
          flush=True)  # fmt: skip


def _undisturbed(forks: Forks, places: Places, name: str) -> tuple[dict[str, str], int, int]:
    """Return the files of an undisturbed command, and the bytes used before and at most."""
    writer, used, done = WRITERS[name], [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            used.append(_used(places.disk))

    with places.mounted(ROOM):
        _give(places, writer)
        given = _used(places.disk)
        thread = threading.Thread(target=watch)
        thread.start()
        try:
            outcome = _run(forks, places, writer)
        finally:
            done.set()
            thread.join()
        if outcome.code:
            raise SystemExit(f"{name}: {outcome.err}")
        return places.files(), given, max(*used, _used(places.disk))


def _used(disk: Path) -> int:
    return shutil.disk_usage(disk).used


def _give(places: Places, writer: Writer) -> None:
    if writer.given:
        shutil.copytree(places.made / writer.given, places.disk / "out")


def _disk(
    forks: Forks, places: Places, name: str, size: int, expected: Mapping[str, str],
    varying: set[str],
) -> dict[str, object]:  # fmt: skip
    """Run a writer on a disk of that size, then with room; return a row of the CSV."""
    writer, faults = WRITERS[name], []

    def compare(when: str) -> None:
        found = places.files()
        if found.keys() != expected.keys():
            faults.append(f"{when}: other files: {sorted(found.keys() ^ expected.keys())}")
        common = found.keys() & expected.keys() - varying
        others = sorted(path for path in common if found[path] != expected[path])
        if others:
            faults.append(f"{when}: other bytes: {others}")

    with places.mounted(size):
        _give(places, writer)
        before = places.files()
        first = _run(forks, places, writer)
        if first.code == 0:
            compare("small disk")
        else:
            faults += _faults(first)
            left = {p for p, digest in places.files().items() if before.get(p) != digest}
            strange = [p for p in left if ".partial" in p
                       or not any(fnmatch(p, pattern) for pattern in writer.leaves)]  # fmt: skip
            lost = before.keys() - places.files().keys()
            if strange:
                faults.append(f"left: {sorted(strange)}")
            if lost:
                faults.append(f"lost: {sorted(lost)}")
        temporary = sorted({p.name for p in places.tmp.iterdir()} - {TORCH})
        if temporary:
            faults.append(f"left in TMPDIR: {temporary}")
            shutil.rmtree(places.tmp)
            places.tmp.mkdir()
        places.grow()
        second = _run(forks, places, writer)
        if second.code:
            if first.code or "exists already" not in second.err + "is not empty":
                faults.append(f"with room: exit code {second.code}: {second.err[-300:]}")
        else:
            compare("with room")
        faults += [f"with room: {line}" for line in second.stray]
    return {
        "writer": name, "size": size, "code": first.code, "line": " ".join(first.lines),
        "code_with_room": second.code, "seconds": round(first.seconds + second.seconds, 2),
        "faults": "; ".join(faults),
    }  # fmt: skip


def _faults(outcome: Outcome) -> list[str]:
    found = list(outcome.stray)
    if outcome.code != 2:
        found.append(f"exit code {outcome.code}: {outcome.err[-300:]}")
    if len(outcome.lines) != 1 or "the disk is full" not in outcome.lines[0]:
        found.append(f"lines: {outcome.lines}")
    return found


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
