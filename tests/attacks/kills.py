"""Kill commands at random moments, give them again until they end, and compare the bytes.

    python -m tests.attacks.kills --builds 100 --appends 40 --trainings 40 --online 20 --runs 20 \
        --exports 40 --seed 1 --out kills.json

A command is killed (SIGKILL) one to three times, each time at a moment drawn uniformly from the
time that an undisturbed run takes, and then given again until it ends. What it wrote must have the
bytes of the undisturbed run, and nothing else may be left.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.attacks.processes import (
    RECIPE,
    SMALL,
    Ended,
    content,
    differences,
    leftovers,
    load,
    start,
)

_FORMATS: Final = ("huggingface", "csv", "d3rlpy", "d4rl", "croissant", "minari")
_ONLINE: Final = (
    "slots-deeprm-online", "--iterations", "4",
    "--set", 'split.train="0..1"', "--set", 'split.validation="2..2"',
    "--set", "online.settings.sampling.trajectories=2",
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A command to kill, the folder it begins with, and what an undisturbed run of it gives."""

    name: str
    argv: tuple[str, ...]
    before: Path | None
    expected: Mapping[str, str]
    took_s: float


def undisturbed(name: str, argv: Sequence[str], before: Path | None, place: Path) -> Kind:
    """Run a command once, and return it with its result. The second of two runs is measured."""
    results = []
    for number in range(2):
        folder = place / f"{name}-{number}"
        prepare(folder, before)
        ended = start(argv, folder, place / "log.txt").wait()
        if ended.code:
            raise SystemExit(f"{name}: the undisturbed run failed:\n{ended.output}")
        results.append((content(folder), ended.took_s))
    if more := differences(results[0][0], results[1][0]):
        print(f"note: {name}: two undisturbed runs differ: {more[:5]}", file=sys.stderr)
    return Kind(name, tuple(argv), before, *results[1])


def prepare(folder: Path, before: Path | None) -> None:
    """Make the folder that a command begins with."""
    shutil.rmtree(folder, ignore_errors=True)
    if before is None:
        folder.mkdir()
    else:
        shutil.copytree(before, folder)


def attack(kind: Kind, rng: np.random.Generator, folder: Path, log: Path) -> dict[str, Any]:
    """Kill a command one to three times, finish it, and return what was found."""
    prepare(folder, kind.before)
    moments, faults = [], []
    for _ in range(int(rng.integers(1, 4))):
        moment = float(rng.uniform(0.0, kind.took_s))
        begun = start(kind.argv, folder, log)
        time.sleep(moment)
        ended = begun.kill()
        moments.append(round(moment, 4))
        if ended.code not in {-9, 0} and not is_whole(kind, folder, ended):
            faults.append(f"exit code {ended.code}: {last_line(ended)}")
    ended = start(kind.argv, folder, log).wait()
    found = content(folder)
    if ended.code and not is_whole(kind, folder, ended):
        faults.append(f"given again: exit code {ended.code}: {last_line(ended)}")
    if "Traceback" in ended.output:
        faults.append("given again: traceback")
    faults += differences(found, dict(kind.expected))
    left = [name for name in leftovers(folder) if name not in kind.expected]
    return {"kind": kind.name, "killed_s": moments, "faults": faults, "left": left}


def is_whole(kind: Kind, folder: Path, ended: Ended) -> bool:
    """Return whether an export refused to write again what the killed one had finished."""
    return (
        kind.name.startswith("export")
        and ended.code == 2
        and not differences(content(folder), dict(kind.expected))
    )


def last_line(ended: Ended) -> str:
    """Return the last line of an output."""
    return (ended.output.strip().splitlines() or [""])[-1][:300]


def kinds(wanted: set[str], place: Path) -> dict[str, list[Kind]]:
    """Return the commands of each group, with their undisturbed results."""
    build = ("build", RECIPE, *SMALL, "--out", "demo", "--direct")
    first = undisturbed("build", build, None, place)
    dataset = place / "build-1"
    policy = ("--set", 'behaviours=[{policy="random",episodes=3}]', "--append")
    found = {"builds": [first]}
    if "appends" in wanted:
        found["appends"] = [undisturbed("append", (*build, *policy), dataset, place)]
    if "trainings" in wanted:
        train = ("train", "demo", "--agent", "cql", "--steps", "60", "--checkpoint-every", "20")
        argv = (*train, "--out", "agent", "--direct")
        found["trainings"] = [undisturbed("train", argv, dataset, place)]
    if "online" in wanted:
        argv = ("train-online", *_ONLINE, "--out", "agent", "--direct")
        found["online"] = [undisturbed("train-online", argv, None, place)]
    if "runs" in wanted:
        argv = ("run", RECIPE, *SMALL, "--out", "demo", "--direct")
        found["runs"] = [undisturbed("run", argv, None, place)]
    if "exports" in wanted:
        found["exports"] = [
            undisturbed(
                f"export {to}", ("export", "demo", "--to", to, "--out", "o"), dataset, place
            )
            for to in _FORMATS
        ]
    return found


def main() -> int:
    """Run the campaign and return 0 if nothing was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    groups = ("builds", "appends", "trainings", "online", "runs", "exports")
    for name in groups:
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    wanted = {name: getattr(arguments, name) for name in groups if getattr(arguments, name)}
    rng, rows = np.random.default_rng(arguments.seed), []
    load()
    with tempfile.TemporaryDirectory(prefix="hindcast-kills-") as scratch:
        place = Path(scratch)
        known = kinds(set(wanted), place)
        for group, count in wanted.items():
            for number in range(count):
                kind = known[group][number % len(known[group])]
                row = attack(kind, rng, place / "trial", place / "log.txt")
                rows.append({"number": number, **row})
                if row["faults"] or row["left"]:
                    print(json.dumps(rows[-1]), flush=True)
        took = {k.name: round(k.took_s, 3) for group in known.values() for k in group}
    bad = [row for row in rows if row["faults"] or row["left"]]
    counts = Counter(row["kind"] for row in rows)
    kills = sum(len(row["killed_s"]) for row in rows)
    result = {
        "seed": arguments.seed, "undisturbed_s": took, "trials": dict(counts), "kills": kills,
        "bad": len(bad), "rows": rows,
    }  # fmt: skip
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{len(rows)} commands killed {kills} times, {len(bad)} bad: {arguments.out}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
