"""Run commands at the same time in one folder, and compare with running them one after another.

    python -m tests.attacks.pairs --seed 1 --fours 20 --out pairs.json

Every pair of build, append, verify, evaluate, run and export starts at once, in an empty folder and
in one with a finished dataset; then groups of four that are drawn. A command may succeed (0) or
refuse (2). Afterwards the dataset is verified if there is one, the commands are given one after
another, and the files must be those of commands that were never run at once.
"""

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.attacks.kills import last_line, prepare
from tests.attacks.processes import RECIPE, SMALL, content, differences, leftovers, load, start

_BUILD: Final = ("build", RECIPE, *SMALL, "--out", "demo/dataset", "--direct")
_MORE: Final = ("--set", 'behaviours=[{policy="random",episodes=3}]', "--append")
COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "build": _BUILD,
    "append": (*_BUILD, *_MORE),
    "verify": ("verify", "demo/dataset"),
    "evaluate": ("evaluate", RECIPE, *SMALL, "--out", "demo/evaluation", "--direct"),
    "run": ("run", RECIPE, *SMALL, "--out", "demo", "--direct"),
    "export": ("export", "demo/dataset", "--to", "csv", "--out", "csv"),
}
_FINISH: Final = ("build", "append", "run")  # what makes the folder the same, whatever it was


def together(names: Sequence[str], folder: Path, logs: Path) -> list[str]:
    """Start commands at once and return what is wrong with how they ended."""
    begun = [start(COMMANDS[n], folder, logs / f"log{i}.txt") for i, n in enumerate(names)]
    faults = []
    for name, command in zip(names, begun, strict=True):
        ended = command.wait()
        if not ended.is_clean:
            faults.append(f"{name}: exit code {ended.code}: {last_line(ended)}")
    return faults


def attack(
    names: Sequence[str], before: Path | None, expected: Mapping[str, str],
    exports: Sequence[Mapping[str, str]], place: Path,
) -> dict[str, Any]:  # fmt: skip
    """Run commands at once, then finish the folder, and return what was found."""
    folder = place / "trial"
    prepare(folder, before)
    faults = together(names, folder, place)
    if (folder / "demo" / "dataset" / "manifest.json").exists():
        faults += [f"afterwards: {fault}" for fault in together(["verify"], folder, place)]
    if (folder / "csv").exists() and content(folder / "csv") not in exports:
        faults.append("export: neither that of the dataset before an append nor after it")
    left = list(leftovers(folder))
    for name in _FINISH:
        faults += [f"then: {fault}" for fault in together([name], folder, place)]
    faults += differences(content(folder / "demo"), dict(expected))
    left += [f"at the end: {name}" for name in leftovers(folder)]
    state = "empty" if before is None else "built"
    return {"commands": list(names), "folder": state, "faults": faults, "left": left}


def one_by_one(names: Sequence[str], folder: Path, place: Path) -> Path:
    """Give commands one after another in a new folder, which is returned."""
    prepare(folder, None)
    for name in names:
        if faults := together([name], folder, place):
            raise SystemExit(f"one after another: {faults}")
    return folder


def main() -> int:
    """Run the campaign and return 0 if nothing was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fours", type=int, default=12, help="groups of four commands")
    parser.add_argument("--pairs", type=int, default=None, help="pairs at most (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rng, rows = np.random.default_rng(arguments.seed), []
    load()
    with tempfile.TemporaryDirectory(prefix="hindcast-pairs-") as scratch:
        place = Path(scratch)
        built = one_by_one(["build", "export"], place / "built", place)
        both = one_by_one(["build", "append", "export"], place / "both", place)
        exports = [content(built / "csv"), content(both / "csv")]
        finished = one_by_one(_FINISH, place / "finished", place)
        expected = content(finished / "demo")
        start_with = one_by_one(["build"], place / "start", place)
        groups = list(itertools.combinations_with_replacement(COMMANDS, 2))
        if arguments.pairs is not None:
            drawn = rng.permutation(len(groups))[: arguments.pairs]
            groups = [groups[i] for i in drawn]
        groups += [tuple(rng.choice(list(COMMANDS), 4).tolist()) for _ in range(arguments.fours)]
        for names in groups:
            for before in (None, start_with):
                row = attack(names, before, expected, exports, place)
                rows.append(row)
                if row["faults"] or row["left"]:
                    print(json.dumps(row), flush=True)
    bad = sum(bool(row["faults"] or row["left"]) for row in rows)
    result = {"seed": arguments.seed, "groups": len(rows), "bad": bad, "rows": rows}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{len(rows)} groups of commands at once, {bad} bad: {arguments.out}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
