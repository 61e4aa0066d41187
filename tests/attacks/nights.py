"""Kill the flow, the worker and the server of `nightly`, give it again, and compare the bytes.

    python -m tests.attacks.nights --kills 20 --seed 1 --out nights.csv

One of the three processes gets SIGKILL at a moment drawn uniformly from the time that an
undisturbed night takes, from the creation of its run to its end. What was killed is started again,
and a second run gets the same parameters. It has to end as Completed, with the files of the
undisturbed night and no others. The work pool runs one flow at a time and the tag `training` has
one place, so a run that is gone and still holds a place is found as well.

A row is written after every kill. Given again with the same seed and file, the campaign continues
after the last row. The checkout must not change meanwhile: provenance.json names its commit, and
whether files differ from it.
"""

import argparse
import contextlib
import csv
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.attacks.deployment import ENDED, POOL, Deployment, deployed
from tests.attacks.forks import reported, save
from tests.attacks.processes import content, differences, leftovers
from tests.flows.test_deployment import DAY, SMALL, call, write_log

VICTIMS: Final = ("flow", "worker-0", "server")
LIMIT_S: Final = 600.0  # for a run; a run that is gone may hold its place for five minutes
AWAY_S: Final = 5.0  # the longest time until a killed worker or server is started again
TRAINED: Final = ('train.agents=["behaviour_cloning"]', "train.steps=60", "train.seeds=[0]")


def parameters(place: Path) -> dict[str, Any]:
    """Return the parameters of the night."""
    settings = [each for each in SMALL if not each.startswith("train.agents")]
    return {
        "recipe": "queue-kth-v1", "out": str(place / "nights"), "date": DAY,
        "overrides": [*settings, *TRAINED], "trace": str(place / "{date}.swf"),
    }  # fmt: skip


def undisturbed(site: Deployment, given: Mapping[str, Any]) -> tuple[dict[str, str], float]:
    """Return the files of a night that is not disturbed, and how long it takes.

    The second of two nights is measured; both have to write the same.
    """
    found: list[dict[str, str]] = []
    took_s = 0.0
    for _ in range(2):
        shutil.rmtree(given["out"], ignore_errors=True)
        began = time.monotonic()
        run = site.give("nightly", given)
        if (state := site.wait(run, LIMIT_S)) != "COMPLETED":
            raise SystemExit(f"the undisturbed night is {state}, see {site.place}")
        took_s = time.monotonic() - began
        found.append(content(Path(given["out"])))
    if more := differences(*found):
        raise SystemExit(f"two undisturbed nights differ: {more[:5]}")
    return found[1], took_s


def strike(site: Deployment, victim: str, run: str) -> bool:
    """Kill the process; return False if the run had ended before it had a process."""
    if victim != "flow":
        site.kill(victim)
        return True
    while not (family := site.flows()):
        if site.state(run) in ENDED:
            return False
        time.sleep(0.05)
    for process in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return True


def attack(
    site: Deployment, given: Mapping[str, Any], number: int, rng: np.random.Generator,
    expected: Mapping[str, str], took_s: float,
) -> dict[str, Any]:  # fmt: skip
    """Kill a process of a night, give the night again, and return what was found."""
    out, victim = Path(given["out"]), VICTIMS[number % len(VICTIMS)]
    moment, away = float(rng.uniform(0.0, took_s)), float(rng.uniform(0.0, AWAY_S))
    shutil.rmtree(out, ignore_errors=True)
    run = site.give("nightly", given)
    time.sleep(moment)
    struck = strike(site, victim, run)
    files = sum(path.is_file() for path in out.rglob("*"))
    if victim not in site.processes and victim != "flow":
        time.sleep(away)
        site.start(victim)
    began = time.monotonic()
    again = site.give("nightly", given)
    state = site.wait(again, LIMIT_S)
    again_s = time.monotonic() - began
    faults = [] if state == "COMPLETED" else [f"given again: {state} after {again_s:.0f} s"]
    first = site.wait(run, LIMIT_S)
    if first not in ENDED:
        faults.append(f"the first run is still {first}")
    if len(list(out.glob("*/report.html"))) != 1:
        faults.append("not one report")
    faults += differences(content(out), dict(expected))
    left = [name for name in leftovers(out) if name not in expected]
    faults += [f"left: {name}" for name in left]
    for process in (run, again):  # none may hold a place in the next trial
        if site.state(process) not in ENDED:
            site.ask(f"/flow_runs/{process}/set_state", {"state": {"type": "CRASHED"}})
    return {
        "number": number, "victim": victim if struck else "none", "moment_s": f"{moment:.2f}",
        "away_s": f"{away:.2f}", "files_then": files, "first_run": first, "second_run": state,
        "again_s": f"{again_s:.1f}", "files": len(expected), "faults": "; ".join(faults),
    }  # fmt: skip


def main() -> int:
    """Run the campaign and return 0 if nothing was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if options.out.exists():
        with options.out.open(newline="") as file:
            rows = list(csv.DictReader(file))
    with tempfile.TemporaryDirectory(prefix="hindcast-nights-") as scratch:
        place = Path(scratch)
        write_log(place / f"{DAY}.swf", np.random.default_rng(1))
        with deployed(place) as site:
            call("concurrency-limit", "create", "training", "1", env=site.env)
            call("work-pool", "set-concurrency-limit", POOL, "1", env=site.env)
            given = parameters(place)
            expected, took_s = undisturbed(site, given)
            print(f"an undisturbed night: {took_s:.1f} s, {len(expected)} files", flush=True)
            for number in range(len(rows), options.kills):
                rng = np.random.default_rng([options.seed, number])
                rows.append(attack(site, given, number, rng, expected, took_s))
                save(rows, options.out)
                print(*rows[-1].values(), flush=True)
    return reported(rows, "kills", options.out)


if __name__ == "__main__":
    sys.exit(main())
