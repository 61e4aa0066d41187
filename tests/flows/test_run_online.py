"""Tests of whole runs with several seeds of online agents."""

import csv
import json

import pytest

from hindcast.flows import cli
from hindcast.flows.commands import run
from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.recipes.loading import load_recipe

pytestmark = pytest.mark.slow

SMALL = [
    "config.steps=10",
    'split.train="0..3"',
    'split.validation="200..201"',
    'split.test="250..253"',
    'evaluate.policies=["random", "sjf_now"]',
    "evaluate.seeds=1",
    'evaluate.metrics=["mean_completion"]',
    "online.iterations=3",
    "online.settings.sampling={trajectories=3, windows=2}",
    "online.settings.network={hidden=[4]}",
]


def words(*overrides):
    return [word for o in overrides for word in ("--set", o)]


@pytest.fixture(scope="module")
def metric():
    """Return an outcome of slots that is not its headline metric."""
    from hindcast.pipeline.scenarios import load_scenario

    recipe = load_recipe("slots-deeprm-online")
    spec = load_scenario("slots").spec(recipe.config, recipe.objective)
    return next(o.name for o in spec.outcomes[1:] if o.better != "neither")


@pytest.fixture(scope="module")
def done(metric, tmp_path_factory):
    """Return a finished run with two seeds, and the overrides that made it."""
    out = tmp_path_factory.mktemp("online") / "run"
    overrides = [*SMALL[:6], f'evaluate.metrics=["{metric}"]', *SMALL[7:], "online.seeds=[0, 1]"]
    argv = ["run", "slots-deeprm-online", *words(*overrides), "--direct", "--out", str(out)]
    assert cli.main(argv) == 0
    return out, argv


def test_every_seed_is_trained_scored_and_reported(done, metric):
    """Last and best checkpoints are scored, too. Without behaviours nothing is recorded."""
    out, _ = done
    assert not (out / "dataset").exists()
    about = json.loads((out / "evaluation" / "evaluation.json").read_text())
    names = {p["name"] for p in about["policies"]}
    assert {"random", "sjf_now", "reinforce-seed0", "reinforce-seed1"} <= names
    assert {"reinforce-best-seed0", "reinforce-best-seed1"} <= names
    rows = list(csv.DictReader((out / "results.csv").read_text().splitlines()))
    agent = [r for r in rows if r["policy"] == "reinforce" and r["baseline"] == "sjf_now"]
    assert [r["metric"] for r in agent] == ["mean_slowdown", metric]
    assert {r["seeds"] for r in agent} == {"2"}
    page = (out / "report.html").read_text()
    assert "2 runs of 1 agent" in page
    assert "bands 95 % intervals of single steps" in page


def test_given_again_nothing_is_done_again(done, capsys):
    out, argv = done
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}
    assert cli.main(argv) == 0
    assert capsys.readouterr().err.count("finished before, skipped") == 4
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()} == before


def test_a_run_may_record_learn_imitate_and_play(tmp_path):
    """[train] and [online] make one list of stages, and online agents imitate the dataset."""
    overrides = [
        *SMALL[:6],
        *SMALL[7:],
        'behaviours=[{policy="sjf_now", epsilon=0.1, episodes=2}]',
        'train.agents=["behaviour_cloning"]',
        "train.steps=5",
        "online.imitate_steps=5",
    ]
    request = run.Request("slots-deeprm-online", str(tmp_path / "run"), tuple(overrides))
    found = run.run(request)["stages"]
    assert list(found) == [
        "build", "verify", "train behaviour_cloning-seed0", "train reinforce-seed0", "evaluate",
        "report",
    ]  # fmt: skip
    assert (tmp_path / "run/agents/reinforce-seed0/imitation/checkpoint.json").is_file()
    assert "behaviour:sjf_now+eps0.1" in found["evaluate"]["means"]


def test_seeds_have_a_folder_each_and_say_so(tmp_path, capsys):
    argv = ["train-online", "slots-deeprm-online", *words(*SMALL[:6], *SMALL[7:]), "--direct"]
    argv += ["--seeds", "3", "1", "--out", str(tmp_path / "s"), "--json"]
    assert cli.main(argv) == 0
    said = capsys.readouterr()
    results = [json.loads(line) for line in said.out.splitlines()]
    assert [r["seed"] for r in results] == [3, 1]
    assert results[0]["checkpoint"] == str(tmp_path / "s" / "runs" / "reinforce-seed3")
    assert "training 1 of 2: reinforce-seed3" in said.err
    assert (tmp_path / "s" / "runs" / "reinforce-seed1" / "best" / "checkpoint.json").is_file()


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("online.seeds=[]", "expected one or more"),
        ("online.seeds=[1, 1]", "one or more different seeds"),
        ("online.imitate_steps=5", "no dataset to imitate"),
        ('train.agents=["cql"]', "no dataset to learn from"),
        ('evaluate.metrics=["mean_slowdon"]', "did you mean 'mean_slowdown'"),
        ("online.settings.learning_rat=1", "did you mean 'learning_rate'"),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_it_starts(override, said, tmp_path, capsys):
    argv = ["run", "slots-deeprm-online", *words(override), "--direct", "--out"]
    assert cli.main([*argv, str(tmp_path / "x")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_new_keys_leave_digests_alone_and_enter_them_where_they_are_given():
    plain = load_recipe("slots-deeprm-online")
    assert plain.digest == "dac024d0e308913c3a87d829d76134f9d447690747d2d1242bf38ef34a4aba0e"
    for override in (
        "online.seeds=[0, 1]",
        "online.imitate_steps=9",
        'evaluate.metrics=["return"]',
        "config.foresight=true",
    ):
        assert load_recipe("slots-deeprm-online", [override]).digest != plain.digest
    with pytest.raises(RecipeError, match="did you mean 'seeds'"):
        load_recipe("slots-deeprm-online", ["online.seed=1"])
