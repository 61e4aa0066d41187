"""Policies and agents of the user's own, given as file.py:name: played, recorded, and refused."""

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.dataset.building import shared_plan
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import DatasetError, InputError, PolicyFault, RecipeError, UnknownName
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.evaluation.summary.results import results
from hindcast.pipeline.evaluation.summary.summarise import summarise
from hindcast.pipeline.plugins import is_reference, source_of
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.batched import BatchedEpisodes, observation_of
from hindcast.policies import own_agents
from hindcast.policies.entrants import entrants, own_policies, with_whole_paths
from hindcast.policies.heuristics import heuristics
from hindcast.policies.offline import AGENTS, Agent
from hindcast.policies.ope.ope import OPESettings, evaluate_offline
from hindcast.policies.own_policy import own_policy
from hindcast.policies.registry import behaviours, recorded_behaviours
from tests.conftest import TINY
from tests.policies.test_queue import RECIPE as QUEUE
from tests.policies.test_queue import write_log

CODE = '''
import numpy as np
import hindcast

def longest(context, candidates, feasible, spec):
    """Choose the longest task.

    More text.
    """
    return candidates[:, spec.column("duration_s")]

def many(context, candidates, feasible, *, spec):
    assert candidates.shape[:2] == feasible.shape
    assert len(context) == len(feasible)
    return candidates[:, :, spec.column("duration_s")]

many.batched = True

@hindcast.kernel.compiled(hindcast.kernel.SCORE)
def fast(context, candidates, feasible, parameters, scores):
    for i in range(len(scores)):
        scores[i] = candidates[i, 4]

def slowdown(context, candidates, feasible, spec):
    waited = np.rint(np.exp(candidates[:, spec.column("log_waited")])) - 60.0
    requested = np.rint(np.exp(candidates[:, spec.column("log_requested")]))
    return (waited + requested) / requested

@hindcast.kernel.compiled(hindcast.kernel.SCORE)
def too_many(context, candidates, feasible, parameters, scores):
    if candidates[0, 0] >= 0.0:
        raise ValueError("not today")

def nothing_known(context, candidates, feasible):
    return np.where(feasible, 0.0, np.nan)

def raises(context, candidates, feasible):
    return candidates[:, 99]

def two(context, candidates):
    return context

def wrong_shape(context, candidates, feasible):
    return np.zeros((len(candidates), 1))

def text(context, candidates, feasible):
    return "first"

def not_a_number(context, candidates, feasible):
    return np.full(len(candidates), np.nan)

def never(context, candidates, feasible):
    return np.full(len(candidates), -np.inf)

def writes(context, candidates, feasible):
    feasible[:] = True
    return candidates[:, 0]

class Rule:
    pass

number = 3
AGENT = hindcast.Agent(
    "my_cloning", "hindcast.policies.offline.cloning.behaviour_cloning", transitions=False,
    description="behaviour cloning under another name",
)
TAKEN = hindcast.Agent("cql", __name__, transitions=True, description="taken")
ODD = hindcast.Agent("../a", __name__, transitions=True, description="not a name of a folder")
PLAYER = hindcast.OnlineAgent("my_player", "hindcast.policies.online.reinforce", "another name")
'''
NAME = "own_code_of_a_test"


@pytest.fixture(autouse=True)
def _forgotten():
    """Forget what a test imports and registers."""
    modules, known, sources = set(sys.modules), dict(AGENTS._known), dict(own_agents._SOURCES)
    yield
    AGENTS._known = known
    own_agents._SOURCES.clear()
    own_agents._SOURCES.update(sources)
    for name in set(sys.modules) - modules:
        if name.startswith("own_"):
            del sys.modules[name]


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("outside") / f"{NAME}.py"
    path.write_text(CODE)
    return path


@pytest.fixture(scope="module")
def queue(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("queue")
    text = QUEUE.format(path=write_log(folder / "small.swf.gz"))
    (folder / "recipe.toml").write_text(text)
    return folder / "recipe.toml"


def spec_of(recipe):
    return load_scenario(recipe.scenario).spec(recipe.config, recipe.objective)


def of_behaviours(*policies, **settings):
    """Return the override that replaces the behaviours of a recipe."""
    more = "".join(f", {key} = {value}" for key, value in settings.items())
    tables = [f"{{policy = {json.dumps(str(p))}{more}}}" for p in policies]
    return f"behaviours=[{', '.join(tables)}]"


def tiny(*policies, **settings):
    """Return the tiny recipe with these behaviours."""
    return load_recipe("binpack-synthetic-v1", [*TINY, of_behaviours(*policies, **settings)])


def parts(folder):
    return [path.read_bytes() for path in sorted((folder / "data").glob("*.parquet"))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "rule", "own"),
    [
        ("binpack", "longest_first", "longest"),
        ("binpack", "longest_first", "fast"),
        ("queue", "lxf_easy", "slowdown"),
    ],
)
def test_a_function_is_the_rule_of_its_formula(scenario, rule, own, file, queue, tmp_path):
    """The scores are equal, and so are the bytes of the recorded decisions."""
    loaded = [
        tiny(policy) if scenario == "binpack" else load_recipe(queue, [of_behaviours(policy)])
        for policy in (rule, f"{file}:{own}")
    ]
    for number, recipe in enumerate(loaded):
        build(recipe, behaviours(recipe), tmp_path / str(number))
    assert parts(tmp_path / "0") == parts(tmp_path / "1") != []

    recipe, spec, play = loaded[0], spec_of(loaded[0]), load_scenario(scenario)
    known, (policy, _) = heuristics(scenario)[rule], own_policy(f"{file}:{own}", spec)
    instance = make_instance(recipe, play, load_source(recipe), recipe.windows("train")[0])
    episode = BatchedEpisodes(play, spec, [instance])
    for _ in range(8):
        seen = observation_of(episode.observe(), 0, spec)
        expected, found = known.scores(seen), policy.scores(seen)
        assert found[seen.feasible].tobytes() == expected[seen.feasible].tobytes()
        episode.step(np.array([int(seen.feasible.argmax())]))


@pytest.mark.slow
def test_batched_scores_are_those_of_single_decisions(file, tiny_recipe, tmp_path):
    """Episodes of different sizes that are played together end as they do one by one."""
    found = entrants(tiny_recipe, [f"{file}:longest", f"{file}:many", "longest_first"])
    assert [c.behaviour.name for c in found] == ["longest", "many", "longest_first"]
    assert found[0].behaviour.policy.description == "Choose the longest task."
    evaluate(tiny_recipe, found, split="test", out=tmp_path / "e")
    table = pl.read_parquet(tmp_path / "e" / "scores.parquet")
    single, batched, rule = (
        table.filter(pl.col("policy") == c.behaviour.name).drop("policy") for c in found
    )
    assert single.equals(batched)
    assert single.equals(rule)
    described = json.loads((tmp_path / "e" / "evaluation.json").read_text())["policies"]
    assert (described[0]["code"], described[0]["kind"]) == (f"{NAME}:longest", "heuristic")
    assert described[0]["digest"] == source_of(f"{file}:longest").sha256
    assert "code" not in described[2]


@pytest.mark.slow
def test_decisions_of_different_sizes_are_padded(file, tiny_recipe):
    spec = spec_of(tiny_recipe)
    single, batched = (own_policy(f"{file}:{n}", spec)[0] for n in ("longest", "many"))
    rng = np.random.default_rng(0)
    offsets = np.array([0, 3, 4, 9])
    context, rows = rng.random((3, len(spec.context))), rng.random((9, len(spec.candidates)))
    feasible = np.array([1, 0, 1, 1, 0, 0, 1, 1, 0], np.bool_)
    shown = [p.batch_scores(context, rows, offsets, feasible=feasible) for p in (single, batched)]
    assert shown[0].tobytes() == shown[1].tobytes()
    assert (shown[0][feasible] == rows[feasible, spec.column("duration_s")]).all()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raises", rf"raised IndexError: .* \({NAME}.py, line \d+\)"),
        ("wrong_shape", r"returned scores of shape \(\d+, 1\), expected \(\d+,\)"),
        ("text", "returned str, expected numbers of shape"),
        ("not_a_number", "candidate 0, which is feasible, is nan"),
        ("never", "all feasible candidates are -inf"),
        ("writes", "raised ValueError: assignment destination is read-only"),
    ],
)
def test_a_wrong_function_is_named_with_the_place(name, message, file, tiny_recipe, tmp_path):
    found = entrants(tiny_recipe, [f"{file}:{name}"])
    told = f"^{NAME}:{name}: .*{message}.*, at decision 0 of window"
    with pytest.raises(PolicyFault, match=f"{told} 8$"):
        evaluate(tiny_recipe, found, split="test", out=tmp_path / "e")
    recipe = tiny(f"{file}:{name}")
    with pytest.raises(PolicyFault, match=f"{told} 0$"):
        build(recipe, behaviours(recipe), tmp_path / "d")


def test_a_compiled_function_that_raises_is_named(file, tiny_recipe, tmp_path):
    found = entrants(tiny_recipe, [f"{file}:too_many"])
    told = "^too_many: its compiled code raised ValueError: not today, in an episode of window"
    with pytest.raises(PolicyFault, match=f"{told} 8$"):
        evaluate(tiny_recipe, found, split="test", out=tmp_path / "e")
    recipe = tiny(f"{file}:too_many")
    with pytest.raises(PolicyFault, match=f":{told[1:]} 0$"):
        build(recipe, behaviours(recipe), tmp_path / "d")


def test_scores_of_infeasible_candidates_do_not_matter(file, tiny_recipe, tmp_path):
    found = entrants(tiny_recipe, [f"{file}:nothing_known"])
    assert evaluate(tiny_recipe, found, split="test", out=tmp_path / "e").means


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("{}:two", r"takes \(context, candidates\); expected \(context, candidates, feasible\)"),
        ("{}:Rule", "is the class Rule; expected a function"),
        ("{}:number", "is int; expected a function"),
        ("{}:longst", "there is no 'longst'; did you mean 'longest'"),
        ("{0.parent}/own_code_of_test.py:x", "there is no file .*; did you mean .*of_a_test.py"),
        ("no_such_module:x", "Python finds no module 'no_such_module'; give its file"),
        ("sys:path", "sys has no source file"),
    ],
)
def test_what_is_no_policy(reference, message, file, tiny_recipe):
    with pytest.raises(InputError, match=message):
        entrants(tiny_recipe, [reference.format(file)])


def test_a_module_that_fails_is_named(tmp_path, tiny_recipe):
    (tmp_path / "own_broken.py").write_text("1 / 0\n")
    with pytest.raises(InputError, match=r"own_broken.py:x cannot be imported \(ZeroDivision"):
        entrants(tiny_recipe, [f"{tmp_path}/own_broken.py:x"])


def test_a_module_on_the_path(tmp_path, monkeypatch, tiny_recipe):
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "rules.py").write_text("def zero(context, candidates, feasible): return feasible\n")
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = entrants(tiny_recipe, ["own_package.rules:zero"])
    assert (found.behaviour.name, found.code) == ("zero", "own_package.rules:zero")


def test_equal_names_get_the_file(file, tmp_path, tiny_recipe):
    other = tmp_path / "own_other.py"
    text = "def {}(context, candidates, feasible): return candidates[:, 0]\n"
    other.write_text(text.format("longest") + text.format("many"))
    names = [f"{file}:longest", f"{other}:longest", f"{other}:many"]
    found = [c.behaviour.name for c in entrants(tiny_recipe, names)]
    assert found == [f"{NAME}:longest", "own_other:longest", "many"]


def test_paths_are_whole_for_other_processes(file, tiny_recipe, monkeypatch):
    monkeypatch.chdir(file.parent)
    names = ["random", f"{file.name}:longest"]
    assert with_whole_paths(tiny_recipe, names) == ["random", f"{file}:longest"]


@pytest.fixture(scope="module")
def recorded(file, tmp_path_factory):
    """Return a recipe with an own policy that explores, and its dataset."""
    folder = tmp_path_factory.mktemp("recorded") / "d"
    recipe = tiny(f"{file}:longest", "first_fit", epsilon=0.3)
    build(recipe, behaviours(recipe), folder)
    return recipe, folder


def test_a_dataset_names_the_source_and_not_its_place(recorded, file):
    recipe, folder = recorded
    own = recipe.behaviours[0]
    assert own.name == f"{NAME}:longest+eps0.3"
    assert own.sha256 == source_of(f"{file}:longest").sha256
    assert str(file.parent) not in (folder / "manifest.json").read_text()
    assert own.name in (folder / "README.md").read_text()


def test_the_code_of_a_manifest_is_never_run(recorded, monkeypatch, tmp_path):
    """Not even if a module of that name could be imported, or if its file lies in the dataset."""
    _, folder = recorded
    trap = "raise SystemExit('imported')\n"
    (tmp_path / f"{NAME}.py").write_text(trap)
    monkeypatch.syspath_prepend(tmp_path)
    assert list(recorded_behaviours(folder)) == ["first_fit+eps0.3"]
    with pytest.raises(DatasetError, match="a name in a manifest is not imported"):
        behaviours(load_recipe(folder))
    planted = folder / "own_planted.py"
    try:
        planted.write_text(trap)
        with pytest.raises(UnknownName, match="there is no file"):
            load_recipe(folder, [of_behaviours("own_planted.py:longest")])
    finally:
        planted.unlink()
    foreign = load_recipe(folder)
    evaluated = dataclasses.replace(foreign.evaluate, policies=(f"{NAME}:longest",))
    origin = dataclasses.replace(foreign.origin, evaluate=evaluated)
    with pytest.raises(RecipeError, match="cannot name a checkpoint or code outside its dataset"):
        own_policies(dataclasses.replace(foreign, evaluate=evaluated, origin=origin))


def test_a_dataset_is_verified_by_its_choices(recorded):
    _, folder = recorded
    checks = dict(verify(folder, recorded_behaviours(folder)).checks)
    assert f"not known here ({NAME}:longest+eps0.3)" in checks["not compared"]
    assert "replayed in the simulator" in checks["decisions"]


def test_a_changed_source_is_another_recipe(tmp_path):
    file = tmp_path / "own_changed.py"
    file.write_text(CODE)
    before = tiny(f"{file}:longest")
    file.write_text(CODE + "# changed\n")
    assert tiny(f"{file}:longest").digest != before.digest
    with pytest.raises(DatasetError, match="this file was changed: its SHA-256 is"):
        behaviours(before)
    with pytest.raises(RecipeError, match="changed: the SHA-256 of"):
        tiny(f"{file}:longest", sha256=f'"{before.behaviours[0].sha256}"')


def test_workers_get_the_code_from_the_process_that_builds(recorded, file):
    """The folder names the code by its digest alone."""
    recipe, folder = recorded
    plan = shared_plan.recording.make_plan(recipe, behaviours(recipe), load_source(recipe), folder)
    (folder / ".building").mkdir()
    try:
        given = shared_plan.share(plan)
        out, digest = given["out"], given["plan"]
        restored = shared_plan._restore(out, digest, behaviours, given["code"])
        assert restored.recipe.code == {f"{NAME}:longest": f"{file}:longest"}
        with pytest.raises(DatasetError, match="is not imported"):
            shared_plan._restore(out, digest, behaviours, "{}")
        assert str(file.parent) not in (folder / ".building" / "shared.json").read_text()
    finally:
        (folder / ".building" / "shared.json").unlink()
        (folder / ".building").rmdir()


@pytest.mark.slow
def test_an_own_policy_is_estimated_from_a_log(recorded, file):
    """Its estimates are those of the rule with the same formula."""
    settings = OPESettings(
        split="train", epsilon=0.3, truth_seeds=0, estimators=("snis", "pdis"), limit=8
    )
    _, folder = recorded
    rows = evaluate_offline(folder, ["longest_first", f"{file}:longest"], settings).rows
    rule, own = (
        rows.filter(pl.col("policy") == name).drop("policy").select("estimator", "value")
        for name in ("longest_first", "longest")
    )
    assert rule.equals(own)
    assert rule.height == 2


def test_references_and_other_names():
    for text in ("a:b", "a.b.c:d.e", "x/y.py:f", "/x y/z.py:f", "./z.py:F.g"):
        assert is_reference(text), text
    for text in ("tetris", "s3://bucket/a", "a/b", "a/b:c", "agents/x@0.5", "a:1", "a.py", ":b"):
        assert not is_reference(text), text


def test_an_own_agent_is_registered_under_its_name(file):
    assert own_agents.agent_name("cql") == own_agents.reference_of("cql") == "cql"
    for _ in range(2):
        assert own_agents.agent_name(f"{file}:AGENT") == "my_cloning"
    assert isinstance(AGENTS["my_cloning"], Agent)
    assert own_agents.reference_of("my_cloning") == f"{file}:AGENT"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("TAKEN", "another agent is called 'cql'"),
        ("ODD", "the agent is called '../a', expected letters, digits"),
        ("longest", "is function, expected an Agent, which learns from a dataset"),
        ("PLAYER", "is OnlineAgent, expected an Agent"),
        ("AGNT", "there is no 'AGNT'; did you mean 'AGENT'"),
    ],
)
def test_what_is_no_agent(name, message, file):
    with pytest.raises(InputError, match=message):
        own_agents.agent_name(f"{file}:{name}")


@pytest.mark.slow
def test_a_run_with_an_own_policy_and_an_own_agent(file, tmp_path, capsys):
    """From files outside the repository to a report; the same command again does nothing."""
    sets = [
        word
        for value in (*TINY, "train.agents=[]", of_behaviours("random", f"{file}:longest"))
        for word in ("--set", value)
    ]
    command = [
        "run", "binpack-synthetic-v1", *sets, "--agent", f"{file}:AGENT",
        "--policy", f"{file}:many", "--out", str(tmp_path / "run"), "--direct",
    ]  # fmt: skip
    assert main(command) == 0
    described = json.loads((tmp_path / "run" / "evaluation" / "evaluation.json").read_text())
    names = {p["name"] for p in described["policies"]}
    assert {"many", "my_cloning-seed0", f"behaviour:{NAME}:longest"} <= names
    assert "my_cloning" in (tmp_path / "run" / "report.html").read_text()
    before = (tmp_path / "run" / "run.json").read_bytes()
    capsys.readouterr()
    assert main(command) == 0
    assert "train my_cloning-seed0: finished before" in capsys.readouterr().err
    assert (tmp_path / "run" / "run.json").read_bytes() == before


def test_the_command_line_says_it_on_one_line(file, tmp_path, capsys):
    sets = [word for value in TINY for word in ("--set", value)]
    command = [
        "evaluate", "binpack-synthetic-v1", *sets, "--policy", f"{file}:longst",
        "--out", str(tmp_path / "e"), "--direct",
    ]  # fmt: skip
    assert main(command) == 2
    told = capsys.readouterr().err.strip()
    assert "did you mean 'longest'" in told
    assert "\n" not in told
    assert not (tmp_path / "e").exists()


TRAINED = """
def trained(seed):
    def play(context, candidates, feasible):
        return (candidates[:, 0] + seed) % 7.0
    play.agent, play.weights = "ppo", f"ppo-{seed}.bin"
    return play

first, second = trained(0), trained(1)
lost = trained(2)

def odd(context, candidates, feasible):
    return candidates[:, 0]

odd.agent = 7
"""


@pytest.fixture
def agent_file(tmp_path):
    (tmp_path / "own_trained.py").write_text(TRAINED)
    for seed in (0, 1):
        (tmp_path / f"ppo-{seed}.bin").write_bytes(b"weights" * (seed + 1))
    return tmp_path / "own_trained.py"


@pytest.mark.slow
def test_trainings_of_an_outside_agent_are_its_seeds(agent_file, tiny_recipe, tmp_path):
    """They are one learned group in a summary, whose baselines are rules alone."""
    names = [f"{agent_file}:first", f"{agent_file}:second", "tetris"]
    found = entrants(tiny_recipe, names)
    assert [(e.kind, e.group) for e in found[:2]] == [("learned", "ppo")] * 2
    evaluate(tiny_recipe, found, split="test", out=tmp_path / "e")
    rows = results(summarise([tmp_path / "e"])).to_dicts()
    assert {(r["policy"], r["seeds"], r["baseline"]) for r in rows} == {
        ("ppo", 2, "tetris"), ("tetris", 1, None)
    }  # fmt: skip


def test_the_digest_of_an_outside_agent_covers_its_weights(agent_file, tiny_recipe):
    one = entrants(tiny_recipe, [f"{agent_file}:first", f"{agent_file}:second"])
    (agent_file.parent / "ppo-0.bin").write_bytes(b"trained again")
    other = entrants(tiny_recipe, [f"{agent_file}:first", f"{agent_file}:second"])
    assert one[0].digest != one[1].digest
    assert one[0].digest != other[0].digest
    assert one[1].digest == other[1].digest


@pytest.mark.slow
def test_seeds_of_an_agent_are_named_in_one_word(file, agent_file, tiny_recipe, tmp_path):
    """The agent's name on the command line comes before that in the file, which needs none."""
    other = tmp_path / "a,b" / "other_rules.py"
    other.parent.mkdir()
    other.write_text("def first(context, candidates, feasible):\n    return candidates[:, 0]\n")
    seeds = [f"{agent_file}:first", f"{agent_file}:second", f"{other}:first", f"{file}:longest"]
    word = f"mine={','.join(seeds)}"
    found = entrants(tiny_recipe, [word, "tetris"])
    names = ["mine-own_trained:first", "mine-second", "mine-other_rules:first", "mine-longest"]
    assert [e.behaviour.name for e in found] == [*names, "tetris"]
    assert {(e.kind, e.group, e.word) for e in found[:4]} == {("learned", "mine", word)}
    assert len({e.digest for e in found[:4]}) == 4
    assert with_whole_paths(tiny_recipe, [word]) == [word]
    (one,) = entrants(tiny_recipe, [f"mine={file}:longest"])
    assert (one.kind, one.group, one.is_agent) == ("learned", "mine", True)
    evaluate(tiny_recipe, found, split="test", out=tmp_path / "e")
    rows = results(summarise([tmp_path / "e"])).to_dicts()
    assert {(r["policy"], r["seeds"]) for r in rows} == {("mine", 4), ("tetris", 1)}


def test_two_trainings_in_one_file_have_two_digests(file, tiny_recipe):
    """The ledger of looks counts digests: trainings without files of weights count too."""
    one, other = entrants(tiny_recipe, [f"mine={file}:longest,{file}:many"])
    assert one.digest != other.digest


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("mine=tetris", "'tetris' names no functions"),
        ("mine={0},tetris", "names no functions"),
        ("mine={0},{0}", "is named twice, but a seed counts once"),
        ("mine={0}t", "did you mean 'longest'"),
    ],
)
def test_what_is_no_seed(word, message, file, tiny_recipe):
    with pytest.raises(InputError, match=message):
        entrants(tiny_recipe, [word.format(f"{file}:longest")])


@pytest.mark.parametrize(
    ("name", "message"), [("lost", r"ppo-2\.bin are no file"), ("odd", "attribute agent is 7")]
)
def test_what_is_no_outside_agent(name, message, agent_file, tiny_recipe):
    with pytest.raises(InputError, match=message):
        entrants(tiny_recipe, [f"{agent_file}:{name}"])
