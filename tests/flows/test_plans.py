"""Tests of plans and of the ledger of looks: what a report shows of evaluations that cheat."""

import json
import sys
from pathlib import Path

import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.evaluation import looks
from hindcast.pipeline.evaluation.summary.evaluations import read_evaluation, read_scores
from hindcast.pipeline.evaluation.summary.pairing import read_settings
from hindcast.pipeline.evaluation.summary.planned import planned

LEDGER = Path("cache/looks.jsonl")
FAMILY = "one family, p after Holm's adjustment"
RECIPE = ("slots-demo-v1", "--set", 'split.test="900..909"')
OTHER = ("slots-demo-v1", "--set", 'split.test="910..919"')
AGENT = """
def seed{seed}(context, candidates, feasible):
    return -candidates[:, 0] * {weight}
seed{seed}.agent = "{name}"
seed{seed}.weights = "{name}{seed}.npy"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Run commands in an empty folder with a ledger of its own, and forget the modules in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HINDCAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(looks, "LEDGER", LEDGER.name)
    yield
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in str(getattr(module, "__file__", "")):
            del sys.modules[name]


def agents(name: str, seeds: int = 2, weight: float = 1.0) -> list[str]:
    """Write a file with an agent, whose seeds have weights, and return words that name them."""
    Path(f"{name}.py").write_text(
        "".join(AGENT.format(seed=seed, weight=weight, name=name) for seed in range(seeds))
    )
    for seed in range(seeds):
        Path(f"{name}{seed}.npy").write_text(f"{weight} {seed}")
    return [word for seed in range(seeds) for word in ("--policy", f"{name}.py:seed{seed}")]


RULES = ["--policy", "hold_8", "--policy", "sjf_now"]


def plan(policies: list[str], recipe=RECIPE, out="plan.json", code=0) -> None:
    assert main(["plan", *recipe, *policies, "--out", out]) == code


def evaluate(policies=(), recipe=RECIPE, out="ev", of_plan="plan.json") -> list[str]:
    """Evaluate and return the deviations from the plan."""
    named = ["--plan", of_plan] if of_plan else []
    assert main(["evaluate", *recipe, *policies, *named, "--out", out]) == 0
    of_plan = read_evaluation(Path(out)).plan
    return list(of_plan.deviations) if of_plan else []


@pytest.mark.slow
def test_what_was_planned_is_one_family_of_comparisons(capsys):
    plan([*RULES, *agents("a"), *agents("b", weight=-1.0)])
    assert "2 comparisons on test" in capsys.readouterr().out
    assert evaluate() == []
    out = capsys.readouterr().out.splitlines()
    rows = out[out.index(f"planned: 2 comparisons, {FAMILY}") + 1 :]
    assert {row.split(":")[0].strip() for row in rows} == {"a less hold_8", "b less hold_8"}
    assert all("MDE" in row for row in rows)
    assert main(["report", "ev", "--out", "r/report.html"]) == 0
    page = Path("r/report.html").read_text()
    assert "Planned comparisons" in page
    assert "Holm" in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policies", "said"),
    [
        (lambda: [*RULES, *agents("a", seeds=1)], ["seed1 was planned and is not scored"]),
        (lambda: [*RULES[:2], *agents("a")], ["sjf_now was planned and is not scored"]),
        (lambda: [*RULES, *agents("a"), *agents("b")],
         ["b:seed0 is scored and was not planned", "b:seed1 is scored and was not planned"]),
        (lambda: [*RULES, *agents("a", weight=2.0)], ["seed0 has changed", "seed1 has changed"]),
    ],
    ids=["one seed is left out", "a rule is left out", "an agent is added", "another training"],
)  # fmt: skip
def test_other_policies_than_planned_are_named(policies, said, capsys):
    plan([*RULES, *agents("a")])
    found = evaluate(policies())
    for part in said:
        assert any(part in each or part.replace("seed", "a:seed") in each for each in found)
    assert "This evaluation deviates from its plan of" in capsys.readouterr().err


@pytest.mark.slow
def test_an_agent_that_is_left_out_counts_in_the_family():
    """Whoever scores one of two agents does not get the p-value of a single comparison."""
    p = []
    for planned_agents in (agents("a"), [*agents("a"), *agents("b", weight=-1.0)]):
        Path("plan.json").unlink(missing_ok=True)
        plan([*RULES, *planned_agents])
        evaluate([*RULES, *agents("a")], out=f"ev{len(p)}")
        (found,) = planned(*read_settings([Path(f"ev{len(p)}")]))
        p.append(found.p)
    assert 0.0 < p[1] == pytest.approx(2.0 * p[0])


@pytest.mark.slow
def test_other_windows_and_another_recipe_are_named():
    plan([*RULES, *agents("a")])
    assert evaluate(recipe=OTHER) == [
        "the windows are others than those of test in "
        + json.loads(Path("plan.json").read_text())["recipe"]
    ]
    changed = (*RECIPE, "--set", "evaluate.seeds=7")
    assert "was changed (digest" in evaluate(recipe=changed, out="ev2")[0]
    assert evaluate(["--split", "validation"], out="ev3")[0].startswith("the windows are others")


@pytest.mark.slow
def test_settings_of_the_plan_need_not_be_given_again():
    plan([*RULES, *agents("a")])
    assert evaluate(recipe=RECIPE[:1]) == []
    assert set(read_scores(Path("ev"))["window"]) == set(range(900, 910))
    own = (*RECIPE[:2], 'split.test="900..903"')
    assert evaluate(recipe=own, out="ev2")[0].startswith("the windows are others")


@pytest.mark.slow
def test_a_plan_after_the_look_is_named():
    policies = [*RULES, *agents("a", seeds=1)]
    evaluate(policies, of_plan="")
    earlier = json.loads(LEDGER.read_text()) | {"time": "2020-01-01T00:00:00+00:00"}
    LEDGER.write_text(json.dumps(earlier) + "\n")
    plan(policies)
    assert evaluate(out="ev2") == ["seed0 had been scored on these windows before the plan"]


@pytest.mark.slow
def test_agents_that_were_tried_before_are_counted(capsys):
    for trial in range(3):
        evaluate([*RULES, *agents(f"t{trial}", seeds=1)], of_plan="", out=f"trial{trial}")
    evaluate([*RULES, *agents("t0", seeds=1)], of_plan="", out="again")
    evaluate([*RULES, *agents("t3", seeds=1)], OTHER, of_plan="", out="elsewhere")
    plan([*RULES, *agents("t9", seeds=1)])
    assert "3 other agents have been scored on these windows" in capsys.readouterr().out
    evaluate()
    assert read_evaluation(Path("ev")).looks == 3
    assert main(["report", "ev", "--out", "r/report.html"]) == 0
    assert "3 other agents had been scored on these windows" in Path("r/report.html").read_text()


@pytest.mark.slow
def test_a_look_at_some_of_the_windows_counts(capsys):
    some = (RECIPE[0], "--set", 'split.test="905..905"')
    evaluate([*RULES, *agents("t", seeds=1)], some, of_plan="")
    plan([*RULES, *agents("a", seeds=1)])
    assert "1 other agent has been scored on these windows" in capsys.readouterr().out


@pytest.mark.slow
def test_validation_windows_and_rules_are_no_looks():
    evaluate([*RULES, *agents("a"), "--split", "validation"], of_plan="")
    evaluate(RULES, of_plan="", out="ev2")
    assert not LEDGER.exists()
    assert read_evaluation(Path("ev")).looks is None


@pytest.mark.slow
def test_without_a_cache_nothing_is_counted(monkeypatch, capsys):
    monkeypatch.setenv("HINDCAST_CACHE", "")
    evaluate([*RULES, *agents("a")], of_plan="")
    assert read_evaluation(Path("ev")).looks is None
    plan([*RULES, *agents("a")])
    assert "looks at these windows are not counted" in capsys.readouterr().out
    evaluate(out="ev2")
    assert read_evaluation(Path("ev2")).plan.looks is None
    assert main(["report", "ev2", "--out", "r/report.html"]) == 0
    assert "had been scored" not in Path("r/report.html").read_text()


def test_a_damaged_digest_of_a_plan_is_named(capsys):
    plan([*RULES, *agents("a", seeds=1)])
    of_plan = json.loads(Path("plan.json").read_text())
    of_plan["policies"][-1]["digest"] = []
    Path("plan.json").write_text(json.dumps(of_plan))
    assert main(["evaluate", *RECIPE, "--plan", "plan.json", "--out", "ev"]) == 2
    assert "this evaluation plan is damaged" in capsys.readouterr().err


@pytest.mark.slow
def test_a_ledger_that_cannot_be_read_counts_nothing():
    """What is unknown is no 0."""
    LEDGER.mkdir(parents=True)
    evaluate([*RULES, *agents("a")], of_plan="")
    assert read_evaluation(Path("ev")).looks is None


@pytest.mark.slow
def test_a_damaged_ledger_is_no_error():
    Path("cache").mkdir()
    LEDGER.write_bytes(b'{"time": 1\n\xff\n{}\n[]\n"x"\n')
    evaluate([*RULES, *agents("a")], of_plan="")
    assert read_evaluation(Path("ev")).looks == 0


@pytest.mark.slow
def test_a_plan_is_not_replaced_and_needs_two_sides(capsys):
    plan([*RULES, *agents("a")])
    plan([*RULES, *agents("a")], code=2)
    assert "a plan is not replaced" in capsys.readouterr().err
    plan(RULES, out="p2.json", code=2)
    assert "there is nothing to plan" in capsys.readouterr().err
    plan(agents("a"), out="p2.json", code=2)
    assert "name the rules to compare with" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"kind": "evaluation plan", "version": 1}', "{", '"plan"']
)
def test_what_is_no_plan_is_refused(content, capsys):
    Path("plan.json").write_text(content)
    words = ["evaluate", *RECIPE, *RULES, "--plan", "plan.json", "--out", "ev"]
    assert main(words) == 2
    assert "plan.json" in capsys.readouterr().err
    assert not Path("ev").exists()


DRAWN = ("slots-demo-v1", "--set", 'split.test="900..979"')


@pytest.mark.slow
def test_a_planned_stop_is_no_deviation_and_an_unplanned_one_is(capsys):
    pair = ["--policy", "hold_8", *agents("a")]
    plan([*pair, "--until", "decided"], DRAWN)
    assert evaluate(recipe=DRAWN) == []
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith("decided: a less hold_8 is")
    assert "of 80 windows" in out
    plan(pair, DRAWN, out="other.json")
    found = evaluate(["--until", "decided"], DRAWN, "ev2", "other.json")
    assert "windows are played until it is decided, which was not planned" in found


def test_a_stop_is_planned_for_two_policies(capsys):
    plan([*RULES, *agents("a"), "--until", "decided"], DRAWN, code=2)
    assert "--until decided compares two policies, found 3" in capsys.readouterr().err


def test_a_stop_when_decided_is_refused_on_other_processes(tmp_path, capsys):
    words = ["--policy", "hold_8", "sjf_now", "--until", "decided", "--runner", "dask"]
    assert main(["evaluate", *DRAWN, *words, "--out", str(tmp_path / "e"), "--direct"]) == 2
    assert "--until decided plays in this process; leave out --runner dask" in (
        capsys.readouterr().err
    )
