"""Learned run times: a plain reference with dictionaries, an example by hand, and live states."""

import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.evaluation.evaluate import Job
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import _plain
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.instances import read_log
from hindcast.pipeline.scenarios.queue.live_state import observe_moment, read_moment
from hindcast.pipeline.scenarios.queue.schedule import read_schedule
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.whatif.orders import policy_of
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.record import read_record
from hindcast.pipeline.whatif.run import run_of
from hindcast.policies.deciding import load_decider
from hindcast.policies.entrants import entrants
from hindcast.policies.heuristics import rules
from hindcast.policies.registry import resolve
from tests.pipeline.scenarios.queue.reference import PlainJob, easy
from tests.pipeline.scenarios.queue.test_queue import workload
from tests.pipeline.whatif import records

SCENARIO = load_scenario("queue")
OBJECTIVE = "bounded_slowdown"
AGENT = f"{Path(__file__).parents[4]}/datasets/queue-kth-online/agent"
RULES = rules("queue")
PRIORITIES = {
    "aged_expected": lambda wait, v, e, n: (wait + 86400) * math.sqrt(v) / (e * n),
    "wsept": lambda wait, v, e, n: (wait + 86400) * v / (e * n),
}


class Learned:
    """What completed runs say, in dictionaries, as the text has it."""

    def __init__(self):
        self.sums = defaultdict(lambda: [0.0, 0.0, 0.0])

    @staticmethod
    def contexts(user, n, r):
        level = math.floor(2 * math.log2(r))
        found = [(("level", level), 39.89, 0.9913)]
        if user is not None:
            found += [((user,), 3.1, 0.5486), ((user, r), 3.8, 0.605),
                      ((user, n, r), 23.69, 0.9763)]  # fmt: skip
        return found

    def complete(self, user, n, r, run):
        for context, _, d in self.contexts(user, n, r):
            many, weights, shares = self.sums[context]
            self.sums[context] = [
                d * many + 1, d * weights + 10 / max(run, 10), d * shares + min(run / r, 1)
            ]  # fmt: skip

    def expected(self, user, n, r):
        weight, share = 0.1, 0.4
        for context, m, _ in self.contexts(user, n, r):
            many, weights, shares = self.sums[context]
            weight = (weights + m * weight) / (many + m)
            share = (shares + m * share) / (many + m)
        return max(weight, 10 / max(r, 10)), max(share * r, 1)


def drawn(seed: int, jobs: int = 90):
    """Return jobs with ties in everything, unknown users, and runs beyond their requests."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 5 * jobs, jobs) // 20 * 20)
    run = rng.choice([1, 20, 20, 40, 40, 80, 160], jobs)
    requested = np.maximum(1, (run * rng.choice([0.5, 1, 1, 2, 5, 50], jobs)).astype(int))
    cpu, wait = rng.choice([1, 1, 1, 2, 3, 5, 6], jobs), rng.integers(0, 6, jobs) * 20
    user = [None if one == 0 else int(one) for one in rng.integers(0, 4, jobs)]
    columns = (of.tolist() for of in (submit, cpu, run, requested, wait))
    return list(zip(*columns, user, strict=True))


def plain_starts(jobs, first: int, stop: int, rule: str, *, reserve: bool) -> list[int]:
    """Return the starts from job `first` on, by the plain event loop. Jobs carried come first."""
    now = jobs[first][0]
    learned = Learned()
    ends = sorted((submit + wait + run, row) for row, (submit, _, run, _, wait, _)
                  in enumerate(jobs))  # fmt: skip
    for end, row in ends:
        if end < now:
            _, n, run, r, _, user = jobs[row]
            learned.complete(user, n, r, run)
    starts = [submit + wait for submit, *_, wait, _ in jobs]
    running = [i for i in range(first) if starts[i] < now < starts[i] + jobs[i][2]]
    carried = [i for i in range(first) if starts[i] >= now]
    rows = [*running, *carried, *range(first, stop)]
    plain = [
        PlainJob(number, jobs[row][0] - now, *jobs[row][1:4],
                 starts[row] - now if row in running else None)
        for number, row in enumerate(rows)
    ]  # fmt: skip
    known = set()

    def score(job, at):
        ended = [one for one in plain if one.start is not None and one.start + one.run <= at
                 and one.number not in known]  # fmt: skip
        for one in sorted(ended, key=lambda one: (one.start + one.run, rows[one.number])):
            known.add(one.number)
            learned.complete(jobs[rows[one.number]][5], one.processors, one.requested, one.run)
        v, e = learned.expected(jobs[rows[job.number]][5], job.processors, job.requested)
        return PRIORITIES[rule](at - job.submit, v, e, job.processors)

    easy(plain, 8, score, reserve=reserve)
    return [job.start for job in plain[len(running) :]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rule", PRIORITIES)
def test_every_start_is_that_of_a_plain_event_loop(rule, seed):
    jobs, first = drawn(seed), 40
    log, together = workload(*jobs), 0
    for form, reserve in (("easy", True), ("greedy", False)):
        wanted = plain_starts(jobs, first, len(jobs), rule, reserve=reserve)
        name = f"{rule}_{form}"
        config = QueueConfig(jobs=50, starts=(first,), whole=True, run_times=True)
        instance = SCENARIO.instance(config, OBJECTIVE, log, 0, np.random.default_rng(0))
        kept = {}

        def keep(ints, kept=kept):
            kept["schedule"] = read_schedule(ints)
            return {}

        spec = SCENARIO.spec(config, OBJECTIVE)
        behaviour = Behaviour(name, RULES[name])
        rng = np.random.default_rng(0)
        run_episode(replace(SCENARIO, blocks=keep), spec, instance, behaviour, rng)
        schedule = kept["schedule"]
        assert schedule.start[schedule.counted].tolist() == wanted
        run = run_of(read_record(log), first)
        starts = play(run, *policy_of(name))[run.counted] - run.now
        assert starts.tolist() == wanted
        ends = schedule.start + schedule.run
        together += len(ends) - len(np.unique(ends))
    assert together > 20
    assert read_log(log).user.min() == -1


def test_the_example_of_the_docs():
    """One run of user A: 60 s of 3,600 requested on 4 processors, and two waiting jobs like it."""
    state = {
        "now": 100, "processors": 4,
        "waiting": [
            {"id": "b", "submitted": 0, "processors": 4, "requested": 3600, "user": "B"},
            {"id": "a", "submitted": 50, "processors": 4, "requested": 3600, "user": "A"},
        ],
        "completed": [{"user": "A", "processors": 4, "requested": 3600, "run": 60}],
    }  # fmt: skip
    config = QueueConfig(run_times=True)
    moment = read_moment(state, config)
    assert observe_moment(moment) == 2
    learned = np.exp(moment.arrays.candidates[:2, -2:])
    np.testing.assert_allclose(learned, [[0.1016, 1406.2], [0.1293, 833.2]], rtol=5e-4)
    for user, (v, e) in zip("BA", learned, strict=True):
        plain = Learned()
        plain.complete("A", 4, 3600, 60)
        assert (v, e) == pytest.approx(plain.expected(user, 4, 3600), rel=1e-14)
    decided = load_decider("aged_expected_easy").decide(state)
    assert decided["start"] == ["a"]
    # B is first once it has waited 22 hours longer.
    of_b, of_a = (PRIORITIES["aged_expected"](0, *of, 4) for of in learned)
    assert (round(of_b, 2), round(of_a, 2)) == (4.90, 9.32)
    state["waiting"][0]["submitted"] = -22 * 3600
    assert load_decider("aged_expected_easy").decide(state)["start"] == ["b"]
    state["waiting"][0]["submitted"] = -21 * 3600
    assert load_decider("aged_expected_easy").decide(state)["start"] == ["a"]


def test_a_run_without_its_requested_time_teaches_nothing():
    state = {
        "now": 100, "processors": 4,
        "waiting": [{"id": 1, "submitted": 0, "processors": 4, "requested": 3600, "user": "A"}],
        "completed": [{"user": "A", "run": 60}],
    }  # fmt: skip
    moment = read_moment(state, QueueConfig(run_times=True))
    observe_moment(moment)
    assert moment.arrays.candidates[0, -2:].tolist() == [math.log(0.1), math.log(1440.0)]


def test_columns_and_digests_are_those_of_before_unless_the_setting_is_on():
    without, with_them = QueueConfig(), QueueConfig(run_times=True, allow_wait=True)
    assert "run_times" not in _plain(without)
    assert _plain(with_them)["run_times"]
    names = [f.name for f in SCENARIO.spec(with_them, OBJECTIVE).candidates]
    assert names[-3:] == ["is_wait", "log_weight", "log_expected"]
    spec = SCENARIO.spec(without, OBJECTIVE)
    assert "log_weight" not in [f.name for f in spec.candidates]
    with pytest.raises(InputError, match=r"needs the column 'log_weight'.*run_times = true"):
        resolve("wsept_easy", "queue", spec)
    instance = SCENARIO.instance(without, OBJECTIVE, long_log(), 0, None)
    with pytest.raises(InputError, match=r"set config\.run_times = true"):
        RULES["wsept_conservative"].check(instance)


def long_log():
    jobs = [(i, 1, 5, 5, 0, 1) for i in range(300)]
    return workload(*jobs)


def live_starts(rule: str, first: int, jobs: int) -> tuple[list[int], list[int]]:
    """Return the starts of the first counted jobs of KTH, played and decided live."""
    record = records.record("KTH-SP2-1996-2")
    run = run_of(record, first, first + jobs)
    played = play(run, *policy_of(rule))
    past = run.past.log.by_end[run.past.log.ends < run.now]
    completed = [_run(record, int(row)) for row in past]
    decider, starts = load_decider(rule, rows=0), dict(enumerate(played[: run.running].tolist()))
    waiting, coming = [], list(range(run.running, len(run.row)))
    going, now = list(range(run.running)), run.now
    while coming or waiting:
        over = sorted((starts[i] + run.run[i], run.row[i], i) for i in going
                      if starts[i] + run.run[i] <= now)  # fmt: skip
        for _, _, i in over:
            going.remove(i)
            completed.append(_run(record, int(run.row[i])))
        while coming and run.arrive[coming[0]] <= now:
            waiting.append(coming.pop(0))
        free = run.processors - sum(int(run.cpu[i]) for i in going)
        if waiting and min(run.cpu[i] for i in waiting) <= free:
            answer = decider.decide({
                "now": int(now), "processors": run.processors, "free": free,
                "running": [{**_job(run, i), "started": int(starts[i])} for i in going],
                "waiting": [{**_job(run, i), "id": i, "submitted": int(run.arrive[i])}
                            for i in waiting],
                "completed": completed,
            })  # fmt: skip
            for i in answer["start"]:
                starts[i] = int(now)
                waiting.remove(i)
                going.append(i)
        moments = [starts[i] + run.run[i] for i in going] + [run.arrive[i] for i in coming[:1]]
        now = min((moment for moment in moments if moment > now), default=now)
    return played.tolist(), [starts[i] for i in range(len(played))]


def _job(run, i):
    user = int(run.user[i])
    return {"processors": int(run.cpu[i]), "requested": int(run.requested[i]),
            "user": None if user < 0 else user}  # fmt: skip


def _run(record, row):
    return {**_job(record, row), "run": int(record.run[row])}


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["aged_expected_easy", "wsept_easy"])
def test_decisions_that_are_asked_live_start_jobs_as_the_simulator_does(rule):
    played, decided = live_starts(rule, 8000, 60)
    assert decided == played


@pytest.mark.nightly
@pytest.mark.parametrize("rule", ["aged_expected_easy", "wsept_easy"])
def test_live_decisions_over_many_jobs_are_those_of_the_simulator(rule):
    played, decided = live_starts(rule, 2000, 1500)
    assert len(played) > 1500
    assert decided == played


def test_an_evaluation_gives_a_policy_the_columns_that_it_reads():
    recipe = load_recipe("queue-kth-v1")
    known = {of.behaviour.name: of.behaviour for of in entrants(
        recipe, ["aged_expected_easy", "saf_easy", "wsept_conservative", AGENT]
    )}  # fmt: skip
    job = Job(recipe, SCENARIO, None, [0], 1, None, 1)
    seen = {name: job.seen_by(of).recipe.config.run_times for name, of in known.items()}
    assert list(seen.values()) == [True, False, True, False]
    with_columns = replace(recipe, config=replace(recipe.config, run_times=True))
    job = replace(job, recipe=with_columns)
    seen = [job.seen_by(of).recipe.config.run_times for of in known.values()]
    assert seen == [True, True, True, False]  # a checkpoint was trained without them
    assert [of.behaviour.name for of in entrants(with_columns, list(known)[:3])] == list(known)[:3]
