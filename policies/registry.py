"""Policies by name, as recipes and command lines give them.

A name is that of a rule, a checkpoint or a rollout, or a reference to a policy of the user's own.
"""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hindcast.pipeline.dataset.manifest import read_manifest
from hindcast.pipeline.errors import DatasetError, InputError, UnknownName, did_you_mean, is_path
from hindcast.pipeline.plugins import Source, is_reference
from hindcast.pipeline.recipes.checkpoints import check_checkpoint
from hindcast.pipeline.recipes.recipe import BehaviourRecipe, Recipe
from hindcast.pipeline.scenarios import SCENARIOS, load_scenario
from hindcast.pipeline.simulation.memory_rules import MemoryRule
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage.location import location
from hindcast.policies.heuristics import find_rule, heuristics, rules
from hindcast.policies.heuristics.needs import require_columns
from hindcast.policies.own_policy import own_policy

if TYPE_CHECKING:  # importing them compiles kernels
    from hindcast.policies.networks.policy import LearnedPolicy
    from hindcast.policies.rollouts.lookahead import ImaginedRollouts, RolloutPolicy

ROLLOUT: Final = "rollout"  # also FOLDER@rollout and RULE@rollout, see hindcast.policies.rollouts

# What may follow, as in RULE@rollout+futures=16+errors=2: what it sets, whether it is a whole
# number, the least and the largest value.
_Settings: TypeAlias = Mapping[str, tuple[str, type[int] | type[float], float, float]]
_IMAGINED: Final[_Settings] = {
    "futures": ("futures", int, 2, 1024),
    "candidates": ("candidates", int, 2, 100_000),
    "decisions": ("horizon", int, 0, 100_000),
    "errors": ("errors", float, 0.0, 100.0),
}
_OF_RULES: Final[_Settings] = {"drawn": ("drawn", int, 1, 1024)}

# If a scenario has more deterministic rules, FOLDER@rollout has none of them among its members:
# the 64 of `queue` would take most of the time.
_MOST_RULES: Final = 16


def split_checkpoint_name(name: str) -> tuple[str, float | str]:
    """Split a checkpoint's name into its folder and the temperature or rule after the @.

    The second part is 0.0 if the name has no @. FOLDER takes the best candidate; FOLDER@1 draws
    from softmax(scores / 1), as an online agent does in training; for FOLDER@RULE and
    FOLDER@rollout see `resolve`. Raises InputError if the number is not a temperature.
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
            f"{name}: {given!r} is not a temperature; expected a number above 0, as in {folder}@1"
        )
    return folder, temperature


def rule_that_looks_ahead(name: str, scenario: str) -> str | None:
    """Return the rule of a name RULE@rollout; None for any other name."""
    rule, _, asked = name.rpartition("@")
    return rule if looks_ahead(asked) and find_rule(scenario, rule) is not None else None


def looks_ahead(asked: str) -> bool:
    """Return whether a policy, or the part of its name after the @, looks ahead."""
    return asked.partition("+")[0] == ROLLOUT


def _settings_ahead(name: str, known: _Settings) -> dict[str, Any]:
    """Return the settings that a name ...rollout+SETTING=NUMBER gives.

    Raises InputError for a setting that is not `known`, a repeated one, and a number that is out of
    range.
    """
    found = dict[str, Any]()
    for part in name.rpartition("@")[2].split("+")[1:]:
        setting, _, number = part.partition("=")
        if setting not in known:
            raise InputError(f"{name}: no setting {setting!r}; {did_you_mean(setting, known)}")
        member, kind, least, most = known[setting]
        try:
            value = kind(number)
        except ValueError:
            value = math.nan
        if not least <= value <= most or member in found:
            raise InputError(
                f"{name}: {part!r}, expected one {setting}= with "
                f"{'a whole number' if kind is int else 'a number'} from {least} to {most}"
            )
        found[member] = value
    return found


def resolve(name: str, scenario: str, spec: Spec) -> Behaviour:
    """Return the behaviour of a name: a rule, a checkpoint folder, rollouts of either, or own code.

    FOLDER@RULE is a network that leaves a part of its choice to a rule: a candidate is a pair, and
    the rule chooses the first member (LearnedPolicy.led_by). FOLDER@rollout looks ahead with the
    network, variants of it and, unless they are many, the deterministic rules; `rollout` with the
    rules alone, rollout+drawn=40 with them and 40 drawn linear priorities
    (hindcast.policies.rollouts.lookahead); where the scenario draws futures,
    FOLDER@rollout and RULE@rollout try all candidates in these, by default in eight, and in 16 with
    RULE@rollout+futures=16; for +candidates=, +decisions= and +errors= see ImaginedRollouts.
    MODULE:NAME and FILE.py:NAME are policies of the user's own (hindcast.policies.own_policy).

    Raises UnknownName with the nearest name; DatasetError if the folder is not a checkpoint or was
    trained on other features than the spec's; InputError if the rule cannot lead the network, or if
    the scenario does not support lookahead.
    """
    known, every = heuristics(scenario), rules(scenario)
    rule = find_rule(scenario, name)
    if rule is not None:
        if isinstance(rule, Heuristic):
            require_columns(name, rule.needs, spec)
        return Behaviour(name, rule, *rule.exploration)
    if looks_ahead(name):
        if load_scenario(scenario).imagines:
            raise InputError(
                f"{name}: scenario {scenario} looks ahead in drawn futures with one rule; expected "
                f"RULE@{ROLLOUT}, such as {_still(known)[-1]}@{ROLLOUT}"
            )
        _require_forgetting(name, scenario)
        from hindcast.policies.rollouts.lookahead import rollouts_of_rules

        members = _looking_ahead_with(known, spec)
        drawn = _settings_ahead(name, _OF_RULES)
        return Behaviour(name, rollouts_of_rules(name, members, spec, **drawn))
    leading = rule_that_looks_ahead(name, scenario)
    if leading is not None:
        return Behaviour(name, _rule_looking_ahead(name, scenario, leading, spec))
    path, asked = split_checkpoint_name(name)
    folder = location(path)
    if folder.is_file():
        expected = f"{name}:NAME, a policy in it" if name.endswith(".py") else "a checkpoint folder"
        raise DatasetError(f"{name}: this is a file, expected {expected}")
    if folder.exists():
        from hindcast.policies.networks.checkpoint import load_policy

        policy = load_policy(folder)
        policy.check(spec)
        if isinstance(asked, str) and looks_ahead(asked):
            return Behaviour(policy.name, _looking_ahead(name, scenario, policy, spec))
        if isinstance(asked, str):
            return Behaviour(policy.name, _led(name, policy, asked, known))
        return Behaviour(policy.name, policy, temperature=asked)
    if is_reference(name):
        return resolve_own(name, spec)[0]
    if is_path(name):
        raise DatasetError(f"{name}: no such checkpoint folder")
    choices = [*every, ROLLOUT] if load_scenario(scenario).forget is not None else every
    raise UnknownName(
        f"unknown policy {name!r} of scenario {scenario}; {did_you_mean(name, choices)} "
        "(or give the folder of a checkpoint, or a policy of your own as path/to/file.py:name)"
    )


def resolve_own(name: str, spec: Spec, base: Path | None = None) -> tuple[Behaviour, Source]:
    """Return the behaviour and the source of a reference to a policy of the user's own.

    `name` must not come from a dataset or a checkpoint, since its code is run. `base` is the folder
    of the recipe that names it. Raises InputError if it is no policy, or not one for the spec.
    """
    policy, source = own_policy(name, spec, base)
    require_columns(name, getattr(policy, "needs", ()), spec)
    return Behaviour(source.name.rpartition(".")[2], policy), source


def _led(
    name: str, policy: "LearnedPolicy", rule: str, known: Mapping[str, Heuristic]
) -> "LearnedPolicy":
    """Return a network that leaves a part of its choice to a deterministic rule."""
    leading = _still(known)
    led = policy.led_by(known[rule if rule in leading else leading[0]])
    if led is None:
        raise InputError(
            f"{name}: {rule!r} is not a temperature; expected a number above 0 (a network of kind "
            f"{policy.network.settings.kind!r} cannot be led by a rule)"
        )
    if rule not in leading:
        raise UnknownName(
            f"{name}: {rule!r} is neither a temperature nor a deterministic rule; "
            f"{did_you_mean(rule, leading)}"
        )
    return led


def _still(known: Mapping[str, Heuristic]) -> list[str]:
    """Return the names of the deterministic rules."""
    return [
        name for name, rule in known.items() if rule.draw is None and rule.exploration == (0.0, 0.0)
    ]


def _looking_ahead_with(known: Mapping[str, Heuristic], spec: Spec) -> list[Heuristic]:
    """Return the deterministic rules whose columns the candidates have."""
    columns = {feature.name for feature in spec.candidates}
    return [known[rule] for rule in _still(known) if columns.issuperset(known[rule].needs)]


def _looking_ahead(
    name: str, scenario: str, policy: "LearnedPolicy", spec: Spec
) -> "RolloutPolicy | ImaginedRollouts":
    """Return the lookahead with a network that the scenario supports; raise InputError if none."""
    from hindcast.policies.rollouts.lookahead import imagined_rollouts_of, rollouts_of

    settings = _settings_ahead(name, _IMAGINED)
    if load_scenario(scenario).imagines:
        return replace(imagined_rollouts_of(policy), **settings)
    if settings:
        raise InputError(
            f"{name}: scenario {scenario} looks ahead without drawn futures; expected "
            f"{name.rpartition('@')[0]}@{ROLLOUT}"
        )
    _require_forgetting(name, scenario, or_futures=True)
    rules = _looking_ahead_with(heuristics(scenario), spec)
    return rollouts_of(policy, rules if len(rules) <= _MOST_RULES else (), spec)


def _rule_looking_ahead(name: str, scenario: str, rule: str, spec: Spec) -> "ImaginedRollouts":
    """Return the lookahead with a rule; raise InputError if the scenario draws no futures."""
    from hindcast.policies.rollouts.lookahead import imagined_rollouts_of_rule

    loaded, known = load_scenario(scenario), heuristics(scenario)
    if not (loaded.imagines or loaded.samples):
        every = {one: load_scenario(one) for one in SCENARIOS}
        able = [one for one, s in every.items() if s.imagines or s.samples]
        instead = f"; {ROLLOUT!r} looks ahead with all rules" if loaded.forget is not None else ""
        raise InputError(
            f"{name}: scenario {scenario} draws no futures for a rule, expected one of "
            f"{', '.join(able)}{instead}"
        )
    if rule not in _still(known):
        raise InputError(f"{name}: {rule!r} draws its choices; {did_you_mean(rule, _still(known))}")
    require_columns(rule, known[rule].needs, spec)
    played = imagined_rollouts_of_rule(name, known[rule], spec, arrivals=loaded.imagines)
    return replace(played, **_settings_ahead(name, _IMAGINED))


def _require_forgetting(name: str, scenario: str, *, or_futures: bool = False) -> None:
    """Raise InputError if copies of an episode would reveal future arrivals."""
    if load_scenario(scenario).forget is None:
        loaded = {one: load_scenario(one) for one in SCENARIOS}
        able = [
            one for one, s in loaded.items() if s.forget is not None or (or_futures and s.imagines)
        ]
        raise InputError(
            f"{name}: scenario {scenario} does not support lookahead, since it cannot hide future "
            f"arrivals from a copy of the episode; expected one of {', '.join(able)}"
        )


def behaviours(recipe: Recipe) -> dict[str, Behaviour]:
    """Return the behaviours of a recipe by name."""

    def one(behaviour: BehaviourRecipe) -> Behaviour:
        if not behaviour.sha256:
            return _of_rule(behaviour, recipe)
        if behaviour.is_checkpoint:
            return _checkpoint(behaviour, recipe)
        return _own(behaviour, recipe)

    return {b.name: one(b) for b in recipe.behaviours}


def recorded_behaviours(dataset: Path) -> dict[str, Behaviour]:
    """Return the behaviours of a dataset's recipes by name, as far as they are installed here.

    A broken manifest is left to the verification to report. Logged probabilities of rules that are
    not installed are verified without the rule.
    """
    known: dict[str, Behaviour] = {}
    with contextlib.suppress(InputError):
        for recipe in read_manifest(dataset).recipes:
            for one in recipe.behaviours:
                with contextlib.suppress(InputError):
                    known |= behaviours(replace(recipe, behaviours=(one,)))
    return known


def _own(behaviour: BehaviourRecipe, recipe: Recipe) -> Behaviour:
    """Return a policy of the user's own; raise InputError if only a manifest names it."""
    reference = recipe.code.get(behaviour.policy)
    if reference is None:
        raise DatasetError(
            f"{recipe.id}: the code of the behaviour {behaviour.policy!r} is not in the dataset, "
            "and a name in a manifest is not imported; give the recipe's file, which names the code"
        )
    spec = load_scenario(recipe.scenario).spec(recipe.config, recipe.objective)
    policy, _ = own_policy(reference, spec, sha256=behaviour.sha256)
    require_columns(reference, getattr(policy, "needs", ()), spec)
    return Behaviour(behaviour.name, policy, behaviour.epsilon, behaviour.temperature)


def _checkpoint(behaviour: BehaviourRecipe, recipe: Recipe) -> Behaviour:
    """Return the behaviour of a checkpoint; raise DatasetError if it is missing or changed."""
    from hindcast.policies.networks.checkpoint import load_policy

    folder = recipe.places.get(behaviour.policy)
    if folder is None:
        raise DatasetError(
            f"{recipe.id}: no folder is known for checkpoint {behaviour.policy}; load the recipe "
            "with load_recipe()"
        )
    check_checkpoint(folder, behaviour.sha256)
    policy = load_policy(folder)
    policy.check(load_scenario(recipe.scenario).spec(recipe.config, recipe.objective))
    return Behaviour(behaviour.name, policy, behaviour.epsilon, behaviour.temperature)


def _of_rule(behaviour: BehaviourRecipe, recipe: Recipe) -> Behaviour:
    rule = find_rule(recipe.scenario, behaviour.policy)
    if rule is None:
        raise UnknownName(
            f"{recipe.id}: unknown policy {behaviour.policy!r} in [[behaviours]]; "
            f"{did_you_mean(behaviour.policy, rules(recipe.scenario))}"
        )
    if rule.needs:
        spec = load_scenario(recipe.scenario).spec(recipe.config, recipe.objective)
        require_columns(behaviour.policy, rule.needs, spec)
    if isinstance(rule, MemoryRule) and (behaviour.epsilon or behaviour.temperature):
        raise InputError(
            f"{recipe.id}: policy {behaviour.policy!r} in [[behaviours]] cannot explore; leave out "
            "epsilon and temperature"
        )
    epsilon, temperature = rule.exploration
    return Behaviour(
        behaviour.name,
        rule,
        behaviour.epsilon or epsilon,
        behaviour.temperature or temperature,
    )
