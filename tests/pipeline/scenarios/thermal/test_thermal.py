"""Tests of `thermal`: the report's numbers, hand-made episodes, conformance, properties."""

import dataclasses
import math

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InfeasibleChoice, InputError
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.thermal import layout as m
from hindcast.pipeline.scenarios.thermal.config import ThermalConfig, settled
from hindcast.pipeline.scenarios.thermal.features import OBJECTIVES
from hindcast.pipeline.scenarios.thermal.features import TERMS as TERM_NAMES
from hindcast.pipeline.scenarios.thermal.instances import (
    POSITIONS,
    Jobs,
    draw_jobs,
    energy,
    full_heat,
    make_instance,
)
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.testing import check_scenario, uniform
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload
from hindcast.policies.heuristics import heuristics

SCENARIO = load_scenario("thermal")
NOTHING = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))
SMALL = ThermalConfig(jobs=40, steps=60)
CROWDED = ThermalConfig(jobs=40, steps=60, resources=(15, 25), process=(10, 20), slack=(0, 2))
SETTINGS = {
    "default": SMALL,
    "k10": dataclasses.replace(SMALL, k=10.0),
    "paper": dataclasses.replace(SMALL, preset="paper"),
    "paper, tight": dataclasses.replace(SMALL, preset="paper", tight_deadlines=True),
    "idle power": dataclasses.replace(SMALL, idle_power=True),
    "history": dataclasses.replace(SMALL, features="history"),
    "rejections": CROWDED,
}


def jobs(*rows: tuple[int, int, int]) -> Jobs:
    """Return jobs (resources, process, deadline), one per step."""
    return Jobs(*np.array(rows, np.int64).T)


def begin(config: ThermalConfig, *rows: tuple[int, int, int], objective: str = "level"):
    """Return an environment on these jobs, and its first observation."""
    config = dataclasses.replace(config, jobs=len(rows))
    environment = CompiledEnvironment(SCENARIO, config, objective, NOTHING, 0)
    instance = make_instance(settled(config), OBJECTIVES.index(objective), jobs(*rows))
    return environment, environment.begin(instance)


def column(observation, name: str) -> list[float]:
    """Return a candidate column by name."""
    names = [f.name for f in SCENARIO.spec(SMALL, "level").candidates]
    return observation.candidates[:, names.index(name)].tolist()


def context(observation) -> dict[str, float]:
    names = [f.name for f in SCENARIO.spec(SMALL, "level").context]
    return dict(zip(names, observation.context.tolist(), strict=True))


def terms(step) -> dict[str, float]:
    return dict(zip(TERM_NAMES, step.terms.tolist(), strict=True))


def test_server_5_at_a_quarter_has_the_heat_of_the_report():
    """Total heat after the first and the second job equals Figure 4 to the last digit."""
    environment, observation = begin(
        ThermalConfig(preset="paper", steps=20), (10, 3, 1795), (9, 4, 1086), (5, 1, 1086)
    )
    assert context(observation)["total_heat"] == 0.0
    observation = environment.step(5).observation
    assert context(observation)["total_heat"] == 4.6919742701607256e-17
    assert column(observation, "usage")[5] == 0.25
    assert column(observation, "heat")[5] == 4.6919742701607256e-17
    observation = environment.step(5).observation
    assert context(observation)["total_heat"] == 8.351714200886092e-17


def test_an_episode_by_hand():
    """Two jobs on the server in the centre, one later, give these terms of every reward."""
    config = ThermalConfig(jobs=2, steps=7)
    environment, first = begin(config, (20, 2, 3), (30, 2, 4))
    assert context(first) == {
        "submit": 0, "process": 2, "resources": 20, "deadline": 3, "slack": 2,
        "total_heat": 0, "alpha": 1, "beta": 0.005,
    }  # fmt: skip
    step = environment.step(0)
    # step 0: server 0 at .5 draws .75: efficiency 2/3, heat 150
    assert terms(step) == pytest.approx(
        {
            "level": -1 / 3 - 0.005 * 150, "difference": 5 + 2 / 3 - 0.005 * 150,
            "inefficiency": 1 / 3, "efficiency": 5 + 2 / 3, "heat": 150, "heat_change": -150,
            "energy": 0.75, "rejected": 0,
        }
    )  # fmt: skip
    assert step.reward == step.terms[0]
    second = step.observation
    assert column(second, "usage") == [0.5, 0, 0, 0, 0, 0]
    assert column(second, "delay") == [1, 0, 0, 0, 0, 0]
    assert column(second, "ahead") == [0.5, 0, 0, 0, 0, 0]
    assert column(second, "window_off") == [1, 1, 1, 1, 1, 1]
    # .75 in use draws .875: inefficiency 1/7 a step, heat 175; a unit of heat counts 2.5 in all
    assert column(second, "window_inefficiency") == pytest.approx([2 / 7] * 6)
    assert column(second, "window_heat")[:2] == pytest.approx([875, 875 * math.exp(-1)])
    assert column(second, "now_inefficiency") == pytest.approx([0] + [1 / 7] * 5)
    assert column(second, "now_heat")[:2] == pytest.approx([0, 175 * math.exp(-1)])
    step = environment.step(0)
    # step 1: job 0; steps 2 and 3: job 1; then the heat of 4, 5 and 6 fades
    heat = [0.6 * 150 + 150]
    heat += [0.6 * heat[-1] + 175]
    heat += [0.6 * heat[-1] + 175]
    for _ in range(3):
        heat += [0.6 * heat[-1]]
    assert (step.terminated, step.elapsed_s) == (True, 6.0)
    assert terms(step)["inefficiency"] == pytest.approx(1 / 3 + 2 / 7)
    assert terms(step)["heat"] == pytest.approx(sum(heat))
    assert terms(step)["heat_change"] == pytest.approx(150 - heat[-1])
    assert terms(step)["energy"] == pytest.approx(0.75 + 2 * 0.875)
    outcome = environment.outcome()
    assert outcome["peak_heat"] == pytest.approx(max(heat))
    assert outcome["mean_wait"] == 0.5
    assert outcome["chosen_usage"] == 0.25
    assert outcome["others_usage"] == 0.0
    assert outcome["chosen_distance"] == 0.0
    assert outcome["level_per_step"] * 7 == pytest.approx(
        -(2 / 3 + 2 / 7) - 0.005 * (150 + sum(heat))
    )


def test_a_job_is_never_split_over_a_gap_that_is_too_short():
    """A job of two steps does not use a gap of one step between two jobs."""
    environment, _ = begin(SMALL, (40, 2, 50), (20, 1, 50), (40, 2, 50), (20, 2, 50), (20, 1, 50))
    environment.step(0)  # 0, 1
    environment.step(0)  # 2
    observation = environment.step(0).observation  # 3, 4
    assert column(observation, "delay")[0] == 2  # step 3 + 2: from 5 on the job fits twice in a row
    observation = environment.step(1).observation
    assert column(observation, "delay")[0] == 1


def test_a_server_that_cannot_keep_the_deadline_cannot_be_chosen():
    environment, _ = begin(SMALL, (40, 3, 10), (40, 3, 4), (40, 3, 4))
    observation = environment.step(0).observation
    assert column(observation, "delay") == [2, 0, 0, 0, 0, 0]
    assert observation.feasible.tolist() == [False] + [True] * 5
    with pytest.raises(InfeasibleChoice, match="feasible: 1, 2, 3, 4, 5"):
        environment.step(0)
    observation = environment.step(1).observation
    assert observation.feasible.tolist() == [False, False] + [True] * 4


def test_the_simulator_refuses_a_server_that_is_a_step_late():
    """Callers that know no mask, such as a replay, are refused by the transition itself."""
    environment, _ = begin(SMALL, (40, 3, 10), (40, 3, 4), (40, 3, 4))
    environment.step(0)
    ints, floats = environment._ints.copy(), environment._floats.copy()
    outputs = np.zeros(k.TERMS + len(environment.spec.reward_terms))
    deadline = ints[m.DEADLINE_AT] + ints[m.NOW]
    finish = ints[ints[m.START_AT]] + ints[ints[m.PROCESS_AT] + ints[m.NOW]] - 1
    ints[deadline] = finish - 1
    assert SCENARIO.step(ints, floats, 0, outputs) == k.INFEASIBLE
    ints[deadline] = finish
    assert SCENARIO.step(ints, floats, 0, outputs) != k.INFEASIBLE


def test_a_job_that_nobody_can_finish_is_rejected_without_a_decision():
    """Every server would finish job 1 too late.

    Its step passes with the previous decision's reward.
    """
    environment, _ = begin(SMALL, (10, 1, 5), (10, 3, 2), (10, 1, 5))
    step = environment.step(5)
    assert step.elapsed_s == 2.0
    assert terms(step)["rejected"] == 1
    assert context(step.observation)["submit"] == 2
    step = environment.step(5)
    assert step.terminated
    assert environment.outcome()["rejected"] == 1
    assert environment.outcome()["placed"] == 2


def test_time_before_the_first_decision_is_booked_with_the_first_step():
    environment, observation = begin(SMALL, (10, 3, 1), (10, 3, 1), (10, 1, 5))
    assert observation.time_s == 2
    step = environment.step(0)
    assert step.terms[TERM_NAMES.index("rejected")] == 2
    assert step.elapsed_s == SMALL.steps


def test_rejections_at_the_end_end_the_episode():
    environment, _ = begin(SMALL, (10, 1, 5), (10, 3, 2))
    step = environment.step(0)
    assert step.terminated
    assert step.elapsed_s == SMALL.steps
    assert not step.observation.feasible.any()


def test_jobs_of_which_none_can_be_finished_are_refused():
    with pytest.raises(InputError, match="nothing to decide"):
        begin(SMALL, (10, 3, 1))


def test_an_episode_lasts_until_everything_has_finished():
    """Six full servers run for ten steps although the setting has only eight steps."""
    environment, _ = begin(ThermalConfig(steps=8), (40, 10, 30))
    assert environment.step(3).elapsed_s == 10.0


def test_idle_servers_draw_power_only_when_told_to():
    environment, observation = begin(SMALL, (20, 1, 5))
    assert column(observation, "energy") == [0.0] * 6
    assert terms(environment.step(0))["inefficiency"] == pytest.approx(1 / 3)
    config = dataclasses.replace(SMALL, idle_power=True)
    environment, observation = begin(config, (20, 1, 5))
    assert column(observation, "energy") == [0.5] * 6
    step = environment.step(0)
    steps = SMALL.steps
    assert terms(step)["inefficiency"] == pytest.approx(6 * steps - 2 / 3)
    assert terms(step)["energy"] == pytest.approx(6 * steps * 0.5 + 0.25)


def test_difference_telescopes():
    """The heat terms sum to -(heat left at the end) for any choices."""
    for choice in (0, 5):
        environment, _ = begin(SMALL, *[(10, 3, 70)] * 10, objective="difference")
        change, efficiency, total, over = 0.0, 0.0, 0.0, False
        while not over:
            step = environment.step(choice)
            change += terms(step)["heat_change"]
            efficiency += terms(step)["efficiency"]
            total, over = total + step.reward, step.terminated
        assert abs(change) < 1e-6
        assert total == pytest.approx(efficiency)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resources": (5, 41)}, r"config.resources is \[5, 41\].*1..40"),
        ({"process": (0, 4)}, "config.process\\[0\\] is 0"),
        ({"slack": (3, 2)}, "config.slack is"),
        ({"slack": (3,)}, "config.slack is"),
        ({"steps": 42}, "at least jobs . 5 = 45"),
        ({"jobs": 0}, "config.jobs is 0"),
        ({"decay": 1.0}, "config.decay is 1"),
        ({"k": -0.1}, "config.k is -0.1, expected at least 0"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    config = dataclasses.replace(SMALL, **change)
    with pytest.raises(InputError, match=message):
        SCENARIO.instance(config, "level", NOTHING, 0, np.random.default_rng(0))


def test_presets_draw_what_they_say():
    default = draw_jobs(settled(ThermalConfig()), np.random.default_rng(0))
    slack = default.deadline - np.arange(2000) - default.process + 1
    assert (slack.min(), slack.max()) == (0, 5)
    assert (default.process.min(), default.process.max()) == (5, 20)
    assert (default.resources.min(), default.resources.max()) == (5, 14)
    paper = draw_jobs(settled(ThermalConfig(preset="paper")), np.random.default_rng(0))
    assert (paper.process.min(), paper.process.max()) == (1, 4)
    assert (paper.deadline >= np.arange(2000) + 5).all()
    assert paper.deadline.max() <= 2200
    assert settled(ThermalConfig(preset="paper")).k == 10
    assert settled(ThermalConfig(preset="paper", k=2.0)).k == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_conformance(name):
    for objective in SCENARIO.objectives:
        config = SETTINGS[name]
        check_scenario(
            SCENARIO,
            config,
            objective,
            lambda n, c=config, o=objective: SCENARIO.instance(
                c, o, NOTHING, n, np.random.default_rng(n)
            ),
            heuristics("thermal"),
            episodes=2,
        )


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_random_play_against_a_plain_calendar(name, seed):
    """Capacity, deadlines, energy and heat follow the formula, bookings equal calendars."""
    config = settled(SETTINGS[name])
    drawn = draw_jobs(config, np.random.default_rng(seed))
    environment = CompiledEnvironment(SCENARIO, config, "level", NOTHING, 0)
    rng = np.random.default_rng(seed)
    observation = environment.begin(make_instance(config, 0, drawn))
    calendar = np.zeros((6, 4000), np.int64)
    step_outputs, over, seen, steps = np.zeros(len(TERM_NAMES)), False, [], 0
    while not over:
        job = int(observation.time_s)
        seen.append(job)
        process, resources = drawn.process[job], drawn.resources[job]
        latest = drawn.deadline[job] - process + 1
        start = np.array(
            [
                next(s for s in range(job, 4000) if (row[s : s + process] + resources <= 40).all())
                for row in calendar
            ]
        )
        assert column(observation, "delay") == (start - job).tolist()
        assert observation.feasible.tolist() == (start <= latest).tolist()
        assert column(observation, "usage") == (calendar[:, job] / 40).tolist()
        assert column(observation, "ahead") == (calendar[:, job:].sum(axis=1) / 40).tolist()
        windows = [row[s : s + process] for row, s in zip(calendar, start, strict=True)]
        assert column(observation, "window_usage") == pytest.approx(
            [w.mean() / 40 for w in windows]
        )
        assert column(observation, "window_off") == pytest.approx(
            [(w == 0).mean() for w in windows]
        )
        choice = uniform(observation, rng)
        calendar[choice, start[choice] : start[choice] + process] += resources
        step = environment.step(choice)
        step_outputs += step.terms
        steps += int(step.elapsed_s)
        observation, over = step.observation, step.terminated
    outcome = environment.outcome()
    assert calendar.max() <= 40
    assert not calendar[:, steps:].any()
    usage = calendar[:, :steps] / 40
    drawn_energy = energy(usage, idle_power=config.idle_power)
    efficiency = np.where(drawn_energy > 0, usage / np.maximum(drawn_energy, 1e-9), 1.0)
    distance = np.sqrt((np.array(POSITIONS, float) ** 2).sum(axis=1))
    heat, total = (drawn_energy.T @ full_heat(distance, config.k)), [0.0]
    for given in heat:
        total.append(given + config.decay * total[-1])
    expected = {
        "inefficiency": (1 - efficiency).sum(),
        "efficiency": efficiency.sum(),
        "heat": sum(total),
        "heat_change": -total[-1],
        "energy": drawn_energy.sum(),
        "rejected": config.jobs - len(seen),
        "level": -config.alpha * (1 - efficiency).sum() - config.beta * sum(total),
        "difference": config.alpha * efficiency.sum() - config.beta * total[-1],
    }
    assert dict(zip(TERM_NAMES, step_outputs, strict=True)) == pytest.approx(
        expected, rel=1e-9, abs=1e-9
    )
    assert outcome["level_per_step"] * steps == pytest.approx(expected["level"])
    assert outcome["inefficiency_per_step"] * steps == pytest.approx(expected["inefficiency"])
    assert outcome["mean_heat"] * steps == pytest.approx(expected["heat"])
    assert outcome["energy"] == pytest.approx(expected["energy"])
    assert outcome["peak_heat"] == pytest.approx(max(total))
    assert outcome["rejected"] == expected["rejected"]
    assert outcome["rejected"] + outcome["placed"] == config.jobs
    assert outcome["late"] == 0
    assert len(set(seen)) == len(seen)


def test_crowded_servers_reject_jobs():
    """The setting above makes servers so crowded that jobs are rejected."""
    spec = SCENARIO.spec(CROWDED, "level")
    instance = SCENARIO.instance(CROWDED, "level", NOTHING, 0, np.random.default_rng(0))
    behaviour = Behaviour("random", heuristics("thermal")["random"], epsilon=1.0)
    episode = run_episode(SCENARIO, spec, instance, behaviour, np.random.default_rng(0))
    assert episode.outcomes[[o.name for o in spec.outcomes].index("rejected")] > 5


def test_history_features_hide_the_calendar_from_learners_only():
    full, hidden = (SCENARIO.spec(SETTINGS[name], "level") for name in ("default", "history"))
    assert [f.name for f in full.candidates] == [f.name for f in hidden.candidates]
    assert [hidden.candidates[i].name for i in hidden.learned_candidates] == [
        "capacity", "x", "y", "distance", "usage", "energy", "heat",
    ]  # fmt: skip
