"""Tests of scenario `queue`: a plain event loop, small episodes, conformance."""

import re

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.evaluation.requests import reads_requests
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.features import MOMENT, OUT, ROW
from hindcast.pipeline.scenarios.queue.instances import read_log
from hindcast.pipeline.scenarios.queue.schedule import read_schedule
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import begin_episode
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.simulation.memory_rules import play_rule
from hindcast.pipeline.simulation.players import episode_runner
from hindcast.pipeline.simulation.policy import Behaviour, best_feasible
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.testing import check_scenario
from hindcast.pipeline.whatif.record import read_record
from hindcast.pipeline.workloads.schema import MACHINE_COLUMNS, TASK_COLUMNS, Provenance, Workload
from hindcast.policies.heuristics import rules as rules_of
from hindcast.policies.heuristics.queue import HEURISTICS, MEMORY_RULES
from hindcast.policies.registry import resolve
from tests.pipeline.scenarios.queue.reference import PlainJob, easy

SCENARIO = load_scenario("queue")
OBJECTIVE = "bounded_slowdown"
PROCESSORS = 8


def workload(*jobs: tuple[int, int, int, int, int | None, int], processors=PROCESSORS) -> Workload:
    """Return a log of jobs (submit, processors, run, requested, wait, user)."""
    rows = [
        (i, 0, str(i), "0", float(submit), float(run), float(cpu), 0.0, 1)
        for i, (submit, cpu, run, *_) in enumerate(jobs)
    ]
    tasks = pl.DataFrame(rows, schema=dict(TASK_COLUMNS), orient="row").with_columns(
        requested_s=pl.Series([float(job[3]) for job in jobs]),
        wait_s=pl.Series([job[4] for job in jobs], dtype=pl.Float64),
        user=pl.Series([job[5] for job in jobs], dtype=pl.Int64),
        allocated_cores=pl.Series([job[1] for job in jobs], dtype=pl.Int64),
        requested_cores=pl.Series([job[1] for job in jobs], dtype=pl.Int64),
    )
    machines = pl.DataFrame(
        [(0, "m", float(processors), 1.0)], schema=dict(MACHINE_COLUMNS), orient="row"
    )
    return Workload(tasks, Provenance("test"), machines)


def drawn(seed: int, jobs: int = 40) -> Workload:
    """Return a random busy log with ties in everything, overruns and starts that exceed it."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 4 * jobs, jobs) // 20 * 20)
    run = rng.choice([1, 3, 7, 20, 40, 80, 160], jobs)
    requested = np.maximum(1, (run * rng.choice([0.5, 1, 1, 2, 5], jobs)).astype(int))
    cpu = rng.choice([1, 1, 1, 2, 3, 5, 6], jobs)
    wait, user = rng.integers(0, 60, jobs), rng.integers(0, 4, jobs)
    return workload(*zip(*(x.tolist() for x in (submit, cpu, run, requested, wait, user)),
                         strict=True))  # fmt: skip


def made(log: Workload, window: int = 0, **settings):
    config = QueueConfig(**settings)
    return SCENARIO.spec(config, OBJECTIVE), SCENARIO.instance(
        config, OBJECTIVE, log, window, np.random.default_rng(0)
    )


def play(instance, choose) -> np.ndarray:
    """Play an episode by a function (context, rows, feasible) -> row; return its ints."""
    ints, floats = instance.ints.copy(), instance.floats.copy()
    context, rows = np.zeros(len(MOMENT)), np.zeros((instance.capacity, len(ROW)))
    feasible, outputs = np.zeros(instance.capacity, np.bool_), np.zeros(4)
    while True:
        n = SCENARIO.observe(ints, floats, context, np.zeros(0, np.uint8), rows, feasible)
        choice = choose(context, rows[:n], feasible[:n])
        status = SCENARIO.step(ints, floats, choice, outputs)
        assert status != k.INFEASIBLE
        held = read_schedule(ints)
        on = (held.start != m.NEVER) & (held.start + held.run > ints[m.NOW])
        assert held.processors[on].sum() + ints[m.FREE] == PROCESSORS
        if status == k.TERMINATED:
            return ints


def plain_jobs(instance) -> list[PlainJob]:
    jobs = read_schedule(instance.ints)
    return [
        PlainJob(i, *map(int, row), int(jobs.start[i]) if jobs.start[i] != m.NEVER else None)
        for i, row in enumerate(
            zip(jobs.submit, jobs.processors, jobs.run, jobs.requested, strict=True)
        )
    ]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("reserve", [True, False])
def test_greedy_choice_by_any_score_is_that_priority_with_easy_backfilling(seed, reserve):
    """The score of a job is a random linear function of its rows' fixed columns and its wait."""
    w = np.random.default_rng(100 + seed).standard_normal(4)

    def score(job: PlainJob, now: float) -> float:
        parts = now - job.submit, job.requested, job.processors, job.requested * job.processors
        return float(
            sum(a * np.log(b + c) for a, b, c in zip(w, parts, (60, 0, 0, 0), strict=True))
        )

    def choose(context, rows, feasible):
        columns = rows[:, [ROW.log_waited, ROW.log_requested, ROW.log_processors, ROW.log_area]]
        exact = np.rint(np.exp(columns))
        scores = np.array([float(sum(a * np.log(b) for a, b in zip(w, row, strict=True)))
                           for row in exact])  # fmt: skip
        return best_feasible(scores, feasible)

    log = drawn(seed)
    _, instance = made(log, window=1, jobs=12, follow=16, reserve=reserve)
    jobs = plain_jobs(instance)
    easy(jobs, PROCESSORS, score, reserve=reserve)
    found = read_schedule(play(instance, choose))
    counted = np.flatnonzero(found.counted)
    assert [int(found.start[i]) for i in counted] == [jobs[i].start for i in counted]


@pytest.mark.parametrize("seed", range(4))
def test_random_play_keeps_capacity_starts_every_job_once_and_adds_up(seed):
    rng = np.random.default_rng(seed)
    for objective, settings in (
        ("bounded_slowdown", {}),
        ("wait", {"allow_wait": True}),
        ("bounded_slowdown", {"reserve": False, "kill": True, "visible": 3}),
    ):
        config = QueueConfig(jobs=15, follow=9, **settings)
        instance = SCENARIO.instance(config, objective, drawn(seed, 60), 2, rng)
        spec = SCENARIO.spec(config, objective)
        random = Behaviour("random", rules_of("queue")["random"], epsilon=1.0)
        episode = run_episode(SCENARIO, spec, instance, random, rng)
        found = dict(zip([o.name for o in spec.outcomes], episode.outcomes, strict=True))
        terms = dict(zip(spec.reward_terms, episode.terms, strict=True))
        assert episode.total == terms["bounded_slowdown" if objective != "wait" else "wait_h"]
        assert terms["bounded_slowdown"] == -found["mean_bounded_slowdown"]
        assert terms["wait_h"] == pytest.approx(-found["mean_wait_s"] / 3600, rel=1e-9)
        schedule = read_schedule(play(instance, lambda _c, rows, f: uniform_row(rng, f)))
        own = schedule.counted
        assert (schedule.start[own] != m.NEVER).all()
        assert (schedule.waits[own] >= 0).all()
        assert own.sum() == 15 + found["carried"]


def test_the_mean_over_weeks_is_the_outcome():
    """Jobs of an episode of several weeks arrive every 8 hours; those of one week wait."""
    day = 86_400
    log = workload(*(
        (i * day // 3, 8, day // 2 if i < 21 else 60, day, None, i % 3) for i in range(100)
    ))  # fmt: skip
    spec, instance = made(log, jobs=100, warm=False)
    behaviour = Behaviour("sjf_easy", HEURISTICS["sjf_easy"])
    episode = run_episode(SCENARIO, spec, instance, behaviour, np.random.default_rng())
    found = dict(zip([o.name for o in spec.outcomes], episode.outcomes, strict=True))
    assert set(episode.blocks) == {"mean_bounded_slowdown", "mean_wait_s"}
    for name, values in episode.blocks.items():
        assert len(values) == 5
        assert values.mean() == pytest.approx(found[name], rel=1e-12)
    assert episode.blocks["mean_wait_s"][0] > 0
    assert episode.blocks["mean_wait_s"][4] == 0


def test_a_short_episode_has_no_weeks():
    spec, instance = made(drawn(3, 80), window=2, jobs=20, follow=10)
    behaviour = Behaviour("sjf_easy", HEURISTICS["sjf_easy"])
    episode = run_episode(SCENARIO, spec, instance, behaviour, np.random.default_rng())
    assert episode.blocks == {}


def uniform_row(rng, feasible) -> int:
    return int(rng.choice(np.flatnonzero(feasible)))


@pytest.mark.parametrize("rule", ["fcfs_easy", "saf_greedy", "sjf", "wfp3_easy"])
def test_outcomes_are_those_of_the_schedule(rule):
    spec, instance = made(drawn(3, 80), window=2, jobs=20, follow=10, allow_wait=True)
    policy = HEURISTICS[rule]
    episode = run_episode(
        SCENARIO, spec, instance, Behaviour(rule, policy), np.random.default_rng()
    )
    found = dict(zip([o.name for o in spec.outcomes], episode.outcomes, strict=True))

    def choose(context, rows, feasible):
        scores = np.empty(len(rows))
        policy.score(
            context.copy(), np.ascontiguousarray(rows), feasible.copy(), np.zeros(0), scores
        )
        return best_feasible(scores, feasible)

    schedule = read_schedule(play(instance, choose))
    waits = schedule.waits[schedule.counted]
    slowdowns = schedule.bounded_slowdowns[schedule.counted]
    assert found["mean_wait_s"] == waits.sum() / len(waits)
    assert found["max_wait_s"] == waits.max()
    assert found["p95_wait_s"] == np.sort(waits)[int(np.ceil(0.95 * len(waits))) - 1]
    assert found["p99_wait_s"] == np.sort(waits)[int(np.ceil(0.99 * len(waits))) - 1]
    assert found["mean_bounded_slowdown"] == pytest.approx(slowdowns.mean(), rel=1e-9)
    users = schedule.user[schedule.counted]
    means = np.array([slowdowns[users == user].mean() for user in np.unique(users[users >= 0])])
    fairness = means.sum() ** 2 / (len(means) * (means**2).sum())
    assert found["user_fairness"] == pytest.approx(fairness, rel=1e-12)
    wide = slowdowns[schedule.processors[schedule.counted] >= 2]
    assert found["mean_slowdown_wide"] == pytest.approx(wide.mean(), rel=1e-12)
    assert 1 <= found["bounded_slowdown_lower_bound"] <= found["mean_bounded_slowdown"] + 1e-9
    assert 0 <= found["wait_lower_bound"] <= found["mean_wait_s"] + 1e-6
    assert 0 < found["utilisation"] <= 1.5  # the log's starts can exceed the machine


def test_a_job_that_waits_for_more_than_two_days_is_starved():
    """The second job fits beside nothing, and the first one runs for 48 h and a second."""
    seconds = 48 * 3600
    log = workload((0, 8, seconds + 1, seconds, 0, 1), (0, 8, 10, 10, 0, 2), (1, 8, 9, 9, 0, 1))
    for rule, share in (("fcfs_easy", 2 / 3), ("sjf_easy", 0.0)):
        spec, instance = made(log, jobs=3, warm=False)
        behaviour = Behaviour(rule, HEURISTICS[rule])
        episode = run_episode(SCENARIO, spec, instance, behaviour, np.random.default_rng())
        assert episode.outcomes[OUT.starved_share] == share


def test_the_reservation_of_a_small_example():
    """4 of 8 processors are busy until 100. The head needs 6; beside it 2 are spare at 100."""
    log = workload(
        (0, 4, 100, 100, 0, 1), (1, 6, 50, 50, 0, 1), (1, 2, 500, 500, 0, 2),
        (1, 1, 500, 500, 0, 3), (1, 2, 99, 99, 0, 4),
    )  # fmt: skip
    spec, instance = made(log, jobs=5, warm=False)
    environment = CompiledEnvironment.__new__(CompiledEnvironment)
    environment.spec, environment._scenario = spec, SCENARIO
    seen = environment.begin(instance)
    assert seen.feasible.tolist() == [True]
    seen = environment.step(0).observation
    assert seen.time_s == 1
    assert seen.feasible.all()
    assert seen.candidates[:, ROW.fits].tolist() == [0, 1, 1, 1]
    assert seen.candidates[0, ROW.start_in] == pytest.approx(np.log(1 + 99))
    assert seen.candidates[0, ROW.spare_after] == 2 / 8
    seen = environment.step(0).observation  # the head
    assert seen.context[MOMENT.closed] == 1
    assert seen.context[MOMENT.spare] == 2 / 8
    assert seen.feasible.tolist() == [False, True, True, True]
    seen = environment.step(1).observation  # takes the spare processors
    assert seen.feasible.tolist() == [False, False, True]
    step = environment.step(2)  # ends at 100, when the head starts
    assert step.observation.time_s == 100
    assert step.observation.context[MOMENT.closed] == 0
    assert step.terms[1] == pytest.approx(-2 * 99 / 5 / 3600)


def test_predictions_come_from_runs_that_end_in_the_simulation():
    log = workload(
        (0, 8, 30, 300, 0, 1), (1, 8, 50, 300, 0, 1), (2, 4, 70, 300, 0, 1), (3, 8, 5, 40, 0, 2),
        (4, 8, 30, 300, 0, 1),
    )  # fmt: skip
    _, instance = made(log, jobs=5, warm=False, follow=0)
    seen = []

    def choose(context, rows, feasible):
        seen.append(np.exp(rows[-1, [ROW.log_predicted, ROW.log_similar]]))
        return 0

    play(instance, choose)
    assert seen[1] == pytest.approx([30, 30])  # one run; the same processors and request
    assert seen[2] == pytest.approx([40, 50])  # two runs, the last one alike
    np.testing.assert_allclose(seen[0], 300)


def test_a_warm_window_begins_with_what_runs_and_waits_in_the_log():
    log = workload(
        (0, 4, 100, 100, 0, 1), (5, 4, 20, 40, 0, 2), (10, 8, 10, 10, 90, 2), (30, 1, 5, 5, 0, 3),
        (40, 1, 5, 5, 0, 3),
    )  # fmt: skip
    _, instance = made(log, starts=(3,), jobs=1, follow=1)
    schedule = read_schedule(instance.ints)
    assert schedule.submit.tolist() == [-30, -20, 0, 10]
    assert schedule.start.tolist() == [-30, m.NEVER, m.NEVER, m.NEVER]
    assert schedule.counted.tolist() == [False, True, True, False]
    _, cold = made(log, starts=(3,), jobs=1, follow=1, warm=False)
    assert read_schedule(cold.ints).submit.tolist() == [0, 10]
    _, whole = made(log, starts=(3,), whole=True)
    assert read_schedule(whole.ints).counted.tolist() == [False, True, True, True]


def test_a_copy_that_has_forgotten_shows_no_later_arrivals():
    """All jobs from the third on arrive at 50. When the first ends at 100, only the known count."""
    seen = []
    for later in (1, 90):
        log = workload(*[(0, 8, 100, 100, 0, 1)] * 2, *[(50, 1, 100, 100, 0, 2)] * later)
        spec, instance = made(log, jobs=2 + later, follow=0, warm=False)
        memory = begin_episode(spec, instance)
        SCENARIO.observe(*memory)
        assert SCENARIO.forget(memory.ints, memory.floats) == 50
        SCENARIO.step(memory.ints, memory.floats, 0, np.zeros(4))
        SCENARIO.observe(*memory)
        assert memory.ints[m.NOW] == 100
        seen.append(memory.context.tolist())
    assert seen[0] == seen[1]
    assert seen[0][MOMENT.arrivals] == pytest.approx(np.log(1 + 2))


def test_a_job_that_is_killed_before_the_window_uses_no_processors_in_it():
    """In the log it runs for 20,000 s; killed after 100 s, it has ended when the window begins."""
    log = workload((0, 8, 20_000, 100, 0, 1), (10_000, 1, 10, 10, 0, 1), (10_001, 1, 10, 10, 0, 1))
    spec, instance = made(log, starts=(1,), jobs=2, follow=0, kill=True)
    behaviour = Behaviour("fcfs_easy", HEURISTICS["fcfs_easy"])
    episode = run_episode(SCENARIO, spec, instance, behaviour, np.random.default_rng())
    assert episode.outcomes[OUT.utilisation] == 1 / 8  # one job for the second until the last start


def test_a_log_without_starts_cannot_begin_warm():
    log = workload((0, 1, 5, 5, None, 1), (1, 1, 5, 5, None, 1))
    with pytest.raises(InputError, match=r"config.warm is true.*set config.warm = false"):
        made(log, jobs=1)
    made(log, jobs=1, warm=False)
    with pytest.raises(InputError, match="begins at job 1 and has 2 jobs, but the log has 2"):
        made(log, jobs=2, starts=(1,), warm=False)
    with pytest.raises(InputError, match="window 1 does not exist"):
        made(log, window=1, jobs=2, warm=False)


@pytest.mark.parametrize("seed", range(5))
def test_recorded_starts_jobs_as_a_log_that_keeps_within_the_machine(seed):
    """The log is a schedule of the simulator; a replay delays no start beyond the next event."""
    spec, instance = made(drawn(seed), jobs=40, warm=False)
    _, ints, _ = play_rule(SCENARIO, spec, instance, MEMORY_RULES["saf_clairvoyant"])
    first = read_schedule(ints)
    log = workload(*zip(
        first.submit.tolist(), first.processors.tolist(), first.run.tolist(),
        first.requested.tolist(), first.waits.tolist(), [1] * 40, strict=True,
    ))  # fmt: skip
    spec, instance = made(log, jobs=40, allow_wait=True)
    _, ints, _ = play_rule(SCENARIO, spec, instance, MEMORY_RULES["recorded"])
    assert read_schedule(ints).start.tolist() == first.start.tolist()


def test_what_a_log_does_not_say_cannot_be_followed():
    log = workload((0, 1, 5, 5, None, 1), (1, 1, 5, 5, None, 1))
    spec, instance = made(log, jobs=2, warm=False, allow_wait=True)
    with pytest.raises(InputError, match=r"does not say when jobs started .*leave the policy out"):
        play_rule(SCENARIO, spec, instance, MEMORY_RULES["recorded"])


def test_rules_over_the_memory_can_be_recorded_where_waiting_is_a_choice():
    spec, instance = made(drawn(1), jobs=20, follow=10, allow_wait=True, run_times=True)
    rng = np.random.default_rng(0)
    for name, rule in MEMORY_RULES.items():
        runner = episode_runner(SCENARIO, spec, instance, Behaviour(name, rule))
        trace = runner.play(rng)
        assert trace.probabilities.sum() == len(trace.choices)
        again = episode_runner(SCENARIO, spec, instance, Behaviour(name, rule))
        np.testing.assert_array_equal(again.follow(trace.choices), trace.probabilities)


def test_a_pure_rule_needs_the_row_that_waits():
    spec = SCENARIO.spec(QueueConfig(), OBJECTIVE)
    with pytest.raises(InputError, match=r"'saf' .* 'is_wait'.*allow_wait = true"):
        resolve("saf", "queue", spec)
    assert resolve("saf_clairvoyant", "queue", spec).policy.kind == "knows run times"


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{}, {"allow_wait": True, "visible": 4, "run_times": True}, {"reserve": False, "kill": True}],
)
def test_conformance(settings):
    config = QueueConfig(jobs=15, follow=8, **settings)

    def instance(number):
        return SCENARIO.instance(config, OBJECTIVE, drawn(number, 60), 2, np.random.default_rng(0))

    names = ["saf_easy", "fcfs_greedy", "f1_easy", "aged_area_easy", "fcfs_easy_sjbf"]
    check_scenario(SCENARIO, config, OBJECTIVE, instance, {n: HEURISTICS[n] for n in names})


def with_eligible(load, *eligible):
    """Return a log with the moments at which its jobs were eligible."""
    tasks = load.tasks.with_columns(eligible_s=pl.Series(eligible, dtype=pl.Float64))
    return Workload(tasks, load.provenance, load.machines)


def test_jobs_arrive_when_they_are_eligible():
    """W14: job 0 was held until 100, when job 1 runs; its wait there is that of the scheduler."""
    jobs = ((0, 8, 10, 10, 150, 0), (50, 8, 100, 100, 0, 1), (60, 1, 5, 5, None, 1))
    load = with_eligible(workload(*jobs), 100.0, 50.0, None)
    held, log = read_log(load, "eligible"), read_log(load)
    assert log.arrive.tolist() == [100, 50, 60]
    assert log.known.tolist() == [True, True, False]
    assert (held.row.tolist(), held.submit.tolist()) == ([1, 2, 0], [50, 60, 100])
    assert held.start.tolist() == [50, 60, 150]
    assert held.ends.tolist() == [65, 150, 160]
    config = QueueConfig(jobs=3, warm=False, arrive="eligible", allow_wait=True)
    instance = SCENARIO.instance(config, OBJECTIVE, load, 0, np.random.default_rng(0))
    assert read_schedule(instance.ints).submit.tolist() == [0, 10, 50]
    assert read_record(load).arrive.tolist() == held.submit.tolist()
    assert read_record(load).start.tolist() == [50, m.NEVER, 150]


def test_an_eligible_moment_after_the_start_or_before_the_submission_is_noise():
    load = with_eligible(workload((5, 1, 9, 9, 3, 0), (6, 1, 9, 9, 0, 0)), 9.5, 2.0)
    assert read_log(load).arrive.tolist() == [8, 6]


def test_eligible_moments_must_be_known():
    with pytest.raises(InputError, match="does not say when jobs became eligible"):
        SCENARIO.windows(QueueConfig(arrive="eligible"), workload((0, 1, 1, 1, 0, 0)))


def test_a_policy_reads_requests_by_its_formula_or_its_reservation():
    """Requests bound p, u, v and e; backfilling beside a reservation reads them always."""
    for name, rule in {**HEURISTICS, **MEMORY_RULES}.items():
        reserves = not name.endswith("_greedy") and f"{name}_easy" not in HEURISTICS
        letters = re.findall(r"\b[rpuev]\b", rule.formula.partition(";")[0])
        assert reads_requests(name) == (name != "recorded" and bool(reserves or letters)), name
