"""Small clusters and lists of pods for tests of `gpupack`."""

import numpy as np
import polars as pl

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.gpupack import layout as m
from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
from hindcast.pipeline.simulation.arrays import begin_episode
from hindcast.pipeline.simulation.policy import best_feasible
from hindcast.pipeline.workloads.schema import Provenance, Workload
from hindcast.policies.heuristics import heuristics
from tests.pipeline.scenarios.gpupack.plain_gpupack import PlainPod

SCENARIO = load_scenario("gpupack")
RULES = heuristics("gpupack")
PUBLISHED_RULES = ("dot_product", "clustering", "packing", "best_fit", "fgd")


def workload_of(pods, times=None):
    """Return a workload of PlainPods; `times` are (submit, duration) in seconds."""
    rows = [(p.cpu, p.memory, p.number, p.milli, p.spec) for p in pods]
    names = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
    table = pl.DataFrame(rows, schema=list(names), orient="row").with_columns(
        job_id=pl.format("pod-{}", pl.int_range(pl.len()).cast(pl.String).str.zfill(5)),
        submit_s=pl.Series([float(t[0]) for t in times or [(0, 0)] * len(pods)]),
        duration_s=pl.Series([float(t[1]) for t in times or [(0, 1)] * len(pods)]),
        ends=pl.lit(times is not None),
    )
    return Workload(table, Provenance("pods"))


def drawn_pods(seed, count=60):
    """Return pods of all kinds, some of them bound to models."""
    rng = np.random.default_rng(seed)
    kinds = [
        PlainPod(
            int(rng.integers(1, 9)) * 1000, int(rng.integers(1, 9)) * 1024,
            milli if number == 1 else 1000 * (number > 0), number,
            str(rng.choice(["", "", "", "A", "B", "A|B", "A|B|B"])) if number else "",
        )
        for number in (0, 1, 1, 1, 1, 2, 4)
        for milli in [int(rng.choice([1000, 810, 460, 230]))]
    ]  # fmt: skip
    return [kinds[i] for i in rng.integers(0, len(kinds), count)]


def instance_of(config, workload, seed=0):
    return SCENARIO.instance(config, "allocated", workload, seed, np.random.default_rng(seed))


class Player:
    """An episode, played decision by decision."""

    def __init__(self, config, instance):
        self.spec = SCENARIO.spec(config, "allocated")
        self.memory = begin_episode(self.spec, instance)
        self.ints, self.floats = self.memory.ints, self.memory.floats
        self.outputs = np.zeros(4)
        self.over = False

    def block(self, at, length):
        return self.ints[self.ints[at] : self.ints[at] + length]

    def look(self):
        """Return the rows of the present observation as a dict of columns."""
        n = SCENARIO.observe(*self.memory)
        names = [feature.name for feature in self.spec.candidates]
        return {name: self.memory.candidates[:n, i] for i, name in enumerate(names)}

    def place(self, row):
        """Return the node and the GPU of a row."""
        one = self.block(m.ROW_CLASS_AT, self.ints[m.ROWS])[row]
        return int(self.ints[self.ints[m.HEAD_AT] + one]), int(
            self.block(m.ROW_GPU_AT, self.ints[m.ROWS])[row]
        )

    def best(self, rule):
        n = self.ints[m.ROWS]
        scores = np.zeros(n)
        RULES[rule].score(
            self.memory.context, self.memory.candidates, self.memory.feasible, np.zeros(0), scores
        )
        return int(best_feasible(scores, self.memory.feasible)), scores

    def act(self, row):
        status = SCENARIO.step(self.ints, self.floats, row, self.outputs)
        assert status >= 0
        self.over = status != 0


def small_config(**settings):
    return GpupackConfig(
        nodes=("3x16x32Gx4:A", "2x24x64Gx2:B", "1x32x64Gx8:B"), compat="simulator", **settings
    )
