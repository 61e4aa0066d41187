"""Tests of cautions: seeds that repeat another, and episodes that a step limit cut off."""

import json

import polars as pl
import pytest

from docs.generate.leaderboard import FOLDER
from hindcast.flows.cli import main
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.evaluation.submissions import unpack
from hindcast.pipeline.evaluation.summary.cautions import CUT_OFF, EQUAL_SEEDS, cautions_of
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.policies.entrants import entrants, evaluated_policies
from hindcast.policies.heuristics import find_rule
from tests.conftest import require_traces
from tests.readable_recipes import READABLE
from tests.representatives import nightly_but

KEPT = {"slots-deeprm-v1", "multicluster-uniform-v1", "thermal-default-v1"}

METRICS = ("makespan_s", "truncated")
# policy -> (kind, values of METRICS by window, weights, delivered)
RULE = ("heuristic", [(10, 0), (20, 0), (30, 0)], None, "")
ONE = ("learned", [(9, 0), (20, 0), (28, 0)], "a", "")
TWO = ("learned", [(8, 0), (21, 0), (28, 0)], "b", "")


def written(folder, **policies):
    """Write an evaluation; `agent_0` and `agent_1` are seeds of `agent`."""
    folder.mkdir()
    rows = [
        (name, "binpack", window, 0, metric, float(value))
        for name, (_, values, _, _) in policies.items()
        for window, pair in enumerate(values)
        for metric, value in zip(METRICS, pair, strict=True)
    ]
    columns = ["policy", "scenario", "window", "seed", "metric", "value"]
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(folder / "scores.parquet")
    evaluation = {
        "recipe": "r", "digest": "ab" * 32, "scenario": "binpack", "split": "test",
        "headline": METRICS[0], "metrics": [{"name": m, "better": "lower"} for m in METRICS],
        "policies": [
            {"name": name, "kind": kind, "group": name.partition("_")[0], "digest": digest,
             "delivered": delivered}
            for name, (kind, _, digest, delivered) in policies.items()
        ],
    }  # fmt: skip
    (folder / "evaluation.json").write_text(json.dumps(evaluation))
    return folder


def test_seeds_that_differ_and_rules_that_agree_have_no_caution(tmp_path):
    folder = written(tmp_path / "a", rule=RULE, other=RULE, agent_0=ONE, agent_1=TWO)
    assert cautions_of(folder) == ()


def test_equal_scores_of_seeds_are_told(tmp_path):
    again = (*ONE[:2], "c", "")
    folder = written(tmp_path / "a", rule=RULE, agent_0=ONE, agent_1=TWO, agent_2=again)
    (found,) = cautions_of(folder)
    assert found.code == EQUAL_SEEDS
    assert found.numbers == {"seeds": 3, "repeated": 1}
    assert "of 3 seeds of agent, 1 repeats" in found.text
    assert "agent_2 has the scores of agent_0 on every window" in found.text


def test_equal_weights_are_told_even_if_choices_were_drawn(tmp_path):
    drawn = ("learned", TWO[1], "a", "")
    folder = written(tmp_path / "a", rule=RULE, agent_0=ONE, agent_1=drawn)
    (found,) = cautions_of(folder)
    assert "agent_1 has the weights of agent_0" in found.text
    other = (*drawn[:2], "a", "")
    folder = written(tmp_path / "b", rule=RULE, agent_0=ONE, other_0=other)
    assert cautions_of(folder) == ()  # another agent, whose seeds are not pooled with these


def test_a_rule_that_gates_delivered_for_several_seeds_is_no_repeated_training(tmp_path):
    rule = (*ONE[:3], "rule")
    folder = written(tmp_path / "a", rule=RULE, agent_0=rule, agent_1=rule)
    assert cautions_of(folder) == ()


def test_one_other_outcome_makes_seeds_different(tmp_path):
    cut = ("learned", [(9, 0), (20, 0), (28, 1)], "b", "")
    (found,) = cautions_of(written(tmp_path / "a", rule=RULE, agent_0=ONE, agent_1=cut))
    assert found.code == CUT_OFF
    assert found.numbers == {"cut": 1, "episodes": 3}
    assert "1 of 3 episodes of agent_1." in found.text
    assert "never" not in found.text


@pytest.mark.slow
def test_a_caution_stands_first_in_the_answer_and_above_the_verdict(tmp_path, capsys):
    stuck = ("learned", [(9, 1), (20, 1), (28, 1)], "a", "")
    folder = written(tmp_path / "a", rule=RULE, agent=stuck)
    assert main(["report", str(folder), "--out", str(tmp_path / "r")]) == 0
    told = "a step limit cut off 3 of 3 episodes of agent, which never ended one by itself"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"caution: {told}")
    page = (tmp_path / "r" / "report.html").read_text()
    assert page.index(told) < page.index('class="verdict"')
    summary = (tmp_path / "r" / "summary.md").read_text()
    assert f"**Caution:** {told}" in summary
    assert summary.index(told) < summary.index(lines[1][:60])


def test_rows_of_the_leaderboard_have_no_caution(tmp_path):
    for file in FOLDER.glob("*.zip"):
        assert cautions_of(unpack(file, tmp_path / file.stem).folder) == (), file.name


@pytest.mark.slow
@pytest.mark.parametrize("name", nightly_but(KEPT, READABLE))
def test_no_rule_of_a_recipe_that_comes_with_hindcast_is_cut_off(name, tmp_path):
    """Problems that end by design after a fixed time terminate there, which is no cut."""
    recipe = load_recipe(name)
    if recipe.trace.format not in {"generated", "synthetic"}:
        require_traces()
    first = recipe.windows("test")[0]
    recipe = load_recipe(name, [f'split.test="{first}..{first}"', "evaluate.seeds=1"])
    rules = [one for one in evaluated_policies(recipe) if find_rule(recipe.scenario, one)]
    assert len(rules) > 1
    evaluate(recipe, entrants(recipe, rules), split="test", out=tmp_path / "ev")
    assert cautions_of(tmp_path / "ev") == ()
