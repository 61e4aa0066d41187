"""Policy names and checkpoint folders as what an evaluation scores."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.evaluate import Candidate
from pipeline.recipe import Recipe
from pipeline.scenario import load_scenario
from pipeline.schema import Spec
from policies.checkpoint import read_description
from policies.registry import heuristics, resolve


def candidates(recipe: Recipe, names: Sequence[str]) -> list[Candidate]:
    """The policies of `names`, in that order and each once, with names that tell them apart.

    A checkpoint is called <agent>-seed<seed>, as `hindcast run` calls its folder; where two are
    called the same, the beginning of the digest of their weights is added.
    """
    scenario = load_scenario(recipe.scenario)
    spec = scenario.spec(recipe.config, recipe.objective)
    found = [_candidate(name, recipe.scenario, spec) for name in dict.fromkeys(names)]
    count = Counter(c.behaviour.name for c in found)
    return [_distinct(c) if count[c.behaviour.name] > 1 else c for c in found]


def _candidate(name: str, scenario: str, spec: Spec) -> Candidate:
    behaviour = resolve(name, scenario, spec)
    if name in heuristics(scenario):
        kind = "random" if behaviour.stochastic else "heuristic"
        return Candidate(behaviour, kind, behaviour.name)
    description = read_description(Path(name))
    training = description.get("training")
    seed = training.get("seed") if isinstance(training, dict) else None
    named = behaviour if seed is None else replace(behaviour, name=f"{behaviour.name}-seed{seed}")
    digest = description["weights"]["sha256"]
    return Candidate(named, "learned", behaviour.name, str(Path(name)), digest)


def _distinct(candidate: Candidate) -> Candidate:
    if candidate.digest is None:
        return candidate
    name = f"{candidate.behaviour.name}-{candidate.digest[:8]}"
    return replace(candidate, behaviour=replace(candidate.behaviour, name=name))
