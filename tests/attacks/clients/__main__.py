"""Read five datasets with other people's libraries, in an environment without this project.

    python -m tests.attacks.clients --out FOLDER

Datasets are built and exported below FOLDER, always under the name `dataset`, as `hindcast run`
does. A virtual environment with the clients alone is made in FOLDER/env. There one process reads
all exports with one cache and prints rows and sums per client, which are compared with those of
this project's own reader. The exit code is 1 if any differ.
"""

import argparse
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import polars as pl

from hindcast.pipeline.dataset import open as open_dataset
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.exports import export
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.policies.registry import behaviours

CLIENTS = ("datasets", "polars", "duckdb", "mlcroissant", "minari[hdf5]", "pillow", "gymnasium")
# The second differs from the first in its seed only.
DATASETS = {
    "binpack": ("binpack-synthetic-v1", ("trace.settings={n_jobs=80,instances_scale=0.02}",)),
    "binpack-seed": (
        "binpack-synthetic-v1",
        ("trace.settings={n_jobs=80,instances_scale=0.02}", "seed=8"),
    ),
    "slots": ("slots-deeprm-v1", ("config.steps=10",)),
    "multicluster": ("multicluster-beta-v1", ("config.jobs_mean=10",)),
    "thermal": ("thermal-default-v1", ("config.jobs=30", "config.steps=50")),
}
SPLITS = ('split.train="0..1"', 'split.validation="2..2"', 'split.test="3..3"')
FORMATS = ("huggingface", "minari")
READER = Path(__file__).with_name("read.py")


def make(folder: Path, recipe: str, settings: tuple[str, ...]) -> dict[str, float]:
    """Build one dataset and its exports, and return rows and sums by this project's reader."""
    loaded = load_recipe(recipe, (*settings, *SPLITS))
    dataset_folder = folder / "own" / "dataset"
    build(loaded, behaviours(loaded), dataset_folder)
    for name in FORMATS:
        export(dataset_folder, name, folder / name / "dataset", split="all")
    dataset = open_dataset(dataset_folder)
    rows = pl.concat(
        pl.read_parquet(dataset_folder / part.path, columns=["choice", "reward"])
        for part in dataset.manifest.parts
    )
    return {
        "rows": rows.height,
        "decisions": rows["choice"].drop_nulls().len(),
        "choice": float(rows["choice"].sum()),
        "reward": float(rows["reward"].sum()),
    }


def main() -> int:
    """Make datasets and environment, run the clients, and compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks.clients")
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    out = parser.parse_args().out.absolute()
    out.mkdir(parents=True)
    expected = {name: make(out / name, *how) for name, how in DATASETS.items()}
    (out / "expected.json").write_text(json.dumps(expected, indent=2), encoding="utf-8")
    venv.create(out / "env", with_pip=True)
    python = out / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *CLIENTS], check=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    clean |= {"HF_HOME": str(out / "cache"), "HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(out)}
    done = subprocess.run(
        [python, READER, out], check=True, env=clean, cwd=out / "env", stdout=subprocess.PIPE
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
    different = 0
    for line in found:
        name, client = line.pop("dataset"), line.pop("client")
        wanted = {key: expected[name][key] for key in line}
        equal = all(abs(line[k] - v) <= 1e-9 * max(1.0, abs(v)) for k, v in wanted.items())
        different += not equal
        print(f"{'equal' if equal else 'DIFFERENT'}  {name:14}{client:20} {line}")
    print(f"{len(found)} readings, {different} different")
    return 1 if different or not found else 0


if __name__ == "__main__":
    sys.exit(main())
