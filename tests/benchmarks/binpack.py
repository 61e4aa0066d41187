"""Speed of `binpack` on the real workload: placements, recorded decisions, a small evaluation."""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.gymnasium_env.single import SchedulingEnv
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.workloads.schema import Workload
from hindcast.policies.heuristics.binpack import HEURISTICS
from hindcast.policies.registry import behaviours
from tests.benchmarks import packing_in_simpy

SIMULATED = range(0, 40, 4)  # windows that are also simulated in SimPy
Row = tuple[str, float, str, str]


def measure() -> list[Row]:
    """Return rows of (quantity, value, unit, comparison)."""
    recipe = load_recipe("binpack-alibaba2017-v1")
    try:
        workload = load_source(recipe)
    except TraceError:
        return [("binpack: no real trace, see HINDCAST_TRACES", float("nan"), "", "")]
    return [*_placements(workload), *_recorded(), *_commands(), *_adaptor()]


def _placements(workload: Workload) -> list[Row]:
    scenario = load_scenario("binpack")
    config = scenario.config()
    spec = scenario.spec(config, "makespan")
    instances = [
        scenario.instance(config, "makespan", workload, w, np.random.default_rng(0))
        for w in range(scenario.windows(config, workload))
    ]
    rows = []
    rules: dict[str, packing_in_simpy.Rule] = {
        "first_fit": packing_in_simpy.first_fit, "tetris": packing_in_simpy.tetris,
    }  # fmt: skip
    for name, rule in rules.items():
        behaviour = Behaviour(name, HEURISTICS[name])
        begin = time.perf_counter()
        placements = sum(packing_in_simpy.play(workload, w, rule)[1] for w in SIMULATED)
        slow = placements / (time.perf_counter() - begin)
        best = 0.0
        for _ in range(3):
            begin = time.perf_counter()
            steps = sum(
                run_episode(scenario, spec, i, behaviour, np.random.default_rng(0)).steps
                for i in instances
            )
            best = max(best, steps / (time.perf_counter() - begin))
        rows.append(
            (f"binpack {name}, all {len(instances)} chunks, one core", best / 1e6,
             "M placements/s", f"{best / slow:.0f} x SimPy's {slow:,.0f} placements/s")
        )  # fmt: skip
    return rows


def _recorded() -> list[Row]:
    """Time a build of 40 windows with two workers, and its verification."""
    recipe = load_recipe("binpack-alibaba2017-v1", ['split.train="0..39"'])
    known = behaviours(recipe)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "dataset"
        begin = time.perf_counter()
        result = build(recipe, known, out, workers=2)
        built = time.perf_counter() - begin
        begin = time.perf_counter()
        verify(out, known)
        verified = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return [
        ("recorded build, 2 workers", result.decisions / built / 1e3, "k decisions/s",
         f"{result.decisions:,} decisions"),
        ("recorded size", result.bytes / result.decisions, "bytes per decision", ""),
        ("peak memory so far", peak, "GB", ""),
        ("verify", result.decisions / verified / 1e3, "k decisions/s", "replayed and compared"),
    ]  # fmt: skip


def _commands() -> list[Row]:
    """Time whole commands as processes, with warm caches."""
    evaluate = (
        "from hindcast.flows.cli import main; import sys, tempfile\n"
        "with tempfile.TemporaryDirectory() as d:\n"
        "    sys.exit(main(['evaluate', 'binpack-alibaba2017-v1', '--policy', 'tetris', '--set',\n"
        "                   'split.test=\"200..200\"', '--out', d + '/e', '--direct']))\n"
    )
    return [
        ("hindcast --help",
         _process("from hindcast.flows.cli import main; main(['--help'])"), "s", "warm"),
        ("evaluate one rule on one chunk, --direct", _process(evaluate), "s", "warm, in all"),
        ("the same through an embedded Prefect server",
         _process(evaluate.replace(", '--direct'", "")), "s", "warm, in all"),
    ]  # fmt: skip


def _process(script: str) -> float:
    """Return the median wall seconds of a process, leaving out the first run."""
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
        times.append(time.perf_counter() - begin)
    return sorted(times[1:])[1]


def _adaptor() -> list[Row]:
    env = SchedulingEnv(load_recipe("binpack-synthetic-v1"))
    _, info = env.reset(seed=0)
    rng = np.random.default_rng(0)
    begin, steps = time.perf_counter(), 0
    while steps < 20_000:
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        _, _, over, _, info = env.step(action)
        steps += 1
        if over:
            _, info = env.reset()
    rate = steps / (time.perf_counter() - begin)
    return [("Gymnasium adaptor, one by one", rate / 1e3, "k steps/s", "padded to 128")]
