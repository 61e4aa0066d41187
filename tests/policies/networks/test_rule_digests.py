"""A rule is known by what it does, so that its code can be written in another way."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.recipes.shipped import recipe_folder
from hindcast.pipeline.scenarios import SCENARIOS, load_scenario
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.policy import Heuristic
from hindcast.policies.networks.checkpoint import load_policy
from hindcast.policies.networks.rule_digests import _of_sources, current, digest_of
from hindcast.policies.networks.rules import find_rules, rankable

ROOT = Path(__file__).resolve().parents[3]
RELEASED = sorted(p.parent for p in recipe_folder().glob("*/agents/**/checkpoint.json"))
AREA, CORES = 3, 0  # columns of deferrable: duration, cores


@pytest.mark.slow
def test_every_rule_of_a_scenario_has_a_digest_of_its_own():
    """The observations tell rules apart that differ in a threshold only, such as hold_5, hold_8."""
    for scenario in SCENARIOS:
        loaded = load_scenario(scenario)
        features = loaded.spec(loaded.config(), loaded.objectives[0]).candidates
        found = {name: digest_of(scenario, r, features) for name, r in rankable(scenario).items()}
        plain = {d for name, d in found.items() if not rankable(scenario)[name].needs}
        assert len(plain) == sum(not r.needs for r in rankable(scenario).values()), scenario


@pytest.mark.slow
def test_digests_are_those_of_the_table():
    """The table would not help a checkpoint if rules or observations had changed since."""
    known = set(_of_sources().values())
    for scenario in ("slots", "multicluster", "deferrable", "binpack", "thermal"):
        for rule in rankable(scenario).values():
            later = rule.name in {"now", "latest"} or "cost_now" in rule.needs  # those of grids
            assert (digest_of(scenario, rule) in known) != later, rule.name


@k.compiled(k.SCORE)
def _shorter(context, candidates, feasible, parameters, scores):
    for i in range(len(scores)):
        scores[i] = -candidates[i, 1]


@k.compiled(k.SCORE)
def _shorter_in_another_way(context, candidates, feasible, parameters, scores):
    for row in range(len(scores)):
        duration = candidates[row, 1]
        scores[row] = 100.0 - 2.0 * duration


@k.compiled(k.SCORE)
def _shorter_of_halves(context, candidates, feasible, parameters, scores):
    for i in range(len(scores)):
        scores[i] = -np.floor(2.0 * candidates[i, 1])


@k.compiled(k.SCORE)
def _narrower(context, candidates, feasible, parameters, scores):
    for i in range(len(scores)):
        scores[i] = -candidates[i, 0]


def test_a_digest_is_of_the_order_and_not_of_the_code():
    def of(score):
        return digest_of("deferrable", Heuristic("one", score))

    assert of(_shorter) == of(_shorter_in_another_way)
    others = {of(_shorter_of_halves), of(_narrower), of(rankable("deferrable")["sjf"].score)}
    assert len(others | {of(_shorter)}) == 4


def test_a_digest_of_source_text_stands_for_what_the_rule_did():
    source, behaviour = next(iter(_of_sources().items()))
    assert current(source) == behaviour == current(behaviour)
    assert current(None) is None


def test_a_checkpoint_with_an_unknown_digest_is_refused():
    rules = find_rules(
        "slots",
        ("hold_5",),
        load_scenario("slots").spec(load_scenario("slots").config(), "slowdown").candidates,
    )
    rules.require({"hold_5": rules.digests[0]}, "here")
    for wrong in ("0" * 64, None, 3):
        with pytest.raises(DatasetError, match="here: rule 'hold_5', whose columns"):
            rules.require({"hold_5": wrong}, "here")


def with_other_names(text: str) -> str:
    """Return source code with another name for every local of every function, and annotations."""
    tree = ast.parse(text)
    for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
        taken = {a.arg for a in function.args.args}
        inner = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
        own = {n.id for n in inner if isinstance(n.ctx, ast.Store)} - taken
        for name in inner:
            if name.id in own:
                name.id += "_renamed"
        for argument in function.args.args:
            argument.annotation = argument.annotation or ast.Constant("object")
    return ast.unparse(tree)


def _of_default_columns() -> dict[str, Heuristic]:
    """Return the rules of `deferrable` that read no column of a grid."""
    return {name: rule for name, rule in rankable("deferrable").items() if not rule.needs}


@pytest.mark.nightly
@pytest.mark.slow
def test_rules_that_are_renamed_moved_and_annotated_load_every_released_checkpoint(tmp_path):
    """In a copy, every local of the rules has another name, and a module of rules has moved."""
    for package in ("pipeline", "policies", "flows"):
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    for file in ("hindcast.py", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path)
    rules = tmp_path / "policies" / "heuristics"
    changed = 0
    for path in sorted(rules.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        other = with_other_names(text).replace(
            "hindcast.policies.heuristics.knapsack", "hindcast.policies.heuristics.exact_set"
        )
        changed += other.count("_renamed")
        path.write_text(other, encoding="utf-8")
    (rules / "knapsack.py").rename(rules / "exact_set.py")
    assert changed > 300
    known = {n: digest_of("deferrable", rule) for n, rule in _of_default_columns().items()}
    script = f"""
import sys
from pathlib import Path
from hindcast import policies
from hindcast.policies.networks.checkpoint import load_policy
from hindcast.policies.networks.rules import rankable
from hindcast.policies.networks.rule_digests import digest_of
assert policies.__path__[0].startswith({str(tmp_path)!r}), policies.__path__
for folder in {list(map(str, RELEASED))!r}:
    load_policy(Path(folder))
for name, known in {known!r}.items():
    assert digest_of("deferrable", rankable("deferrable")[name]) == known, name
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr


def test_released_checkpoints_have_rules():
    """The test above would show nothing if no checkpoint read the columns of rules."""
    found = [json.loads((p / "checkpoint.json").read_text()).get("rules") for p in RELEASED]
    assert len(found) >= 52
    assert sum(map(bool, found)) >= 16
    assert load_policy(RELEASED[0]).network.rules is not None
