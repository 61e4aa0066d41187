"""Tests of live states with several resources and pools, and of decisions about them."""

import json

import numpy as np
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.queue import live_state
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import begin_episode
from hindcast.policies.deciding import load_decider
from hindcast.policies.heuristics.queue import HEURISTICS
from tests.queue_states import state_of
from tests.resource_logs import CAPACITY, NAMES, drawn, workload_of

SCENARIO = load_scenario("queue")
MACHINE = QueueConfig(resources=("processors", "gpus:a100", "gpus:v100", "memory"),
                      capacity={"gpus:a100": 4, "gpus:v100": 2, "memory": 1000})  # fmt: skip


@pytest.mark.parametrize("rule", ["saf_easy", "fcfs_easy"])
def test_decisions_and_features_are_those_of_the_simulator(rule):
    capacity = dict(zip(NAMES, CAPACITY, strict=True))
    config = QueueConfig(jobs=20, follow=10, resources=NAMES, capacity=capacity, allow_wait=True)
    load = workload_of(drawn(4, 70), 12)
    spec = SCENARIO.spec(config, "wait")
    instance = SCENARIO.instance(config, "wait", load, 1, np.random.default_rng(0))
    decider = load_decider(rule, config=config, rows=0)
    arrays = begin_episode(spec, instance)
    ints, floats, context, _, rows, feasible = arrays
    outputs, status, decided = np.zeros(k.TERMS + 2), k.RUNNING, 0
    while status == k.RUNNING:
        n = SCENARIO.observe(*arrays)
        state = json.loads(json.dumps(state_of(ints, floats, config)))
        moment = live_state.read_moment(state, config)
        assert live_state.observe_moment(moment) == n
        np.testing.assert_array_equal(moment.arrays.candidates[:n], rows[:n])
        np.testing.assert_array_equal(moment.arrays.feasible[:n], feasible[:n])
        np.testing.assert_array_equal(moment.arrays.context, context)
        scores = np.empty(n)
        HEURISTICS[rule].score(context, rows[:n], feasible[:n], np.zeros(0), scores)
        choice = int(np.argmax(np.where(feasible[:n], scores, -np.inf)))
        made = decider.decide(state, first=True)["decisions"][0]["choice"]
        assert made == live_state.name_of_row(moment, choice)
        status = SCENARIO.step(ints, floats, choice, outputs)
        decided += 1
    assert decided > 30


def state(**changes):
    """Return a machine of 8 processors of which job A holds 4 and two v100."""
    job = {"submitted": 0, "requested": 50, "processors": 1}
    return {
        "now": 10, "processors": 8,
        "running": [{"id": "A", "started": 0, "processors": 4, "requested": 90,
                     "gpus": 2, "gpu_types": {"v100": 2}, "memory": 900}],
        "waiting": [{**job, "id": "B", "memory": 200}, {**job, "id": "C", "gpus": 5 / 2},
                    {**job, "id": "D", "gpu_types": {"v100": 1}, "requested": 500}],
        **changes,
    }  # fmt: skip


def test_a_moment_is_decided_by_all_resources():
    """B waits for memory until 90; C takes a100, the first type; D needs a v100 and waits too."""
    answer = load_decider("fcfs_easy", config=MACHINE).decide(state())
    assert answer["start"] == ["C"]
    spare = {"processors": 7, "gpus:a100": 4, "gpus:v100": 2, "memory": 800}
    assert answer["reservation"] == {"id": "B", "start": 90, "spare": spare}
    answer = load_decider("fcfs_easy", config=MACHINE).decide(state(capacity={"memory": 1200}))
    assert answer["start"] == ["B", "C"]
    assert answer["reservation"] is None  # nobody who waits fits, so nobody is decided about
    answer = load_decider("fcfs_easy", config=MACHINE).decide(state(free={"gpus:a100": 2}))
    assert answer["start"] == []


def test_pools_have_their_own_reservations():
    pools = {"p": {"processors": 4, "gpus": 2}, "q": {"processors": 4, "gpus": 1}}
    config = QueueConfig(resources=("processors", "gpus"), pools=pools)
    job = {"submitted": 0, "requested": 50, "processors": 1}
    moment = {
        "now": 10,
        "running": [{"started": 0, "requested": 60, "processors": 3, "gpus": 2, "pool": "p"},
                    {"started": 0, "requested": 40, "processors": 3, "gpus": 0, "pool": "q"}],
        "waiting": [{**job, "id": "B", "gpus": 1, "pool": "p"},
                    {**job, "id": "C", "processors": 2, "gpus": 1, "pool": "q"},
                    {**job, "id": "D", "pool": "p"}, {**job, "id": "E", "gpus": 1, "pool": "q"}],
    }  # fmt: skip
    decider = load_decider("fcfs_easy", config=config)
    answer = decider.decide(moment)
    assert answer["start"] == ["D"]
    kept = [
        {"id": "B", "start": 60, "spare": {"processors": 3, "gpus": 1}, "pool": "p"},
        {"id": "C", "start": 40, "spare": {"processors": 2, "gpus": 0}, "pool": "q"},
    ]
    assert answer["reservation"] == kept
    again = decider.decide({**moment, "reservation": kept})
    assert again["start"] == ["D"]
    with pytest.raises(InputError, match=r"waiting\[0\].pool is 'x'; "):
        decider.decide({**moment, "waiting": [{**job, "id": "B", "pool": "x"}]})


@pytest.mark.parametrize("held", [5.993, 6.999])
def test_thousandths_of_gpus_that_are_free_are_not_lost_or_added(held):
    """1000 * 1.001 is less than 1001 in floating point, and 1000 * 2.007 is more than 2007."""
    free = round(8 - held, 3)
    moment = {
        "now": 10, "processors": 8, "free": {"gpus": free},
        "running": [{"started": 0, "requested": 90, "processors": 4, "gpus": held}],
        "waiting": [{"id": "B", "submitted": 0, "requested": 50, "processors": 1, "gpus": free}],
    }  # fmt: skip
    config = QueueConfig(resources=("processors", "gpus"), capacity={"gpus": 8})
    assert load_decider("fcfs_easy", config=config).decide(moment)["start"] == ["B"]


def test_gpus_of_a_job_may_be_the_sum_of_those_by_type():
    """.1 + .2 is more than .3 in floating point."""
    job = {"id": "B", "submitted": 0, "requested": 50, "processors": 1}
    job |= {"gpus": 0.3, "gpu_types": {"a100": 0.1, "v100": 0.2}}
    moment = state(running=[], waiting=[job])
    assert load_decider("fcfs_easy", config=MACHINE).decide(moment)["start"] == ["B"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacity": {"gpus:a10": 1}}, r"unknown key 'gpus:a10'; did you mean 'gpus:a100'"),
        ({"capacity": {"memory": 0}}, "capacity.memory is 0.0, expected more than 0"),
        ({"pools": {}}, "pools is given, but the settings have capacity"),
        ({"free": {"gpus:v100": 1}}, "free has more gpus:v100 than the running jobs leave"),
        ({"waiting": [{"id": 1, "submitted": 0, "requested": 5, "processors": 1, "gpus": 5}]},
         r"waiting\[0\] asks for more gpus:any than there are"),
        ({"waiting": [{"id": 1, "submitted": 0, "requested": 5, "processors": 1, "gpus": 0.0001}]},
         r"waiting\[0\].gpus is 0.0001, expected a number with at most three decimals from 0"),
        ({"waiting": [{"id": 1, "submitted": 0, "requested": 5, "processors": 1, "memory": 0.5}]},
         r"waiting\[0\].memory is 0.5, expected a whole number from 0"),
    ],
)  # fmt: skip
def test_faults_of_a_state_of_several_resources_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        load_decider("fcfs_easy", config=MACHINE).decide(state(**changes))


def test_a_machine_of_processors_refuses_gpus_of_jobs():
    with pytest.raises(InputError, match=r"waiting.* has an unknown key"):
        load_decider("fcfs_easy").decide(state(running=[]))
