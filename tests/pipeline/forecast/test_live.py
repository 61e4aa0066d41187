"""Tests of forecasts for a state of a real machine."""

import json
from dataclasses import replace

import numpy as np
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.forecast import forecasts as f
from hindcast.pipeline.forecast import live, plays
from hindcast.pipeline.whatif.orders import policy_of
from tests.pipeline.forecast.made_past import made_record

UNIX = 1_700_000_000


def starts_under(rule: str) -> live.Starts:
    """Return what forecasts need, of a log whose user u has the number 10 + u."""
    policy = policy_of(rule)
    past = f.simulated(made_record(1500, gap_s=900.0), policy)
    users = {str(10 + user): user for user in range(5)}
    return live.Starts(past, policy, users, past, UNIX, draws=6)


def state_at(starts: live.Starts, now: int) -> dict:
    """Return the state of the log's machine at a moment, as JSON has it."""
    moment = plays.moment_of(starts.past, now, starts.policy[0])

    def job(place: int, came: str) -> dict:
        return {
            "id": f"j{moment.row[place]}", came: int(moment.arrive[place]),
            "processors": int(moment.cpu[place]), "requested": int(moment.requested[place]),
            "user": 10 + int(moment.user[place]),
        }  # fmt: skip

    running = [job(i, "started") | {"started": int(moment.start[i])} for i in range(moment.running)]
    waiting = [job(i, "submitted") for i in range(moment.running, len(moment.row))]
    return {"now": now, "processors": moment.processors, "running": running, "waiting": waiting}


@pytest.fixture(scope="module")
def easy():
    return starts_under("fcfs_easy")


@pytest.fixture
def state(easy):
    jobs = f.waited(easy.past)
    return state_at(easy, int(easy.past.record.arrive[jobs[-40]]))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["saf_easy", "similar_area_easy", "conservative", "wsept_easy"])
def test_a_state_says_what_the_log_says_at_that_moment(rule):
    """So plays from it are those from the moment itself, to the second."""
    starts = starts_under(rule)
    past, policy = starts.past, starts.policy
    now = int(past.record.arrive[f.waited(past)[-40]])
    moment = plays.moment_of(past, now, policy[0])
    asked = np.arange(moment.running, len(moment.row))
    answer = starts.answer(state_at(starts, now))
    planned = f.plan(past, moment, policy, asked)
    for name, waits in planned.items():
        assert [job[name] - now for job in answer["jobs"]] == waits.tolist()
    read = starts._moment(state_at(starts, now), now)
    runs = [plays.draw_runs(past, of, 7, np.random.default_rng(1)) for of in (moment, read)]
    np.testing.assert_array_equal(*runs)
    drawn = [
        plays.play_draws(past, of, policy, asked, runs[0], plays.no_arrivals(now, 7))
        for of in (moment, read)
    ]
    np.testing.assert_array_equal(*drawn)


@pytest.mark.slow
def test_intervals_are_nested_and_the_same_each_time(easy, state):
    answer = easy.answer(state)
    assert answer == replace(easy, earlier={}).answer(json.loads(json.dumps(state)))
    assert answer["calibrated_on"] == 300
    for job in answer["jobs"]:
        low95, low80, low50 = (job[share][0] for share in ("95", "80", "50"))
        ends = [job["50"][1], job["80"][1], job["95"][1]]
        chain = [state["now"], low95, low80, low50, job["median"], *ends]
        assert chain == sorted(chain)


@pytest.mark.slow
def test_a_clock_since_1970_moves_the_answer_with_it(easy, state):
    moved = json.loads(json.dumps(state))
    moved["now"] += UNIX
    for job in moved["waiting"]:
        job["submitted"] += UNIX
    for job in moved["running"]:
        job["started"] += UNIX
    here, there = easy.answer(state), easy.answer(moved)
    for one, other in zip(here["jobs"], there["jobs"], strict=True):
        assert other["median"] == one["median"] + UNIX
        assert other["80"] == [moment + UNIX for moment in one["80"]]
    far = {**state, "now": state["now"] + 10**10}
    with pytest.raises(InputError, match=r"here: now is .*expected a moment on the clock of the"):
        easy.answer(far, where="here")
    assert easy.answer(far, at=state["now"])["jobs"]


@pytest.mark.slow
def test_a_job_that_starts_at_once_starts_now(easy, state):
    alone = {**state, "running": [], "waiting": state["waiting"][:1]}
    (job,) = easy.answer(alone)["jobs"]
    assert job["median"] == job["requested"] == state["now"]
    assert job["95"] == [state["now"]] * 2
    recorded = replace(easy, is_recorded=True, earlier={})
    (job,) = recorded.answer(alone)["jobs"]  # the machine need not follow the rule
    assert job["95"][1] > state["now"]


@pytest.mark.slow
def test_a_job_that_could_be_submitted_comes_last(easy, state):
    """It changes nothing for the others, and it must fit on the machine."""
    new = [live.parse_job(text) for text in (
        "processors=4,requested=7200,user=14", "processors=4,requested=7200,user=nobody",
    )]  # fmt: skip
    with_new, without = easy.answer(state, more=new), easy.answer(state)
    assert [job["id"] for job in with_new["jobs"][-2:]] == ["job 1", "job 2"]
    assert with_new["jobs"][:-2] == without["jobs"]
    with pytest.raises(InputError, match=r"--job.*expected at most 16"):
        easy.answer(state, more=[live.parse_job("processors=17,requested=60")])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("processors=4", "expected requested= with a whole number of seconds"),
        ("processors=x,requested=60", "expected processors= with a whole number of processors"),
        ("processor=4,requested=60", "did you mean 'processors'"),
        ("processors", "expected processors=N,requested=SECONDS"),
    ],
)
def test_a_job_that_is_not_one_is_refused(text, error):
    with pytest.raises(InputError, match=error):
        live.parse_job(text)


def test_faulty_jobs_are_set_aside_and_a_faulty_state_is_refused(easy, state):
    """As `decide` does."""
    bad = {**state["waiting"][0], "id": "wide", "processors": 99}
    answer = easy.answer({**state, "waiting": [bad, *state["waiting"]]})
    assert [job["id"] for job in answer["set_aside"]] == ["wide"]
    with pytest.raises(InputError, match="an unknown key 'wating'"):
        easy.answer({**state, "wating": []})


def test_a_machine_that_is_now_smaller_goes_on(easy, state):
    """Jobs of the log that are wider than it ask for all of it, and do not block it for ever."""
    jobs = [{**job, "processors": min(job["processors"], 4)} for job in state["waiting"]]
    small = {**state, "processors": 4, "running": [], "waiting": jobs}
    answer = easy.answer(small)
    assert all(job["median"] is not None for job in answer["jobs"])
    new = easy.answer(small, more=[live.parse_job("processors=1,requested=14400")])["jobs"][-1]
    assert new["median"] is not None


def test_histories_of_the_state_take_the_place_of_the_logs():
    starts = starts_under("similar_area_easy")
    now = int(starts.past.record.arrive[f.waited(starts.past)[-40]])
    state = state_at(starts, now)
    job = state["waiting"][0]
    run = {key: job[key] for key in ("user", "processors", "requested")}
    moment = starts._moment({**state, "completed": [{**run, "run": 7}, {**run, "run": 9}]}, now)
    place, user = moment.running, int(job["user"]) - 10
    assert (moment.before[user], moment.last[user]) == (7, 9)
    assert moment.similar[moment.key[place]] == 9
    plain = starts._moment(state, now)
    assert plain.last[user] > 9
    new = {**state, "waiting": [{**job, "user": "new", "requested": 777}]}
    moment = starts._moment(new, now)
    assert moment.user[-1] == 5
    assert moment.last[5] == moment.similar[moment.key[-1]] == -1
