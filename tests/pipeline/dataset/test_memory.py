"""Tests that reading a dataset takes a small part of the memory that its decisions would take.

The dataset has more than 500 MB as arrays of candidates, in row groups of 4 MB. A fresh process
first reads a tiny dataset in the same ways, so that code and compiled kernels are in memory. The
tests then limit the growth of the peak of its resident memory to a quarter of the dataset, so
memory that grows with the dataset would be noticed.
"""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building import parts as recording
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.policies.registry import behaviours

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
LARGE = (
    "trace.settings.n_jobs=150",
    "trace.settings.instances_scale=0.3",
    "config.jobs_per_window=25",
    "config.machines=40",
    'split.train="0..2"',
    'split.validation="3..3"',
    'split.test="4..5"',
)
SHARE = 0.25
SCRIPT = """
import json, resource, sys
import numpy as np
import polars as pl
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.decisions import Columns
from hindcast.pipeline.dataset.sampling import sample_decisions

def minibatches(dataset):
    buffer = 32 << 20
    return sum(len(b) for b in dataset.batches(256, np.random.default_rng(0), k=8, buffer=buffer))

def sampled(dataset):
    rng = np.random.default_rng(0)
    return len(sample_decisions(dataset, "train", rng, Columns(8), limit=20_000))

def whole(dataset):
    return sum(len(episode) for episode in dataset.iter_episodes("train"))

def lazy(dataset):
    feasible = pl.col("next_feasible").list.len()
    query = dataset.transitions("train").select(pl.len(), feasible.max().alias("most"))
    return query.collect(engine="streaming")["len"].item()

found = {}
for folder in sys.argv[1:]:
    for read in (minibatches, sampled, whole, lazy):
        found[read.__name__] = read(ds.open(folder))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found.setdefault("before", peak)
print(json.dumps({**found, "after": peak}))
"""


@pytest.fixture(scope="module")
def large_dataset(tmp_path_factory):
    """Return a dataset whose row groups are small beside it, as in a really large dataset."""
    folder = tmp_path_factory.mktemp("large") / "dataset"
    recipe = load_recipe("binpack-synthetic-v1", LARGE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "LOG_CANDIDATES", 150_000)
        build(recipe, behaviours(recipe), folder)
    return folder


def candidate_bytes(part):
    """Return the bytes of a part's candidates as float32 arrays, from its footer."""
    footer = pq.read_metadata(part)
    columns = [
        footer.row_group(g).column(c)
        for g in range(footer.num_row_groups)
        for c in range(footer.num_columns)
    ]
    return 4 * sum(c.num_values for c in columns if c.path_in_schema.startswith("candidates."))


@pytest.mark.nightly
def test_reading_stays_small(large_dataset, tiny_dataset):
    """Memory stays small for minibatches, a sample, whole episodes and a lazy query in turn."""
    dataset = ds.open(large_dataset)
    size = sum(map(candidate_bytes, map(dataset.part, range(len(dataset.manifest.parts)))))
    assert size > 500e6
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tiny_dataset), str(large_dataset)],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    found = json.loads(run.stdout)
    steps = int(dataset.episodes("train")["steps"].sum())
    assert found["minibatches"] == found["whole"] == found["lazy"] == steps
    assert found["sampled"] == 20_000
    assert found["after"] - found["before"] < SHARE * size, f"of {size / 1e6:.0f} MB"
