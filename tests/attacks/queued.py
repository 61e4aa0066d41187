"""Queue hundreds of flow runs on one server, let workers run them, and see whether all end.

    python -m tests.attacks.queued --runs 200 --workers 2 --limit 2 --out queued.csv

Every run ingests a small trace. All are created first; then the workers start. `--setting` adds a
setting of Prefect, such as `PREFECT_API_DATABASE_CONNECTION_URL=...`. A row is the last state of a
run, the seconds from the start of the workers to its end, and whether its workload was written.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.attacks.deployment import ENDED, Deployment, deployed
from tests.attacks.forks import reported
from tests.flows.test_deployment import write_log

LIMIT_S: Final = 3600.0
STALLED_S: Final = 300.0  # without a run that ends
PAGE: Final = 200  # flow runs of one answer of the server


def states(site: Deployment) -> dict[str, str]:
    """Return the states of all flow runs."""
    found: dict[str, str] = {}
    while True:
        body = {"limit": PAGE, "offset": len(found), "sort": "ID_DESC"}
        page = site.ask("/flow_runs/filter", body)
        found |= {run["id"]: run["state_type"] for run in page}
        if len(page) < PAGE:
            return found


def ends(site: Deployment, runs: int) -> dict[str, float]:
    """Wait until all runs have ended or none has for a while; return seconds by run."""
    began, last = time.monotonic(), time.monotonic()
    ended: dict[str, float] = {}
    while len(ended) < runs:
        now = time.monotonic()
        if now - began > LIMIT_S or now - last > STALLED_S:
            break
        for run, state in states(site).items():
            if state in ENDED and run not in ended:
                ended[run], last = now - began, now
        time.sleep(2.0)
    return ended


def main() -> int:
    """Run the campaign and return 0 if all runs completed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=int, default=2, help="flow runs of a worker at a time")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    settings = dict(given.split("=", 1) for given in options.setting)
    with tempfile.TemporaryDirectory(prefix="hindcast-queued-") as scratch:
        place = Path(scratch)
        write_log(place / "day.swf", np.random.default_rng(1))
        with deployed(place, 0, options.limit, settings) as site:
            given = {"trace_format": "swf", "path": str(place / "day.swf")}
            began = time.monotonic()
            folders = [place / "workloads" / str(number) for number in range(options.runs)]
            runs = [site.give("ingest", {**given, "out": str(out)}) for out in folders]
            print(f"{len(runs)} runs created in {time.monotonic() - began:.1f} s", flush=True)
            for number in range(options.workers):
                site.start(f"worker-{number}")
            ended, last = ends(site, len(runs)), states(site)
            for number, (run, out) in enumerate(zip(runs, folders, strict=True)):
                written = (out / "manifest.json").is_file()
                good = last[run] == "COMPLETED" and written
                rows.append({
                    "number": number, "state": last[run], "ended_s": f"{ended.get(run, -1):.0f}",
                    "written": written, "faults": "" if good else "not completed and written",
                })  # fmt: skip
            for log in sorted(place.glob("*.log")):
                said = log.read_text(errors="replace")
                print(f"{log.stem}: {said.count('OperationalError) database is locked')} times "
                      f"'database is locked', {said.count(' 503 ')} times 503")  # fmt: skip
    print(f"{len(ended)} of {len(runs)} runs ended in {max(ended.values(), default=0.0):.0f} s")
    return reported(rows, "runs", options.out)


if __name__ == "__main__":
    sys.exit(main())
