"""Tests of scenario `rlscheduler`: golden sequences, a plain event loop, observation, play."""

import csv
import gzip
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.flows.papers.rlscheduler.logs import LOGS, read
from hindcast.flows.papers.rlscheduler.scenario import features
from hindcast.flows.papers.rlscheduler.scenario import layout as m
from hindcast.flows.papers.rlscheduler.scenario.config import RLSchedulerConfig
from hindcast.flows.papers.rlscheduler.scenario.features import CANDIDATES, ROW
from hindcast.flows.papers.rlscheduler.scenario.heuristics import HEURISTICS
from hindcast.flows.papers.rlscheduler.scenario.instances import lay_out, read_log
from hindcast.flows.papers.rlscheduler.scenario.rules import NAMES, play
from hindcast.pipeline.errors import InputError, RecipeError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.testing import check_scenario
from hindcast.pipeline.workloads.schema import MACHINE_COLUMNS, Provenance, Workload
from tests.conftest import require_traces
from tests.flows.papers.rlscheduler import reference
from tests.pipeline.scenarios.test_columns import require_context, require_places, spec_of

SCENARIO = load_scenario("rlscheduler")
GOLDEN = Path(__file__).with_name("golden.csv")
NAN_KEY = ("SDSC-SP2", "4299", "f2", "0")  # a job without a request has the score sqrt(-1)


def workload(jobs, processors=16, name="test"):
    """Return jobs (submit, cpu, run, requested) as the log `name`."""
    n = len(jobs)
    submit, cpu, run, requested = np.array(jobs, np.float64).T
    tasks = pl.DataFrame(
        {
            "job": np.arange(n), "task": np.zeros(n, np.int64),
            "job_id": [str(i) for i in range(n)], "task_id": ["0"] * n, "submit_s": submit,
            "duration_s": run, "cores": cpu, "memory": np.zeros(n),
            "instances": np.ones(n, np.int64), "log": [name] * n, "number": np.arange(n),
            "requested_s": requested, "requested_memory_kb": np.full(n, -1.0),
            "user": np.arange(n) % 5.0, "group": np.full(n, -1.0), "executable": np.full(n, -1.0),
        }
    )  # fmt: skip
    machine = [(0, name, float(processors), 1.0)]
    machines = pl.DataFrame(machine, schema=dict(MACHINE_COLUMNS), orient="row")
    return Workload(tasks, Provenance("rlscheduler"), machines)


def drawn(seed, jobs=60, *, ties=True):
    """Return jobs that compete for 16 processors; with ties, many share a second or a size."""
    rng = np.random.default_rng(seed)
    gaps = rng.choice([0, 0, 1, 5, 30], jobs) if ties else rng.integers(1, 20, jobs)
    run = rng.choice([1, 10, 20, 40, 90, 91], jobs)
    requested = np.where(rng.random(jobs) < 0.1, run // 2, run * rng.choice([1, 2, 5], jobs))
    cpu = rng.choice([1, 2, 3, 8, 15, 16], jobs)
    return np.stack([1000 + np.cumsum(gaps), cpu, run, np.maximum(requested, 1)], axis=1)


def config(**settings):
    return RLSchedulerConfig(**{"trace_name": "test", "jobs": 60, **settings})


def played(rule, jobs, backfill):
    """Return the memory after an episode of the compiled kernel."""
    log = read_log(workload(jobs), "test")
    ints, floats = lay_out(log, 0, len(jobs), backfill=backfill)
    play(ints, floats, NAMES.index(rule), np.zeros(len(jobs)))
    return ints, floats


@pytest.mark.slow
@pytest.mark.parametrize("backfill", [False, True])
@pytest.mark.parametrize("rule", NAMES)
def test_every_start_is_that_of_a_plain_event_loop_that_carries_out_the_sorts(rule, backfill):
    for seed in range(25):
        jobs = drawn(seed)
        plain = [reference.Job(*map(int, job)) for job in jobs]
        reference.play(plain, 16, rule, backfill=backfill)
        ints, floats = played(rule, jobs, backfill)
        starts = ints[ints[m.START_AT] :][: len(jobs)]
        assert starts.tolist() == [job.start for job in plain]
        slow = [max(1, (j.end - j.submit) / max(j.run, 10)) for j in plain]
        assert floats[m.SLOWDOWN] == pytest.approx(sum(slow), rel=1e-12)
        assert ints[m.WAITED] == sum(j.start - j.submit for j in plain)
        assert ints[m.LAST_END] == max(j.end for j in plain)


@pytest.mark.parametrize(
    ("backfill", "starts", "slowdowns"),
    [(False, [0, 10, 20], (1, 1.9, 2)), (True, [0, 10, 2], (1, 1.9, 1))],
)
def test_the_episode_of_the_documentation(backfill, starts, slowdowns):
    """C waits for B, which does not fit beside A; it ends before the estimated start of B."""
    jobs = [(0, 12, 10, 10), (1, 16, 10, 10), (2, 4, 2, 2)]
    ints, floats = played("fcfs", jobs, backfill)
    assert ints[ints[m.START_AT] :][:3].tolist() == starts
    assert floats[m.SLOWDOWN] == pytest.approx(sum(slowdowns))


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Return the first 12,000 rows of the four logs, which hold all golden sequences."""
    source = require_traces("swf")
    folder = tmp_path_factory.mktemp("logs")
    for name in LOGS.values():
        packed = source / f"{name}.gz"
        with gzip.open(packed) if packed.exists() else (source / name).open("rb") as log:
            (folder / name).write_bytes(b"".join(itertools.islice(log, 12_000)))
    return read(folder)[0]


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def found(workload, row):
    """Return whether the kernel gives the numbers of a golden row."""
    jobs = int(row["jobs"])
    log = read_log(workload, row["trace"])
    ints, floats = lay_out(log, int(row["start"]), jobs, backfill=row["backfill"] == "1")
    play(ints, floats, NAMES.index(row["policy"]), np.zeros(jobs))
    first = ints[ints[m.SUBMIT_AT]]
    slowdown = float(row["average_bounded_slowdown"])
    same = abs(floats[m.SLOWDOWN] / jobs - slowdown) <= 1e-9 * slowdown
    if row.get("makespan_s"):
        same &= ints[m.LAST_END] - first == int(row["makespan_s"])
        same &= ints[m.LAST_START] - first == int(row["last_start_s"])
        same &= ints[m.WAITED] / jobs == float(row["average_wait_s"])
    return bool(same)


def named(row):
    return tuple(row[c] for c in ("trace", "start", "policy", "backfill"))


@pytest.mark.slow
def test_golden_sequences_come_out_but_the_one_without_a_score(logs):
    rows = rows_of(GOLDEN)
    assert {named(row)[2] for row in rows} == set(NAMES)
    assert [named(row) for row in rows if not found(logs, row)] == [NAN_KEY]


@pytest.mark.slow
def test_all_golden_sequences_come_out_but_the_one_without_a_score(logs):
    names = ("peer_1024.csv", "peer_256.csv", "peer_signfixed_1024.csv")
    whole = require_traces("../golden/queue")
    rows = [row for name in names for row in rows_of(whole / name)]
    assert len(rows) == 912
    assert [named(row) for row in rows if not found(logs, row)] == [NAN_KEY]


def test_a_rule_plays_as_a_score_of_rows_too():
    """Without jobs of one second, the score of a row gives the episode of the program."""
    for seed, backfill in itertools.product(range(3), (False, True)):
        setting = config(backfill=backfill)
        spec = SCENARIO.spec(setting, "wait")
        load = workload(drawn(seed, ties=False))
        rng = np.random.default_rng(0)
        instance = SCENARIO.instance(setting, "wait", load, 0, rng)
        for name, rule in HEURISTICS.items():
            whole = run_episode(SCENARIO, spec, instance, Behaviour(name, rule), rng)
            rows = Behaviour(name, Heuristic(name, rule.score))
            by_row = run_episode(SCENARIO, spec, instance, rows, rng)
            assert whole.outcomes.tolist() == by_row.outcomes.tolist()
            assert (whole.steps, whole.elapsed_s) == (by_row.steps, by_row.elapsed_s)
            assert whole.total == pytest.approx(by_row.total, rel=1e-12)
            assert whole.terms == pytest.approx(by_row.terms, rel=1e-12)
            assert whole.total == pytest.approx(-whole.outcomes[1] / 3600, rel=1e-12)


def test_a_rule_that_explores_is_not_played_as_the_program():
    setting = config()
    spec = SCENARIO.spec(setting, "wait")
    instance = SCENARIO.instance(setting, "wait", workload(drawn(0)), 0, np.random.default_rng(0))
    rule = Behaviour("fcfs", HEURISTICS["fcfs"], epsilon=1.0)
    waits = [
        run_episode(SCENARIO, spec, instance, rule, np.random.default_rng(seed)).outcomes[1]
        for seed in range(3)
    ]
    assert len(set(waits)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("observation", ["all", "published"])
def test_the_scenario_passes_the_checks(observation):
    setting = config(observation=observation, backfill=True, jobs=30)

    def instance(number):
        load = workload(drawn(number, 30))
        rng = np.random.default_rng(0)
        return SCENARIO.instance(setting, "bounded_slowdown", load, 0, rng)

    rules = {name: Heuristic(name, HEURISTICS[name].score) for name in ("sjf", "f1", "wfp3")}
    check_scenario(SCENARIO, setting, "bounded_slowdown", instance, rules)


def test_the_published_observation_is_padded_and_scaled():
    """8 columns: wait / 12 h, request / longest run, size, memory, user, group, exe, can start."""
    jobs = [(100, 4, 50, 25), (100, 16, 100, 400), (143, 8, 100, 100)]
    setting = config(jobs=3, observation="published")
    env = CompiledEnvironment(SCENARIO, setting, "wait", workload(jobs), 0)
    env.reset(np.random.default_rng(0))
    seen = env.step(0).observation  # the first job starts; the second one has arrived
    assert seen.candidates.shape == (128, len(CANDIDATES))
    assert seen.feasible.tolist() == [True] + [False] * 127
    low, high = 1e-5, 1 - 1e-5
    assert seen.candidates[0, :8].tolist() == [0, high, high, 1, 0.5, 1, 1, low]
    assert seen.candidates[1, :8].tolist() == [0, 1, 1, 1, 1, 1, 1, 0]
    seen = env.step(0).observation  # it starts at 150, when the first one ends
    assert seen.time_s == 50
    assert seen.candidates[0, :8].tolist() == [7 / 43200, high, 0.5, 1, high, 1, 1, low]


def test_more_than_128_waiting_jobs_show_the_shortest_and_the_smallest_in_turn():
    jobs = [(0, 16, 1000, 5000), *((1, 1 + i * 7 % 16, 10, 210 - i) for i in range(199))]
    setting = config(jobs=200, observation="published")
    env = CompiledEnvironment(SCENARIO, setting, "wait", workload(jobs), 0)
    env.reset(np.random.default_rng(0))
    env.step(0)
    seen = env.step(0).observation  # the second job waited for the first one, and all others came
    expected: list[tuple[int, int]] = []
    waiting = jobs[2:]
    orders = (sorted(waiting, key=lambda job: job[3]), sorted(waiting, key=lambda job: job[1]))
    for pair in zip(*orders, strict=True):
        expected += [(r, n) for _, n, _, r in pair if (r, n) not in expected]
    assert seen.time_s == 1000
    assert seen.feasible.all()
    shown = seen.candidates[:, [ROW.requested_s, ROW.cpu]]
    assert [tuple(row) for row in shown.tolist()] == expected[:128]
    chosen = env.step(3).observation  # the row of the observation, not of the list of jobs
    assert tuple(expected[3]) not in {(c[ROW.requested_s], c[ROW.cpu]) for c in chosen.candidates}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trace_name": "tset"}, "config.trace_name is 'tset', .* did you mean 'test'"),
        ({"starts": (1, 1)}, "config.starts has 1 twice"),
        ({"starts": (5,)}, "a window at job 5 has 60 jobs, but the log has 60"),
        ({"jobs": 0}, "config.jobs is 0"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        SCENARIO.instance(
            config(**settings), "wait", workload(drawn(0)), 0, np.random.default_rng(0)
        )


def test_a_workload_of_another_format_is_refused():
    load = workload(drawn(0))
    other = replace(load, tasks=load.tasks.drop("number"))
    with pytest.raises(InputError, match=r'expected \[trace\] format = "rlscheduler"'):
        SCENARIO.instance(config(), "wait", other, 0, np.random.default_rng(0))


def test_windows_beyond_the_listed_starts_do_not_exist():
    recipe = load_recipe("queue-rlscheduler")
    assert recipe.windows("all") == list(range(10))
    assert load_recipe("queue-rlscheduler", ["config.starts=[7,9]"]).windows("all") == [0, 1]
    later = load_recipe("queue-rlscheduler", ["config.starts=[7,9]", 'split={test="5..9"}'])
    with pytest.raises(RecipeError, match=r"config\.starts lists 2 windows, but split test begins"):
        later.windows("test")


@pytest.mark.parametrize("observation", ["all", "published"])
def test_constants_of_compiled_code_are_the_columns_of_the_spec(observation):
    settings = {"observation": observation}
    require_places(spec_of("rlscheduler", settings), features)
    require_context(spec_of("rlscheduler", settings), features)
