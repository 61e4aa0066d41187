"""Tests that agents of every kind run on scenario `queue`, on a small log."""

import dataclasses
import gzip
import math

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.errors import InputError, RecipeError, UnknownName
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.pipeline.recipes.shipped import recipe_folder
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.features import MOMENT, ROW
from hindcast.pipeline.simulation.batched import run_batched
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.entrants import entrants, evaluated_policies, own_policies
from hindcast.policies.heuristics import heuristics
from hindcast.policies.networks.checkpoint import Trained, load_policy, read_description, save
from hindcast.policies.offline import anywhere
from hindcast.policies.online import ONLINE_AGENTS
from hindcast.policies.online.gates import rules_of
from hindcast.policies.online.guard import guard_of, passes
from hindcast.policies.online.training import problem_of
from hindcast.policies.registry import behaviours
from hindcast.policies.rollouts.lookahead import rollouts_of_rules
from hindcast.policies.training.delivery.played import with_columns
from hindcast.policies.training.delivery.verdict import Verdict, delivered, rule_weights
from tests.policies.trainings import train, train_online

LOGS = ["log_waited", "log_requested", "log_predicted", "log_similar", "log_processors"]
SCENARIO = load_scenario("queue")
RECIPE = """
id = "queue-small"
scenario = "queue"
seed = 1

[config]
jobs = 8
follow = 24

[trace]
format = "swf"
path = "{path}"

[split]
train = "0..3"
validation = "4..5"
test = "6..8"

[[behaviours]]
policy = "random_logs"
temperature = 0.3
episodes = 3

[online]
agent = "evolution"
iterations = 2
"""


def write_log(path, seed=0, jobs=100):
    """Write a busy SWF log of a machine with 8 processors and 4 users."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 250 * jobs, jobs))
    run = rng.choice([5, 30, 90, 400, 900], jobs)
    requested = run * rng.choice([1, 2, 5], jobs)
    cpu, wait, user = rng.choice([1, 2, 4, 8], jobs), rng.integers(0, 300, jobs), rng.integers(
        1, 5, jobs)  # fmt: skip
    rows = (
        f"{i + 1} {submit[i]} {wait[i]} {run[i]} {cpu[i]} -1 -1 {cpu[i]} {requested[i]} -1 1 "
        f"{user[i]} 1 -1 0 -1 -1 -1"
        for i in range(jobs)
    )
    path.write_bytes(gzip.compress(("; MaxProcs: 8\n" + "\n".join(rows) + "\n").encode(), mtime=0))
    return path


@pytest.fixture(scope="module")
def recipe_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("queue")
    log = write_log(folder / "small.swf.gz")
    (folder / "recipe.toml").write_text(RECIPE.format(path=log))
    return folder / "recipe.toml"


@pytest.fixture(scope="module")
def recipe(recipe_file):
    return load_recipe(recipe_file)


@pytest.fixture(scope="module")
def dataset(recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("queue") / "dataset"
    build(recipe, behaviours(recipe), folder)
    return folder


def _run_network(scenario, spec, instance, behaviour, rng):
    return run_batched(scenario, spec, [instance], behaviour, [rng])[0]


def outcomes(recipe, policy, window=6):
    """Return the outcomes of an episode by name."""
    spec = SCENARIO.spec(recipe.config, recipe.objective)
    instance = SCENARIO.instance(
        recipe.config, recipe.objective, load_source(recipe), window, np.random.default_rng(0)
    )
    run = run_episode if isinstance(policy, Heuristic) else _run_network
    episode = run(SCENARIO, spec, instance, Behaviour(policy.name, policy), generator(0, "test"))
    return dict(zip([o.name for o in spec.outcomes], episode.outcomes, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("agent", anywhere())
def test_every_offline_agent_trains_and_acts(agent, recipe, dataset, tmp_path):
    settings = {"network.columns": LOGS} if agent == "trajectory_preference" else {}
    folder = train(dataset, agent, steps=3, seed=0, out=tmp_path / agent, settings=settings)
    assert outcomes(recipe, load_policy(folder))["mean_bounded_slowdown"] >= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("agent", [a.name for a in ONLINE_AGENTS.values() if not a.scenarios])
def test_every_online_agent_trains_and_acts(agent, recipe, tmp_path):
    quick = {"gradient_steps": 5} if agent in ("dqn_online", "counterfactual") else {}
    online = OnlineRecipe(
        agent, 2, {"sampling": {"trajectories": 4, "windows": 2, "stay": 1}, **quick}
    )
    folder = train_online(dataclasses.replace(recipe, online=online), out=tmp_path / agent)
    assert outcomes(recipe, load_policy(folder))["mean_bounded_slowdown"] >= 1.0


@pytest.mark.slow
def test_a_kernel_over_the_128_oldest_rows_is_a_matter_of_settings(recipe_file, tmp_path):
    """The peer's network: one small network applied to each of 128 rows."""
    changed = load_recipe(recipe_file, [
        "config.visible=128", 'online.agent="ppo"', "online.settings.network.hidden=[32,16,8]",
        "online.settings.network.quadratic=false", "online.settings.sampling.trajectories=2",
    ])  # fmt: skip
    policy = load_policy(train_online(changed, out=tmp_path / "kernel", iterations=1))
    assert policy.network.settings.hidden == (32, 16, 8)


@pytest.mark.slow
def test_columns_are_all_that_a_network_reads(recipe, dataset, tmp_path):
    settings = {"network.columns": LOGS, "network.quadratic": False, "network.logs": False}
    folder = train(
        dataset, "trajectory_preference", steps=3, seed=0, out=tmp_path / "a",
        settings={**settings, "logarithm": True},
    )  # fmt: skip
    policy = load_policy(folder)
    assert policy.network.shapes == {"layer0.weight": (1, 5), "layer0.bias": (1,)}
    assert read_description(folder)["network"]["columns"] == LOGS
    plain = train(dataset, "behaviour_cloning", steps=1, seed=0, out=tmp_path / "b")
    assert "columns" not in read_description(plain)["network"]  # 0.1.0 does not know the key
    with pytest.raises(RecipeError, match=r"columns has 'log_wated'.*log_waited"):
        train(
            dataset, "behaviour_cloning", steps=1, seed=0, out=tmp_path / "c",
            settings={"network.columns": ["log_wated"]},
        )  # fmt: skip


def test_random_logs_draws_five_weights_per_episode(recipe):
    spec = SCENARIO.spec(recipe.config, recipe.objective)
    rule = heuristics("queue")["random_logs"]
    drawn = rule.parameters(spec, np.random.default_rng(0)).reshape(5, 3)
    assert [spec.candidates[int(c)].name for c in drawn[:, 0]] == LOGS
    assert len(set(drawn[:, 2])) == 5
    assert not (drawn == rule.parameters(spec, np.random.default_rng(1)).reshape(5, 3)).all()


def guarded(recipe, references, **config):
    """Return a recipe whose guard is one long window of 40 jobs."""
    table = {"references": references, "config": {"jobs": 40, "follow": 0, **config}}
    return dataclasses.replace(
        recipe,
        online=dataclasses.replace(
            recipe.online,
            settings={"sampling": {"trajectories": 4, "windows": 2, "stay": 1}},
            guard=dataclasses.replace(recipe.online.guard, **table),
        ),
    )


def test_random_logs_draws_two_more_weights_for_learned_run_times(recipe):
    rule = heuristics("queue")["random_logs"]
    spec, more = (
        SCENARIO.spec(dataclasses.replace(recipe.config, run_times=shown), recipe.objective)
        for shown in (False, True)
    )
    drawn, wider = (rule.draw(each, generator(0, "weights")) for each in (spec, more))
    assert (len(drawn), len(wider)) == (15, 21)
    assert wider[:15].tolist() == drawn.tolist()
    columns = [more.candidates[int(column)].name for column in wider[15::3]]
    assert columns == ["log_weight", "log_expected"]


def recipe_with(recipe, **evaluated):
    return dataclasses.replace(recipe, evaluate=dataclasses.replace(recipe.evaluate, **evaluated))


def test_a_guard_asks_for_the_best_of_its_rules(recipe):
    found = guard_of(guarded(recipe, ("fcfs_easy", "sjf_easy")), load_source(recipe), 0, 1)
    assert found is not None
    one_by_one = [
        guard_of(guarded(recipe, (name,)), load_source(recipe), 0, 1).least
        for name in ("fcfs_easy", "sjf_easy")
    ]
    assert found.least == max(one_by_one)
    assert len(set(one_by_one)) == 2
    assert dataclasses.replace(found, tolerance=0.5).least == pytest.approx(1.5 * found.least)


def test_a_guard_refuses_what_it_cannot_play(recipe):
    source = load_source(recipe)
    with pytest.raises(UnknownName, match="sjf_easy"):
        guard_of(guarded(recipe, ("sjf_esy",)), source, 0, 1)
    with pytest.raises(RecipeError, match=r"online.guard: config.*follow"):
        guard_of(guarded(recipe, ("sjf_easy",), folow=1), source, 0, 1)
    with pytest.raises(RecipeError, match="reads the memory"):
        guard_of(guarded(recipe, ("saf_clairvoyant",)), source, 0, 1)
    with pytest.raises(InputError, match=r"'fcfs'.*config.allow_wait = true"):
        guard_of(guarded(recipe, ("fcfs",)), source, 0, 1)


def test_a_guard_and_the_gates_have_rules_whose_columns_the_recipe_lacks(recipe):
    source, name = load_source(recipe), "aged_expected_easy"
    without = guard_of(guarded(recipe, (name,)), source, 0, 1)
    shown = guard_of(guarded(recipe, (name,), run_times=True), source, 0, 1)
    assert without.least == shown.least != guard_of(guarded(recipe, ("sjf_easy",)), source, 0, 1)
    assert without.admits(name)
    problem = problem_of(recipe, 0, 1)
    assert name in rules_of(problem)
    assert name in rules_of(problem_of(dataclasses.replace(recipe, config=dataclasses.replace(
        recipe.config, run_times=True)), 0, 1))  # fmt: skip
    assert name in evaluated_policies(recipe_with(recipe, policies=("sjf_easy",)))
    assert name not in own_policies(recipe_with(recipe, policies=("sjf_easy",)))
    assert evaluated_policies(recipe) == ()


def test_a_delivered_rule_has_the_columns_that_it_needs(recipe, tmp_path):
    problem, rule = problem_of(recipe, 0, 1), heuristics("queue")["aged_expected_easy"]
    trained = Trained("evolution", problem.spec, *rule_weights(problem.spec, "sjf_easy"), {}, 1, 0)
    judged = trained, Verdict("rule", rule.name, "mean_bounded_slowdown", 2)
    save(delivered(*with_columns(problem, judged)), tmp_path / "delivered")
    policy = load_policy(tmp_path / "delivered")
    columns = [feature.name for feature in policy.features_candidates]
    assert columns[-2:] == ["log_weight", "log_expected"]
    wide = dataclasses.replace(recipe, config=dataclasses.replace(recipe.config, run_times=True))
    assert outcomes(wide, policy) == outcomes(wide, rule)
    evaluate(
        recipe, entrants(recipe, [str(tmp_path / "delivered"), rule.name]), split="test",
        out=tmp_path / "scores",
    )  # fmt: skip
    scores = pl.read_parquet(tmp_path / "scores" / "scores.parquet")
    of_agent, of_rule = (part["value"].to_list() for _, part in scores.group_by(
        "policy", maintain_order=True))  # fmt: skip
    assert of_agent == of_rule
    kept = judged[0], dataclasses.replace(judged[1], rule="sjf_easy")
    assert with_columns(problem, kept)[0] is trained


def test_a_limit_of_a_guard_is_a_multiple_of_the_smallest_outcome_of_its_rules(recipe):
    source, names = load_source(recipe), ("fcfs_easy", "sjf_easy")

    def waits(references, factor):
        changed = guarded(recipe, references)
        guard = dataclasses.replace(changed.online.guard, limits={"max_wait_s": factor})
        online = dataclasses.replace(changed.online, guard=guard)
        found = guard_of(dataclasses.replace(changed, online=online), source, 0, 1)
        return found.measure(load_policy(recipe_folder() / "queue-kth-online" / "agent"))

    measured = waits(names, 2.0)
    each = [waits((name,), 1.0)["guard_max_wait_s_most"] for name in names]
    assert measured["guard_max_wait_s_most"] == 2.0 * min(each)
    assert each[0] != each[1]
    kept_up = {**measured, "guard_least": -math.inf}
    for wait in (measured["guard_max_wait_s_most"], measured["guard_max_wait_s_most"] + 1.0):
        assert passes({**kept_up, "guard_max_wait_s": wait}) == (wait == 2.0 * min(each))
    assert not passes({**kept_up, "guard_max_wait_s": 0.0, "guard_least": math.inf})


@pytest.mark.parametrize(
    ("limits", "said"),
    [({"max_wait": 2.0}, "max_wait_s"), ({"utilisation": 2.0}, "lower is better"),
     ({"max_wait_s": -1.0}, "at least 0")],
)  # fmt: skip
def test_a_limit_of_a_guard_that_is_none_is_refused(limits, said, recipe):
    changed = guarded(recipe, ("sjf_easy",))
    guard = dataclasses.replace(changed.online.guard, limits=limits)
    changed = dataclasses.replace(changed, online=dataclasses.replace(changed.online, guard=guard))
    with pytest.raises((RecipeError, UnknownName), match=said):
        guard_of(changed, load_source(recipe), 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [0.0, 10.0])
def test_only_checkpoints_that_pass_the_guard_are_selected(tolerance, recipe, tmp_path):
    changed = guarded(recipe, ("sjf_easy",))
    guard = dataclasses.replace(changed.online.guard, tolerance=tolerance)
    online = dataclasses.replace(changed.online, iterations=5, guard=guard)
    folder = train_online(dataclasses.replace(changed, online=online), out=tmp_path / "agent")
    curves = pl.read_parquet(folder / "metrics.parquet")
    scores, returns, least = (
        curves.filter(pl.col("metric") == name)["value"].to_list()
        for name in ("validation_return", "guard_return", "guard_least")
    )
    passed = [s for s, r, at in zip(scores, returns, least, strict=True) if r >= at]
    assert len(passed) == 5 if tolerance else len(passed) < 5
    assert (folder / "best").is_dir() == bool(passed)
    if passed:
        assert read_description(folder / "best")["training"]["best"]["score"] == max(passed)


def test_a_guard_changes_the_digest_and_its_absence_does_not(recipe):
    assert "guard" not in recipe.to_dict()["online"]
    assert guarded(recipe, ("sjf_easy",)).digest != guarded(recipe, ()).digest


def begun(recipe, decisions):
    """Return the memory of an episode after some decisions of the first feasible row."""
    instance = SCENARIO.instance(
        recipe.config, recipe.objective, load_source(recipe), 6, np.random.default_rng(0)
    )
    ints, floats = instance.ints.copy(), instance.floats.copy()
    context, rows = np.zeros(len(MOMENT)), np.zeros((instance.capacity, len(ROW)))
    feasible, outputs = np.zeros(instance.capacity, np.bool_), np.zeros(4)
    for _ in range(decisions):
        n = SCENARIO.observe(ints, floats, context, np.zeros(0, np.uint8), rows, feasible)
        SCENARIO.step(ints, floats, int(np.flatnonzero(feasible[:n])[0]), outputs)
    n = SCENARIO.observe(ints, floats, context, np.zeros(0, np.uint8), rows, feasible)
    return ints, floats, rows[:n].copy()


@pytest.mark.parametrize("decisions", [1, 3, 7])
def test_looking_ahead_sees_neither_run_times_nor_jobs_to_come(recipe, decisions):
    """The copy is the same whatever the true run times of waiting jobs and the later jobs are."""
    ints, floats, _ = begun(recipe, decisions)
    other, other_floats = ints.copy(), floats.copy()
    waiting = ints[ints[m.WAITING_AT] :][: ints[m.WAITING]]
    running = ints[ints[m.BY_END_AT] :][: ints[m.RUNNING]]
    to_come = np.arange(ints[m.NEXT], ints[m.JOBS])
    assert min(len(waiting), len(running), len(to_come)) > 0
    for jobs in (waiting, to_come):
        other[other[m.RUN_AT] + jobs] += 777
        other_floats[other[m.WEIGHT_AT] + jobs] = 0.5
    other[other[m.END_AT] + running] += 1000  # in the same order
    other[other[m.RUN_AT] + running] += 1000
    for a, b in ((ints, floats), (other, other_floats)):
        SCENARIO.forget(a, b)
    seen = np.concatenate([waiting, running])
    assert ints[m.JOBS] == ints[m.NEXT] == ints[m.FIRST_COUNTED] + ints[m.COUNTED]
    for block in (m.RUN_AT, m.END_AT):
        assert (ints[ints[block] + seen] == other[other[block] + seen]).all()
    assert (floats[ints[m.WEIGHT_AT] + seen] == other_floats[other[m.WEIGHT_AT] + seen]).all()
    ends = ints[ints[m.END_AT] + ints[ints[m.BY_END_AT] :][: ints[m.RUNNING]]]
    assert (np.diff(ends) <= 0).all()
    assert (ends > ints[m.NOW]).all()


def test_looking_ahead_plans_with_the_prediction_of_the_observation(recipe):
    ints, floats, rows = begun(recipe, 5)
    waiting = ints[ints[m.WAITING_AT] :][: ints[m.WAITING]]
    SCENARIO.forget(ints, floats)
    planned = ints[ints[m.RUN_AT] + waiting]
    shown = np.exp(rows[:, ROW.log_similar])
    for seconds, at_least_ten in zip(planned, shown, strict=True):
        assert max(seconds, 10) == math.floor(at_least_ten + 0.5) or seconds < 10


@pytest.mark.slow
def test_rollouts_of_rules_play_whole_episodes(recipe):
    """With one member, rollouts decide as that member does."""
    spec = SCENARIO.spec(recipe.config, recipe.objective)
    instance = SCENARIO.instance(
        recipe.config, recipe.objective, load_source(recipe), 6, np.random.default_rng(0)
    )
    known = heuristics("queue")
    one = rollouts_of_rules("one", [known["saf_easy"]], spec).episode(SCENARIO, spec, instance)
    alone = outcomes(recipe, known["saf_easy"])["mean_bounded_slowdown"]
    assert -one.total == alone
    both = rollouts_of_rules("both", [known["saf_easy"], known["lxf_easy"]], spec)
    assert np.isfinite(both.episode(SCENARIO, spec, instance).total)


def test_online_training_needs_no_guard(recipe):
    assert problem_of(recipe, 0, 1).guard is None


RELEASED = sorted(p.parent for p in recipe_folder().glob("queue-*-online/agent/checkpoint.json"))


@pytest.mark.slow
def test_released_agents_play_a_log_that_they_have_never_seen(tmp_path):
    """One recipe evaluates them; its log and its windows are given on the command line."""
    log = write_log(tmp_path / "other.swf.gz", seed=7)
    changed = load_recipe("queue-swf", [
        f"trace.path={log}", "config.jobs=8", "config.follow=24", 'split.test="3..4"',
    ])  # fmt: skip
    assert len(RELEASED) == 5
    out = evaluate(changed, entrants(changed, [*map(str, RELEASED), "sjf_easy"]),
                   split="test", out=tmp_path / "scores")  # fmt: skip
    scores = pl.read_parquet(out.folder / "scores.parquet")
    slowdowns = scores.filter(pl.col("metric") == "mean_bounded_slowdown")
    assert slowdowns.group_by("policy").len()["len"].to_list() == [2] * 6
    assert slowdowns["value"].min() >= 1.0


@pytest.mark.parametrize("folder", RELEASED, ids=lambda p: p.parent.name)
def test_released_agents_are_small(folder):
    sizes = [path.stat().st_size for path in folder.iterdir()]
    assert sum(sizes) < 100_000
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors", ".md"}
