"""Tests of decisions for a real machine: equal to the evaluator's, guarded, and well explained."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import hindcast
from hindcast.pipeline.errors import HindcastError, InputError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import LIVE_STATES, load_scenario
from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue import live_fields, live_state
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.simulation.batched import BatchedEpisodes, scores_of
from hindcast.pipeline.simulation.policy import best_feasible
from hindcast.policies.deciding import DECIDERS, Guard, agreement, load_decider
from hindcast.policies.heuristics import heuristics
from hindcast.policies.registry import resolve
from tests.pipeline.scenarios.queue.test_queue import OBJECTIVE, SCENARIO, drawn
from tests.queue_states import state_of

ROOT = Path(__file__).resolve().parents[2]
KTH = str(ROOT / "datasets" / "queue-kth-online" / "agent")
CTC = str(ROOT / "datasets" / "queue-ctc-online" / "agent")  # quadratic, and reads the context


def job(name, submitted, processors, requested, user=None):
    return {
        "id": name, "submitted": submitted, "processors": processors, "requested": requested,
        "user": user,
    }  # fmt: skip


def example(**changed):
    """Return the moment of docs/scenarios/queue.md at time 1, when A runs and four jobs wait."""
    state = {
        "now": 1,
        "processors": 8,
        "running": [{"started": 0, "processors": 4, "requested": 100}],
        "waiting": [job("B", 1, 6, 50), job("C", 1, 2, 500), job("D", 1, 1, 500),
                    job("E", 1, 2, 99)],
    }  # fmt: skip
    return state | changed


def decisions_of(policy, config, log, window):
    """Yield the memory, the observation, and the evaluator's choice at each decision."""
    spec = SCENARIO.spec(config, OBJECTIVE)
    behaviour = resolve(policy, "queue", spec)
    instance = SCENARIO.instance(config, OBJECTIVE, log, window, np.random.default_rng(0))
    batch = BatchedEpisodes(SCENARIO, spec, [instance])
    while len(batch.live):
        seen = batch.observe()
        choice = best_feasible(scores_of(behaviour, seen, spec), seen.feasible)
        yield batch.memory(0), seen, choice
        batch.step(np.array([choice]))


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        (KTH, {}),
        (CTC, {}),
        ("aged_similar_easy", {"visible": 3}),
        ("f1_easy", {"reserve": False, "clock_s": 4000}),
        ("sjf", {"allow_wait": True}),
    ],
)
def test_decisions_and_features_are_those_of_the_evaluator_over_whole_episodes(policy, settings):
    decided = 0
    for seed in range(2):
        config = QueueConfig(jobs=15, follow=20, **settings)
        decider = load_decider(policy, config=config, rows=0)
        for memory, seen, choice in decisions_of(policy, config, drawn(seed, 60), 1):
            state = json.loads(json.dumps(state_of(*memory)))
            moment = live_state.read_moment(state, config)
            n = live_state.observe_moment(moment)
            assert n == len(seen.candidates)
            np.testing.assert_array_equal(moment.arrays.candidates[:n], seen.candidates)
            np.testing.assert_array_equal(moment.arrays.feasible[:n], seen.feasible)
            np.testing.assert_array_equal(moment.arrays.context, seen.context[0])
            made = decider.decide(state, first=True)["decisions"]
            ints = memory[0]
            waits = choice == min(ints[m.WAITING], ints[m.VISIBLE])
            expected = None if waits else ints[ints[m.WAITING_AT] + choice]
            assert [one["choice"] for one in made] == [expected]
            decided += 1
    assert decided > 40


@pytest.mark.slow
@pytest.mark.usefixtures("traces")
def test_decisions_are_those_of_the_evaluator_on_a_window_of_a_log():
    recipe = load_recipe("queue-kth-online")
    decider, decided = load_decider(KTH, config=recipe.config, rows=0), 0
    for (ints, floats), seen, choice in decisions_of(KTH, recipe.config, load_source(recipe), 260):
        moment = live_state.read_moment(state_of(ints, floats), recipe.config)
        n = live_state.observe_moment(moment)
        np.testing.assert_array_equal(moment.arrays.candidates[:n], seen.candidates)
        np.testing.assert_array_equal(moment.arrays.context, seen.context[0])
        made = decider.decide(state_of(ints, floats), first=True)["decisions"]
        assert made[0]["choice"] == ints[ints[m.WAITING_AT] + choice]
        decided += 1
        if decided == 200:
            break
    assert decided == 200


@pytest.mark.parametrize("policy", [KTH, "saf_easy"])
def test_all_decisions_of_a_moment_follow_each_other_as_in_the_simulator(policy):
    config = QueueConfig(jobs=20, follow=20)
    decider, moments, at = load_decider(policy, config=config, rows=0), [], None
    for (ints, floats), _, choice in decisions_of(policy, config, drawn(3, 60), 1):
        if ints[m.NOW] != at:
            at = int(ints[m.NOW])
            moments.append((state_of(ints, floats), []))
        moments[-1][1].append(int(ints[ints[m.WAITING_AT] + choice]))
    assert max(len(chosen) for _, chosen in moments) > 2
    for state, chosen in moments[:-1]:  # the last one ends with the episode
        answer = decider.decide(state)
        assert [one["choice"] for one in answer["decisions"]] == chosen
        reserved = [d["choice"] for d in answer["decisions"] if d["action"] == "reserve"]
        assert [j for j in chosen if j not in reserved] == answer["start"]


def test_the_example_of_the_scenario():
    answer = load_decider("fcfs_easy").decide(example(id="x"))
    assert answer["id"] == "x"
    assert answer["start"] == ["C", "E"]
    assert answer["reservation"] == {"id": "B", "start": 100, "spare": 0}
    assert [one["action"] for one in answer["decisions"]] == ["reserve", "start", "start"]
    assert [one["feasible"] for one in answer["decisions"]] == [4, 3, 1]


def test_a_reservation_can_be_given_as_numbers_or_by_its_job():
    decider = load_decider("fcfs_easy", rows=0)
    by_job = decider.decide(example(reservation={"id": "B"}))
    numbers = {"id": "B", "start": 100, "spare": 2}
    assert by_job == decider.decide(example(reservation=numbers))
    assert by_job["start"] == ["C", "E"]
    assert by_job["decisions"][0]["action"] == "start"


def test_processors_that_are_down_come_back_in_no_reservation():
    answer = load_decider("fcfs_easy").decide(example(free=0, running=[]))
    assert answer["start"] == []
    assert not answer["decisions"]
    answer = load_decider("fcfs_easy").decide(example(free=2, running=[]))
    assert answer["reservation"]["start"] is None
    assert answer["start"] == ["C"]


def test_contributions_explain_the_differences_of_linear_scores():
    for folder in (KTH, CTC):
        state = example(completed=[{"user": "u", "run": 7}])
        state["waiting"][0]["user"] = "u"
        rows = load_decider(folder, rows=9).decide(state, first=True)["decisions"][0]["rows"]
        assert len(rows) == 4
        scores = np.array([row["score"] for row in rows])
        sums = np.array([sum(row["contributions"].values()) for row in rows])
        np.testing.assert_allclose(scores - scores[0], sums - sums[0], atol=1e-4)
        assert list(scores) == sorted(scores, reverse=True)
        assert len({tuple(row["features"].values()) for row in rows}) == 4
    assert "contributions" not in load_decider("saf_easy").decide(state)["decisions"][0]["rows"][0]


def test_completed_runs_become_predictions_as_in_training():
    """The mean of the user's last two runs, and the last run of the same size and request."""
    runs = [
        {"user": "u", "processors": 2, "requested": 500, "run": 20},
        {"user": "u", "processors": 2, "requested": 499, "run": 100},
        {"user": "u", "run": 300},
        {"user": "other", "run": 11},
    ]
    state = example(waiting=[job("C", 1, 2, 500, "u")], completed=runs)
    row = load_decider("saf_easy").decide(state)["decisions"][0]["rows"][0]["features"]
    assert row["log_predicted"] == pytest.approx(np.log(200))
    assert row["log_similar"] == pytest.approx(np.log(20))


def test_a_job_that_waited_too_long_goes_first():
    waiting = [job("old", 0, 8, 90_000), job("new", 90_000, 1, 10)]
    state = example(now=90_001, waiting=waiting, running=[])
    free = load_decider("saf_easy").decide(state)
    decider = load_decider("saf_easy", guard=Guard(longest_wait=24.0))
    held = decider.decide(state)
    assert (free["start"], held["start"]) == (["new"], ["old"])
    first = held["decisions"][0]
    assert (first["by"], first["policy_choice"]) == ("longest_wait", "new")
    assert dict(decider.made) == dict.fromkeys(DECIDERS, 0) | {"longest_wait": 1}
    late = load_decider("saf_easy", guard=Guard(longest_wait=26.0)).decide(state)
    assert late["start"] == ["new"]


@pytest.mark.parametrize(
    ("guard", "by"),
    [({"margin": 1e6}, "margin"), ({"probability": 1.0}, "probability"), ({"range": 3}, "range")],
)
def test_a_rule_decides_where_the_network_is_not_sure_or_the_state_is_new(guard, by):
    state = example(waiting=[job("B", -10_000_000, 1, 5), job("C", 1, 1, 500)], running=[])
    decider = hindcast.load_decider(KTH, guard={**guard, "rule": "ljf_easy"})
    answer = decider.decide(state, first=True)["decisions"][0]
    assert (answer["by"], answer["choice"], answer["policy_choice"]) == (by, "C", "B")
    assert answer.get("outside") == (["log_requested"] if by == "range" else None)
    assert answer["score"] == min(row["score"] for row in answer["rows"])
    assert decider.made[by] == 1
    same = hindcast.load_decider(KTH, guard={"margin": 1e-9, "probability": 0.01, "range": 1e5})
    assert same.decide(state, first=True)["decisions"][0]["by"] == "policy"


def test_a_single_feasible_candidate_is_sure():
    decider = load_decider(KTH, guard=Guard(margin=1e6, probability=1.0))
    answer = decider.decide(example(waiting=[job("C", 1, 1, 500)]))
    assert answer["decisions"][0]["by"] == "policy"
    assert answer["decisions"][0]["margin"] is None


def test_a_policy_object_decides_too():
    class Widest:
        name = "widest"

        def scores(self, observation):
            return observation.candidates[:, 2]

    assert hindcast.load_decider(Widest()).decide(example())["reservation"]["id"] == "B"
    loaded = hindcast.load_decider(hindcast.load_policy(KTH), rows=0)
    assert loaded.decide(example()) == load_decider(KTH, rows=0).decide(example())
    Widest.scores = lambda self, observation: np.full(len(observation.candidates), np.nan)
    with pytest.raises(HindcastError, match="widest gave a score that is not a number"):
        hindcast.load_decider(Widest()).decide(example())


def test_a_row_that_waits_ends_the_moment():
    config = QueueConfig(allow_wait=True)
    decider = load_decider("sjf", config=config)  # strict: it waits beside a reservation
    answer = decider.decide(example(waiting=[job("B", 1, 6, 50), job("C", 1, 2, 500)]))
    assert [one["action"] for one in answer["decisions"]] == ["reserve", "wait"]
    assert answer["decisions"][-1]["choice"] is None
    assert load_decider("sjf").decide(example())["decisions"]  # chosen for the rule that needs it


def test_a_rule_waits_as_it_does_by_its_name():
    """Strict rules hold jobs back, which needs the row that waits."""
    rule = heuristics("queue")["fcfs"]
    answer = load_decider("fcfs", rows=0).decide(example())
    assert [one["action"] for one in answer["decisions"]] == ["reserve", "wait"]
    assert load_decider(rule, rows=0).decide(example()) == answer
    with pytest.raises(InputError, match=r"set config\.allow_wait = true"):
        load_decider(rule, config=QueueConfig())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"policy": "saf_eesy"}, "did you mean 'saf_easy'?"),
        ({"policy": "random"}, "random: this policy draws its choices"),
        ({"policy": "random_logs"}, "random_logs: this policy draws its choices"),
        ({"policy": f"{KTH}@1"}, "draws its choices"),
        ({"policy": "rollout"}, "plays episodes ahead"),
        ({"policy": "saf_clairvoyant"}, "chooses from the memory of the simulator"),
        ({"policy": "no/such"}, "no such checkpoint folder"),
        ({"policy": "tetris", "scenario": "binpack"}, "binpack has no live states"),
        ({"policy": KTH, "scenario": "queu"}, "did you mean 'queue'?"),
        ({"policy": KTH, "recipe": "binpack-synthetic-v1"}, "its scenario is binpack"),
        ({"policy": KTH, "guard": {"marging": 1}}, "guard: unknown key 'marging'"),
        ({"policy": KTH, "guard": {"margin": -1.0}}, "guard.margin is -1.0, expected"),
        ({"policy": KTH, "guard": {"margin": "1"}}, "guard.margin is '1', expected a number from"),
        ({"policy": KTH, "guard": {"rule": "random"}}, "random: this policy draws its choices"),
        ({"policy": KTH, "guard": {"rule": 3}}, "guard.rule is 3, expected the name of a rule"),
        ({"policy": KTH, "rows": -1}, "rows is -1, expected"),
        ({"policy": KTH, "guard": {"rule": "fcsf_easy"}}, "did you mean 'fcfs_easy'?"),
        ({"policy": "saf_easy", "guard": {"range": 3.0}}, "needs a checkpoint"),
    ],
)
def test_what_cannot_decide_is_refused_with_the_reason(options, said):
    with pytest.raises(InputError, match=re.escape(said)):
        hindcast.load_decider(**options)


BROKEN = [
    (5, "the state is 5, expected an object"),
    ({}, "now is missing, expected a whole number of seconds"),
    (example(now=1.5), "now is 1.5, expected a whole number"),
    (example(now=True), "now is True"),
    (example(processors=0), "processors is 0, expected a whole number of processors from 1 to"),
    (example(procesors=8), "unknown key 'procesors'; did you mean 'processors'?"),
    (example(free=5), "free is 5, but running jobs hold 4 of 8 processors; expected at most 4"),
    (example(clock_s=604_800), "clock_s is 604800, expected"),
    (example(expects_arrivals=1), "expects_arrivals is 1, expected true or false"),
    (example(first_submitted=2), "first_submitted is 2, after waiting[0].submitted 1"),
    (example(waiting=None), "waiting is missing, expected a list of jobs"),
    (example(waiting={}), "waiting is an object, expected a list"),
    (example(waiting=["B"]), "waiting[0] is a text, expected an object"),
    (example(waiting=[job("B", 1, 9, 50)]), "waiting[0].processors is 9 (job 'B'), expected at m"),
    (example(waiting=[job("B", 2, 1, 50)]), "waiting[0].submitted is 2, expected at most now, 1"),
    (example(waiting=[job("B", 1, 1, 5), job("C", 0, 1, 5)]), "expected the jobs in order of arr"),
    (example(waiting=[job("B", 1, 1, 5), job("B", 1, 1, 5)]), "waiting[1].id is 'B', as waiting"),
    (example(waiting=[job("B", 1, 1, "1h")]), "waiting[0].requested is '1h', expected a whole"),
    (example(waiting=[job(None, 1, 1, 5)]), "waiting[0].id is None, expected a text"),
    (example(waiting=[{"id": 1, "submitted": 1, "processors": 1}]), "waiting[0].requested is mis"),
    (example(waiting=[job("B", 1, 1, 5) | {"quue": 1}]), "'quue'; did you mean 'queue'?"),
    (example(waiting=[job("B", 1, 1, 5) | {"queue": -1}]), "waiting[0].queue is -1, expected"),
    (example(waiting=[job("B", 1, 1, 5, 2.5)]), "waiting[0].user is 2.5, expected a text"),
    (example(running=[{"started": 2, "processors": 1, "requested": 5}]), "running[0].started is 2"),
    (example(completed=[{"user": "u"}]), "completed[0].run is missing, expected a whole number"),
    (example(completed=[{"user": [], "run": 1}]), "completed[0].user is []"),
    (example(completed=[{"run": 1, "requested": 0}]), "completed[0].requested is 0, expected"),
    (example(reservation=5), "reservation is 5, expected an object or null"),
    (example(reservation={"id": "BB"}), "expected the id of a waiting job; did you mean 'B'?"),
    (example(reservation={"id": "C"}), "reservation.id is 'C', but this job fits now"),
    (example(reservation={"id": "B", "start": 5}), "needs start and spare, or id alone"),
    (example(reservation={"start": 0, "spare": 5}), "reservation.start is 0, expected at least"),
    (example(reservation={"strat": 0}), "unknown key 'strat'; did you mean 'start'?"),
]  # fmt: skip


@pytest.mark.parametrize(("state", "said"), BROKEN, ids=[said for _, said in BROKEN])
def test_a_broken_state_is_refused_with_its_key_and_what_was_expected(state, said):
    decider = load_decider("saf_easy")
    with pytest.raises(InputError, match=rf"^day\.jsonl, line 3: .*{re.escape(said)}"):
        decider.decide(state, where="day.jsonl, line 3")


@pytest.mark.parametrize(("waiting", "said"), [
    ([{"id": "X", "submitted": 0, "processors": 1}], "requested is missing, expected a whole"),
    ([job("X", 0, 9, 50)], "processors is 9 (job 'X'), expected at most 8"),
    ([job("X", 0, 1, 50) | {"quue": 1}], "has an unknown key 'quue'; did you mean 'queue'?"),
    (["X"], "is a text, expected an object"),
])  # fmt: skip
def test_a_job_that_cannot_be_started_does_not_stop_the_others(waiting, said):
    """The answer is that without the job, and says why it was set aside."""
    decider = load_decider("saf_easy")
    answer = decider.decide(example(waiting=[*waiting, *example()["waiting"]]))
    aside = answer.pop("set_aside")
    assert answer == decider.decide(example())
    assert answer["start"]
    assert [entry["id"] for entry in aside] == ["X" if isinstance(waiting[0], dict) else None]
    assert said in aside[0]["reason"]


def test_null_stands_for_what_may_be_left_out():
    left_out = ("free", "clock_s", "arrivals", "first_submitted", "completed", "reservation")
    decider = load_decider("saf_easy")
    assert decider.decide(example(**dict.fromkeys(left_out))) == decider.decide(example())


def test_agreement_compares_the_jobs_that_were_started():
    answer = {"start": ["C", "E"]}
    assert agreement(answer, ["E", "C"]) == {"done": ["E", "C"], "agrees": True, "same": 2}
    assert agreement(answer, "C") == {"done": ["C"], "agrees": False, "same": 1}
    assert agreement({"start": []}, None) == {"done": [], "agrees": True, "same": 0}
    with pytest.raises(InputError, match=r"done is 1\.5, expected the id of a job"):
        agreement(answer, 1.5)


def test_the_page_describes_every_key():
    page = (ROOT / "docs" / "how-to" / "decide.md").read_text(encoding="utf-8")
    tables = [live_fields.STATE, *live_fields.LISTS.values(), live_fields.RESERVATION]
    keys = {key for table in tables for key in table} | {*live_fields.LISTS, *live_fields.OTHERS}
    described = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert keys <= set(described)


def test_scenarios_with_live_states_exist():
    for name in LIVE_STATES:
        assert load_scenario(name).name == name
