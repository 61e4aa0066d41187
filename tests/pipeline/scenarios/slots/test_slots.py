"""Tests of scenario `slots`: hand-made episodes, a plain implementation, conformance."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError, RecipeError
from hindcast.pipeline.scenarios import load_scenario, slots
from hindcast.pipeline.scenarios.slots.config import SlotsConfig, sizes_of
from hindcast.pipeline.scenarios.slots.instances import Jobs, draw_jobs
from hindcast.pipeline.settings.reading import read_settings
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.testing import check_scenario, uniform
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload
from hindcast.policies.heuristics.slots import HEURISTICS
from tests.pipeline.scenarios.slots.reference import Plain

SCENARIO = load_scenario("slots")
NOTHING = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))
TINY = SlotsConfig(
    slots_per_resource=4, horizon=5, short_lengths=(1, 2), long_lengths=(3, 5),
    dominant_slots=(2, 4), other_slots=(1, 2), queue=2, backlog=1, steps=12, max_time_steps=60,
)  # fmt: skip


def jobs(*rows: tuple[int, int, int, int]) -> Jobs:
    """Return jobs (arrive, length, cpu, memory)."""
    table = np.array(rows, np.int64)
    columns = [np.ascontiguousarray(column) for column in table.T]
    return Jobs(*columns, last_step=int(table[:, 0].max()), expected_load=0.5)


def environment(config: SlotsConfig, given: Jobs, objective: str = "slowdown"):
    """Return an environment on given jobs, and its first observation."""
    made = CompiledEnvironment(SCENARIO, config, objective, NOTHING, 0)
    return made, made.begin(slots.lay_out(config, sizes_of(config), objective, given))


def test_the_simulator_refuses_a_slot_without_a_window():
    """Callers that know no mask, such as a replay, are refused by the transition itself."""
    made, observation = environment(TINY, jobs((0, 2, 3, 1)))
    assert observation.feasible.tolist() == [True, False, True]
    outputs = np.zeros(k.TERMS + len(made.spec.reward_terms))
    before = made._ints.copy(), made._floats.copy()
    assert SCENARIO.step(made._ints, made._floats, 1, outputs) == k.INFEASIBLE
    assert (made._ints == before[0]).all()
    assert (made._floats == before[1]).all()


def drawn(config: SlotsConfig, number: int, objective: str = "slowdown"):
    """Return the instance of a drawn sequence."""
    return SCENARIO.instance(config, objective, NOTHING, number, np.random.default_rng(number))


# A, B and C wait at 0 (C in the backlog), D is dropped there, E enters at 1:
#
#   cpu of 4     t0 t1 t2 t3
#   A (2, 3 1)   A  A
#   B (1, 2 2)         B
#   C (3, 1 1)   C  C  C
#   E (1, 4 1)            E
FIVE = jobs((0, 2, 3, 1), (0, 1, 2, 2), (0, 3, 1, 1), (0, 1, 1, 1), (1, 1, 4, 1))
CHOICES = (0, 1, 0, 2, 0, 2, 2, 2)


@pytest.mark.parametrize(
    ("objective", "rewards"),
    [
        # at 0: A, B, C; at 1: A, B, C, E; at 2: B, C, E; at 3: E. Time 0 is booked with time 1.
        ("slowdown", [0, 0, 0, -(11 / 6 + 17 / 6), 0, -7 / 3, -1, 0]),
        ("completion", [0, 0, 0, -(3 + 4), 0, -3, -1, 0]),
        ("utilisation", [0, 0, 0, 6 / 8, 0, 6 / 8, 6 / 8, 5 / 8]),
    ],
)
def test_five_jobs_by_hand(objective, rewards):
    """Reservations, refill from the backlog, a drop and a late arrival are all exact."""
    env, observation = environment(TINY, FIVE, objective)
    assert observation.candidates.tolist() == [
        # length cpu memory waited offset fits_now move_on tie | urgency shorter crowded_out | ...
        [2, 3, 1, 0, 0, 1, 0, 4, 1 / 2, 1, 1, *(shared := [0, 3, 4, 4, 0])],
        [1, 2, 2, 0, 0, 1, 0, 4, 1, 0, 1 / 2, *shared],
        [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, *shared],
    ]
    assert observation.context.tolist() == [4, 4, 0] * 5 + [3, 1, 2, 2, 2, 1] + [1]
    found, clock = [], []
    for choice in CHOICES:
        step = env.step(choice)
        found.append(step.reward)
        clock.append(step.observation.time_s)
        if clock[-1] == 0 and len(clock) == 1:  # A is placed, and C takes its slot
            assert step.observation.context.tolist() == (
                [1, 3, 1, 1, 3, 1] + [4, 4, 0] * 3 + [1, 1, 3, 2, 2, 1] + [0]
            )
            assert step.observation.candidates[:, 4].tolist() == [0, 2, 0]
    assert found == pytest.approx(rewards, abs=1e-12)
    assert clock == [0, 0, 0, 1, 1, 2, 3, 4]
    assert step.terminated
    outcome = env.outcome()
    assert outcome["slowdown_sum"] == 1 + 3 + 1 + 3
    assert outcome["mean_slowdown"] == 2
    assert outcome["jobs"] == 4
    assert outcome["dropped"] == 1
    assert outcome["unfinished"] == 0
    assert outcome["mean_completion_s"] == 11 / 4
    assert outcome["time_steps"] == 4
    assert outcome["actions"] == len(CHOICES)
    assert outcome["utilisation"] == pytest.approx(23 / 32)
    assert outcome["offered_load"] == (8 + 4 + 6 + 2 + 5) / 8 / 12
    # queue 1/2 at the end of time steps 0 and 1, then empty
    assert outcome["report_load"] == pytest.approx((0 + 0 + 0 + 0) / 4 + 23 / 32)


def test_the_image_shows_machine_slots_backlog_and_time():
    """H = 5 rows: cpu machine 0-3, slots 4-7 and 8-11; memory the same; backlog 24; time 25."""
    config = dataclasses.replace(TINY, observation="image")
    env, observation = environment(config, FIVE)
    assert observation.image is not None
    assert observation.image.shape == (5, 26)
    expected = np.zeros((5, 26), np.uint8)
    expected[:2, 4:7] = expected[:1, 8:10] = 255  # A and B in the slots: cpu
    expected[:2, 16:17] = expected[:1, 20:22] = 255  # memory
    expected[0, 24] = 255  # C in the backlog
    np.testing.assert_array_equal(observation.image, expected)
    observation = env.step(0).observation  # A runs, and C is in its slot
    expected[:, [4, 5, 6, 16, 24]] = 0
    expected[:3, 4] = expected[:3, 16] = 255
    expected[:2, 0:3] = expected[:2, 12] = 255
    np.testing.assert_array_equal(observation.image, expected)
    observation = env.step(0).observation  # C (job 2) beside A
    expected[:3, [4, 16]] = 0
    expected[:2, 3] = expected[:2, 13] = 255 - 10
    expected[2, 0] = expected[2, 12] = 255 - 10
    np.testing.assert_array_equal(observation.image, expected)
    env.step(2)  # E enters at 1
    observation = env.step(2).observation  # at 2, one time step after E
    assert observation.image is not None
    assert observation.image[0, :4].tolist() == [245, 0, 0, 0]
    assert observation.image[:, 25].tolist() == [25] * 5
    assert observation.image[0, 4:12].tolist() == [255] * 4 + [255, 255, 0, 0]


def test_the_image_of_deeprm_is_20_by_224_and_the_compact_context_has_91_numbers():
    spec = SCENARIO.spec(SlotsConfig(observation="image"), "slowdown")
    assert spec.image_shape == (20, 224)
    assert len(spec.context) == 91
    assert SCENARIO.spec(SlotsConfig(), "slowdown").image_shape == ()


def test_compat_passes_over_the_entry_after_a_removal():
    """Three jobs end together: the first and third leave, the second stays for a step."""
    config = SlotsConfig(compat="deeprm")
    three = dataclasses.replace(jobs((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1)), last_step=2)
    env, _ = environment(config, three)
    assert env.step(10).reward == -3
    for slot in range(3):
        env.step(slot)
    step = env.step(10)
    assert (step.reward, step.terminated) == (-1, False)
    step = env.step(10)
    assert (step.reward, step.terminated) == (0, True)
    assert env.outcome()["slowdown_sum"] == 3


def test_compat_leaves_out_the_last_offset():
    """A job as long as the horizon fits a cluster of the spec but no cluster of compat."""
    for compat, feasible in (("", True), ("deeprm", False)):
        config = SlotsConfig(compat=compat)
        _, observation = environment(config, jobs((0, 20, 1, 1)))
        assert observation.feasible[0] == feasible


def test_an_unfinished_job_counts_until_the_end():
    env, _ = environment(dataclasses.replace(TINY, max_time_steps=3), jobs((0, 2, 1, 1)))
    for _ in range(3):
        step = env.step(2)
    assert step.truncated
    assert env.outcome()["unfinished"] == 1
    assert env.outcome()["mean_slowdown"] == 3 / 2


@pytest.mark.slow
@pytest.mark.parametrize("compat", ["", "deeprm"])
@pytest.mark.parametrize("seed", range(12))
def test_random_play_equals_the_plain_rules(seed, compat):
    """Grid, queue, windows, backlog and rewards always agree, and no slot is used twice."""
    config = SlotsConfig(compat=compat, queue=4, backlog=5, steps=30) if compat else TINY
    config = dataclasses.replace(config, foresight=seed % 2 == 0)
    given = draw_jobs(config, sizes_of(config), np.random.default_rng(seed))
    plain = Plain(config, given)
    env, observation = environment(config, given)
    rng = np.random.default_rng(seed)
    over, sizes = False, sizes_of(config)
    while not over:
        grid = observation.context[: 3 * sizes.horizon].reshape(-1, 3)
        wanted = [plain.free(plain.now + row) for row in range(sizes.horizon)]
        assert grid[:, :2].tolist() == wanted
        assert (grid[:, :2] >= 0).all()
        assert observation.context[-1] == len(plain.backlog)
        for slot, job in enumerate(plain.queue):
            offset = plain.offset(job) if job >= 0 else None
            assert observation.feasible[slot] == (offset is not None)
            if job >= 0:
                row = observation.candidates[slot]
                assert row[:3].tolist() == [given.length[job], *plain.demand[job]]
                assert row[3] == plain.now - plain.enter[job]
                assert row[4] == (sizes.horizon if offset is None else offset)
                assert row[5] == (offset == 0)
                assert row[8:11] == pytest.approx(plain.compared(job))
        quiet = plain.now - max([t for t in given.arrive if t <= plain.now], default=0)
        queued = sum(job >= 0 for job in plain.queue) + len(plain.backlog)
        for row, job in zip(observation.candidates, [*plain.queue, -1], strict=True):
            assert row[11:16].tolist() == [quiet, queued, *grid[0]]
            assert row[16:] == pytest.approx(plain.foresight(job) if config.foresight else [])
        choice = uniform(observation, rng)
        step = env.step(choice)
        reward = plain.step(choice)
        if not (compat and step.terminated):  # compat ends before the arrivals
            assert step.reward == pytest.approx(reward, abs=1e-12)
        observation, over = step.observation, step.terminated or step.truncated
    outcome = env.outcome()
    assert outcome["jobs"] == len(plain.enter) == len(plain.start)
    assert outcome["dropped"] == plain.dropped
    assert outcome["time_steps"] == plain.now
    assert outcome["unfinished"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "quiet"), [("backfill", 0), ("hold_5_backfill", 5)])
def test_backfill_starts_long_jobs_that_move_no_short_one(name, quiet):
    """Every choice equals the plain rule, which lays out long jobs to find those they delay."""
    config = SlotsConfig(arrival_rate=0.6, steps=60, queue=5)
    beside = 0
    for seed in range(4):
        given = draw_jobs(config, sizes_of(config), np.random.default_rng(seed))
        plain = Plain(config, given)
        env, observation = environment(config, given)
        over = False
        while not over:
            scores = np.empty(config.queue + 1)
            seen = (observation.context, observation.candidates, observation.feasible)
            HEURISTICS[name].score(*(part.copy() for part in seen), np.empty(0), scores)
            choice = int(np.where(observation.feasible, scores, -np.inf).argmax())
            assert choice == plain.backfill(quiet)
            lengths = observation.candidates[:, 0]
            short = ((lengths > 0) & (lengths <= 5)).any()
            beside += bool(short and lengths[choice] > 5)
            step = env.step(choice)
            plain.step(choice)
            observation, over = step.observation, step.terminated
    assert beside > 2


@pytest.mark.parametrize("arrival", ["bernoulli", "all_at_once"])
@pytest.mark.parametrize("preset", ["deeprm", "report"])
def test_bookings_add_up_to_the_outcomes(preset, arrival):
    """With every job finished, sum of r == -sum of slowdowns or of completions, and use == work."""
    config = SlotsConfig(preset=preset, arrival=arrival, step_s=2.0)
    spec = SCENARIO.spec(config, "slowdown")
    for number in range(20):
        instance = drawn(config, number)
        policy = list(HEURISTICS.values())[number % len(HEURISTICS)]
        behaviour = Behaviour("x", policy, epsilon=0.3)
        episode = run_episode(SCENARIO, spec, instance, behaviour, np.random.default_rng(number))
        got = dict(zip([o.name for o in spec.outcomes], episode.outcomes, strict=True))
        assert got["unfinished"] == 0
        assert abs(episode.total + got["slowdown_sum"]) < 1e-9
        assert -2 * episode.terms[1] == pytest.approx(got["mean_completion_s"] * got["jobs"])
        assert episode.terms[2] == pytest.approx(got["utilisation"] * got["time_steps"])
        assert episode.terms[2] == pytest.approx(got["offered_load"] * config.steps)
        assert episode.elapsed_s == 2 * got["time_steps"]
        assert episode.steps == got["actions"] == got["time_steps"] + got["jobs"]


SETTINGS = {
    "bernoulli": TINY,
    "all_at_once": dataclasses.replace(TINY, arrival="all_at_once"),
    "foresight": dataclasses.replace(TINY, foresight=True),
    "compat": SlotsConfig(compat="deeprm", queue=3, backlog=4, steps=6, arrival_rate=0.9),
}


@pytest.mark.slow
@pytest.mark.parametrize("observation", ["compact", "image"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_conformance(setting, observation):
    config = dataclasses.replace(SETTINGS[setting], observation=observation)
    few = {name: HEURISTICS[name] for name in ("sjf_reserve", "random_reference")}
    for objective in SCENARIO.objectives:
        check_scenario(
            SCENARIO, config, objective, lambda n, o=objective: drawn(config, n, o),
            HEURISTICS if objective == "slowdown" else few, episodes=2,
        )  # fmt: skip


def test_an_image_that_missed_steps_is_drawn_anew():
    """After two steps without an observation, the next image is drawn from scratch and is right."""
    config = dataclasses.replace(TINY, observation="image")
    env, _ = environment(config, FIVE)
    step_outputs = np.zeros(5)
    for choice in (0, 0, 2):
        SCENARIO.step(env._ints, env._floats, choice, step_outputs)
    late = env._observe()
    env, _ = environment(config, FIVE)
    for choice in (0, 0, 2):
        seen = env.step(choice).observation
    np.testing.assert_array_equal(late.image, seen.image)
    np.testing.assert_array_equal(late.candidates, seen.candidates)


def test_a_window_is_the_same_instance_for_everybody():
    config = SlotsConfig()
    one, same, other = drawn(config, 3), drawn(config, 3, "completion"), drawn(config, 4)
    np.testing.assert_array_equal(one.floats, same.floats)
    assert (one.ints.shape != other.ints.shape) or (one.ints != other.ints).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arrival_rate": 0.0}, "arrival_rate is 0"),
        ({"horizon": 10}, r"long_lengths is \[10, 15\], expected \[least, most\] from 1 to 10"),
        ({"dominant_slots": (11, 12)}, "dominant_slots"),
        ({"queue": 0}, "queue is 0, expected from 1"),
        ({"step_s": 0.0}, "step_s is 0"),
        ({"compat": "deeprm", "preset": "report"}, "compat"),
    ],
)
def test_settings_that_cannot_be_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        drawn(dataclasses.replace(SlotsConfig(), **change), 0)


def test_a_trace_is_refused_with_the_scenario_that_reads_one():
    row = (0, 0, "0", "0", 0.0, 60.0, 1.0, 0.0, 1)
    tasks = pl.DataFrame([row], schema=dict(TASK_COLUMNS), orient="row")
    with pytest.raises(InputError, match="for a trace use scenario queue"):
        SCENARIO.windows(SlotsConfig(), Workload(tasks, Provenance("swf")))


@pytest.mark.parametrize(
    ("key", "value"), [("arrival", "trace"), ("jobs_per_window", 20), ("too_long", "leave_out")]
)
def test_settings_of_traces_are_refused_with_the_scenario_that_reads_one(key, value):
    with pytest.raises(RecipeError, match=f"{key} is {value!r}; known: .*; .* use scenario queue"):
        read_settings(SlotsConfig, {key: value}, "config")
