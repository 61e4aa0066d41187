"""`python -m tests.benchmarks [name ...]`: run the measurements and print one table."""

import importlib
import sys

NAMES = (
    "binpack",
    "training",
    "datasets",
    "agents",
    "rules",
    "slots",
    "environments",
    "thermal",
    "deferrable",
    "grids",
    "multicluster",
    "gpupack",
    "queue",
    "deciding",
    "decisions",
    "online",
    "scaling",
    "families",
    "pages",
    "intervals",
)


def main(names: list[str]) -> None:
    for name in names or NAMES:
        module = importlib.import_module(f"tests.benchmarks.{name}")
        for what, value, unit, *beside in module.measure():
            print(f"{what:<58} {value:>10.3g} {unit:<20} {' '.join(beside)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
