"""Ask of the log of a batch system whether another order of its jobs would be better.

    python examples/your_log.py OUT LOG.swf

`hindcast whatif LOG.swf --out OUT` makes the same page. The last line is a recipe, for a dataset of
the decisions in this log.
"""

import sys
from pathlib import Path

import hindcast


def main(out: Path, log: str) -> None:
    """Read the log, play it under other policies, and print what can be concluded."""
    read = hindcast.ingest("swf", log, out / "workload")
    jobs, provenance = read.workload.tasks.height, read.workload.provenance
    print(f"{jobs:,} jobs; left out: {dict(provenance.left_out) or 'none'}")

    found = hindcast.whatif(read.folder, out / "page", policies=["f2_easy"])
    for line in (*found.warnings, *found.lines):
        print(line)
    print(found.page)

    proposed = hindcast.init(read.folder, out / "recipe.toml", scenario="queue")
    print(f"recipe for a dataset of this log: {proposed.file}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
