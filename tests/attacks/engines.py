"""Kill workers, schedulers and commands of Dask and Ray, give the command again, compare the bytes.

    python -m tests.attacks.engines --engine dask --each 30 --seed 1 --out engines.csv

A cluster of four worker processes runs on this machine. A build, eight trainings, an evaluation and
a whole run take turns. SIGKILL hits a worker, the process that keeps the cluster together, or the
command, at a moment drawn uniformly from the second half of an undisturbed run, in which the work
is. The same command is then given until it ends. What is there must have the bytes of the
undisturbed run, and nothing else may be left.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.attacks.forks import reported
from tests.attacks.kills import last_line, prepare
from tests.attacks.processes import RECIPE, SMALL, content, differences, load, start
from tests.engines.clusters import ENGINES, Cluster, kill

_VICTIMS: Final = ("worker", "scheduler", "command")
_SEEDS: Final = tuple(map(str, range(8)))
_COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "build": ("build", RECIPE, *SMALL, "--out", "demo"),
    "train": (
        "train", "demo", "--agent", "behaviour_cloning", "--seeds", *_SEEDS, "--steps", "400",
        "--out", "agents",
    ),
    "evaluate": ("evaluate", RECIPE, *SMALL, "--policy", "tetris", "rollout", "--out", "scores"),
    "run": ("run", RECIPE, *SMALL, "--out", "run"),
}  # fmt: skip
_TRIES: Final = 4
_LATER_S: Final = 45.0  # a worker whose command was killed may finish the item that it has begun
_ENVIRONMENT: Final = {
    "RAY_AUTH_MODE": "disabled",
    # As Dask and Ray set them for their workers; they enter provenance.json.
    "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A command, the folder that it begins with, and what an undisturbed run of it gives."""

    name: str
    before: Path | None
    expected: Mapping[str, str]
    took_s: float


def argv(name: str, engine: str, cluster: Cluster) -> tuple[str, ...]:
    """Return the words of a command that uses the cluster."""
    return (*_COMMANDS[name], "--runner", engine, "--address", cluster.address)


def without_addresses(found: Mapping[str, str]) -> dict[str, str]:
    """Leave out the files that hold the command line, which names the port of the cluster."""
    last = ("evaluation.json", "results.csv", "results.md", "report.html", "run.json")
    return {
        name: digest for name, digest in found.items()
        if not name.endswith(last) and name != "run/provenance.json"
    }  # fmt: skip


def undisturbed(name: str, engine: str, cluster: Cluster, before: Path | None, place: Path) -> Kind:
    """Run a command in this process and on the cluster; both must give the same bytes."""
    found: list[dict[str, str]] = []
    took_s = 0.0
    for words in ((*_COMMANDS[name], "--direct"), *[argv(name, engine, cluster)] * 2):
        folder = place / f"{name}-{len(found)}"
        prepare(folder, before)
        ended = start(words, folder, place / "log.txt").wait()
        if ended.code:
            raise SystemExit(f"{name}: the undisturbed run failed:\n{ended.output}")
        found.append(without_addresses(content(folder)))
        took_s = ended.took_s
    if more := differences(found[1], found[0]) + differences(found[2], found[0]):
        raise SystemExit(f"{name}: other bytes on {engine} than in one process: {more[:5]}")
    print(f"{name}: {took_s:.1f} s on {engine}, {len(found[0])} files", flush=True)
    return Kind(name, before, found[0], took_s)


def attack(
    kind: Kind, victim: str, engine: str, cluster: Cluster, rng: np.random.Generator, place: Path
) -> dict[str, Any]:
    """Kill a process while a command runs, give the command again, and return what was found."""
    folder, log = place / "trial", place / "log.txt"
    prepare(folder, kind.before)
    moment, faults = float(rng.uniform(0.5, 1.0)) * kind.took_s, list[str]()
    begun = start(argv(kind.name, engine, cluster), folder, log)
    time.sleep(moment)
    if victim == "command":
        ended, hit = begun.kill(), 1
    else:
        targets = cluster.at_work() if victim == "worker" else [cluster.scheduler()]
        early = None  # Ray starts workers when it needs them, and ends them soon after
        while not targets and (early := begun.poll()) is None:
            time.sleep(0.05)
            targets = cluster.at_work()
        hit = len(targets[:1])
        if targets:
            kill(targets[int(rng.integers(len(targets)))])
        ended = early or begun.wait()
    codes = [ended.code]
    if victim == "worker" and ended.code:
        faults.append(f"a worker that is killed ends the command: {last_line(ended)}")
    if "Traceback" in ended.output:
        faults.append("traceback")
    if victim == "scheduler":
        cluster.stop()
        cluster.start()
    said = last_line(ended)
    for _ in range(_TRIES):
        ended = start(argv(kind.name, engine, cluster), folder, log).wait()
        codes.append(ended.code)
        if "Traceback" in ended.output:
            faults.append("given again: traceback")
        if not ended.code:
            break
    else:
        faults.append(f"given again: {last_line(ended)}")
    faults += settled(folder, kind.expected)
    return {
        "engine": engine, "victim": victim, "command": kind.name, "moment_s": round(moment, 2),
        "of_s": round(kind.took_s, 2), "hit": hit, "codes": " ".join(map(str, codes)),
        "said": said, "faults": "; ".join(faults),
    }  # fmt: skip


def settled(folder: Path, expected: Mapping[str, str]) -> list[str]:
    """Return how the files differ, once workers have ended what a killed command had begun."""
    limit = time.monotonic() + _LATER_S
    while more := differences(without_addresses(content(folder)), dict(expected)):
        if time.monotonic() > limit:
            return more
        time.sleep(1.0)
    return []


def main() -> int:
    """Run the campaign and return 0 if nothing was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine", choices=tuple(ENGINES), required=True)
    parser.add_argument("--each", type=int, default=30, help="kills of each kind of process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    os.environ.update(_ENVIRONMENT)
    rng, rows = np.random.default_rng(arguments.seed), list[dict[str, Any]]()
    load()
    cluster: Cluster = ENGINES[arguments.engine]()
    try:
        with tempfile.TemporaryDirectory(prefix="hindcast-engines-") as scratch:
            place = Path(scratch)
            os.environ["PREFECT_HOME"] = str(place / "prefect")
            kinds = []
            for name in [*_COMMANDS][: arguments.each]:
                before = place / "build-0" if name == "train" else None
                kinds.append(undisturbed(name, arguments.engine, cluster, before, place))
            for number in range(arguments.each):
                for victim in _VICTIMS:
                    kind = kinds[number % len(kinds)]
                    row = attack(kind, victim, arguments.engine, cluster, rng, place)
                    rows.append(row)
                    print(row, flush=True)
                reported(rows, "processes killed", arguments.out)
    finally:
        cluster.close()
    return reported(rows, "processes killed", arguments.out)


if __name__ == "__main__":
    sys.exit(main())
