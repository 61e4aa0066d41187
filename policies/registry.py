"""Names to policies: what a recipe, a command line or a checkpoint folder means."""

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.dataset.manifest import read_manifest
from pipeline.errors import DatasetError, InputError, UnknownName, did_you_mean
from pipeline.recipes.checkpoints import check_checkpoint
from pipeline.recipes.recipe import BehaviourRecipe, Recipe
from pipeline.scenarios import SCENARIOS, load_scenario
from pipeline.simulation.policy import Behaviour, Heuristic
from pipeline.simulation.spec import Spec
from pipeline.storage.location import location
from policies.heuristics import heuristics

if TYPE_CHECKING:  # it compiles
    from policies.networks.policy import LearnedPolicy

ROLLOUT: Final = "rollout"  # of rules, or FOLDER@rollout: see policies.rollouts.lookahead

# How a rule behaves where nothing else is said: (epsilon, temperature).
_EXPLORING: Final[Mapping[str, tuple[float, float]]] = {
    "random": (1.0, 0.0),
    "random_reference": (0.0, 1.0),  # its scores are log-probabilities
}


def split_checkpoint_name(name: str) -> tuple[str, float | str]:
    """A checkpoint's folder, and the temperature or the rule behind its @; 0.0 without one.

    FOLDER takes the best candidate; FOLDER@1 draws from softmax(scores / 1), as an agent that
    learns by playing does in training; FOLDER@RULE and FOLDER@rollout see `resolve`. Raises
    InputError for a number that is no temperature.
    """
    folder, _, given = name.rpartition("@")
    if not folder or "/" in given or location(name).exists() or not location(folder).exists():
        return name, 0.0
    try:
        temperature = float(given)
    except ValueError:
        return folder, given
    if not 0.0 < temperature < math.inf:
        raise InputError(
            f"{name}: {given!r} is no temperature, expected a number above 0, as in {folder}@1"
        )
    return folder, temperature


def resolve(name: str, scenario: str, spec: Spec) -> Behaviour:
    """Return the behaviour that a name stands for: of a rule, or of a checkpoint's folder.

    FOLDER@RULE is the network led by a rule, where a candidate is a pair of things and the network
    can leave the first one to the rule (policies.papers.liu.network). FOLDER@rollout looks ahead
    with the network and variants of it, `rollout` with the rules that draw nothing
    (policies.rollouts.lookahead).

    Raises UnknownName with the nearest name, DatasetError where the folder is no checkpoint or was
    trained on other features than the spec's, InputError for a rule that cannot lead it, or where
    nothing can look ahead.
    """
    known = heuristics(scenario)
    if name in known:
        epsilon, temperature = _EXPLORING.get(name, (0.0, 0.0))
        return Behaviour(name, known[name], epsilon, temperature)
    if name == ROLLOUT:
        _require_forgetting(name, scenario)
        from policies.rollouts.lookahead import rollouts_of_rules

        still = [known[rule] for rule in _still(known)]
        return Behaviour(name, rollouts_of_rules(name, still, spec))
    path, asked = split_checkpoint_name(name)
    folder = location(path)
    if folder.exists():
        from policies.networks.checkpoint import load_policy

        policy = load_policy(folder)
        policy.check(spec)
        if asked == ROLLOUT:
            _require_forgetting(name, scenario)
            from policies.rollouts.lookahead import rollouts_of

            return Behaviour(policy.name, rollouts_of(policy))
        if isinstance(asked, str):
            return Behaviour(policy.name, _led(name, policy, asked, known))
        return Behaviour(policy.name, policy, temperature=asked)
    if folder.name != name:
        raise DatasetError(f"{name}: no such checkpoint folder")
    choices = [*known, ROLLOUT] if load_scenario(scenario).forget is not None else known
    raise UnknownName(
        f"unknown policy {name!r} of scenario {scenario}; {did_you_mean(name, choices)} "
        "(or give the folder of a checkpoint)"
    )


def _led(
    name: str, policy: "LearnedPolicy", rule: str, known: Mapping[str, Heuristic]
) -> "LearnedPolicy":
    """A network that leaves a part of its choice to a rule that draws nothing."""
    from policies.papers.liu.network import ClustersPolicy

    if not isinstance(policy, ClustersPolicy):
        raise InputError(
            f"{name}: {rule!r} is no temperature, expected a number above 0; a rule can lead "
            "networks of kind 'clusters' alone"
        )
    leading = _still(known)
    if rule not in leading:
        raise UnknownName(
            f"{name}: {rule!r} is neither a temperature nor a rule that draws nothing; "
            f"{did_you_mean(rule, leading)}"
        )
    return policy.led_by(known[rule])


def _still(known: Mapping[str, Heuristic]) -> list[str]:
    """The rules that draw nothing."""
    return [name for name, rule in known.items() if name not in _EXPLORING and rule.draw is None]


def _require_forgetting(name: str, scenario: str) -> None:
    """InputError where copies of an episode would show what is to come."""
    if load_scenario(scenario).forget is None:
        able = [one for one in SCENARIOS if load_scenario(one).forget is not None]
        raise InputError(
            f"{name}: nothing can look ahead in {scenario}, which cannot forget what is to come; "
            f"expected one of the scenarios {', '.join(able)}"
        )


def behaviours(recipe: Recipe) -> dict[str, Behaviour]:
    """The behaviours of a recipe by their names."""
    known = heuristics(recipe.scenario)
    return {
        b.name: _checkpoint(b, recipe) if b.sha256 else _behaviour(b, known, recipe)
        for b in recipe.behaviours
    }


def recorded_behaviours(dataset: Path) -> dict[str, Behaviour]:
    """Return the behaviours of a dataset's recipes by name, as far as they are known here.

    A broken manifest is for the verification to name; probabilities of rules that are not here are
    verified as they stand.
    """
    known: dict[str, Behaviour] = {}
    with contextlib.suppress(InputError):
        for recipe in read_manifest(dataset).recipes:
            known |= behaviours(recipe)
    return known


def _checkpoint(behaviour: BehaviourRecipe, recipe: Recipe) -> Behaviour:
    """A behaviour that is a checkpoint; DatasetError where that is missing, or has changed."""
    from policies.networks.checkpoint import load_policy

    folder = recipe.places.get(behaviour.policy)
    if folder is None:
        raise DatasetError(f"{recipe.id}: nobody knows where the checkpoint {behaviour.policy} is")
    check_checkpoint(folder, behaviour.sha256)
    policy = load_policy(folder)
    policy.check(load_scenario(recipe.scenario).spec(recipe.config, recipe.objective))
    return Behaviour(behaviour.name, policy, behaviour.epsilon, behaviour.temperature)


def _behaviour(
    behaviour: BehaviourRecipe, known: Mapping[str, Heuristic], recipe: Recipe
) -> Behaviour:
    if behaviour.policy not in known:
        raise UnknownName(
            f"{recipe.id}: unknown policy {behaviour.policy!r} in [[behaviours]]; "
            f"{did_you_mean(behaviour.policy, known)}"
        )
    epsilon, temperature = _EXPLORING.get(behaviour.policy, (0.0, 0.0))
    return Behaviour(
        behaviour.name,
        known[behaviour.policy],
        behaviour.epsilon or epsilon,
        behaviour.temperature or temperature,
    )
