"""Entrants of an evaluation, from policy names and checkpoint folders."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.errors import DatasetError, HindcastError, InputError, RecipeError
from hindcast.pipeline.evaluation.entrant import Entrant
from hindcast.pipeline.plugins import is_reference, source_of
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.memory_rules import MemoryRule
from hindcast.pipeline.simulation.policy import Behaviour, Policy
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage.location import is_remote, location
from hindcast.pipeline.storage.provenance import sessions_of_training
from hindcast.pipeline.storage.run_files import DESCRIPTION, WEIGHTS
from hindcast.policies.heuristics import find_rule
from hindcast.policies.own_policy import training_of, weights_of
from hindcast.policies.registry import (
    behaviours,
    looks_ahead,
    resolve,
    resolve_own,
    rule_that_looks_ahead,
    split_checkpoint_name,
)

BEHAVIOUR: Final = "behaviour"  # the log: every recorded behaviour with its exploration
_SEEDS: Final = re.compile(r"(?P<agent>[A-Za-z0-9_.-]{1,100})=(?P<seeds>.+)", re.DOTALL)
_SEED: Final = re.compile(r"(.+?:[\w.]+)(?:,|$)")  # a folder's name may have a comma


def entrants(recipe: Recipe, names: Sequence[str]) -> list[Entrant]:
    """Return the entrants of `names`, in that order and without repetition, with distinct names.

    The names of checkpoints:

        <agent>-seed<seed>               final weights; `hindcast run` names its folder so
        <agent>-best-seed<seed>          the selected checkpoint of a run
        <agent>-delivered-seed<seed>     that checkpoint, or the rule that it could not beat
        <agent>-step<step>-seed<seed>    another checkpoint of a run
        <agent>@T-seed<seed>             FOLDER@T, choices drawn at temperature T
        <agent>@RULE-seed<seed>          FOLDER@RULE, led by a rule
        <agent>@rollout-seed<seed>       FOLDER@rollout, looking ahead

    A policy of the user's own, FILE.py:NAME or MODULE:NAME, is called NAME. If another entrant has
    that name, it is FILE:NAME or MODULE:NAME. If two names are still equal, the beginning of the
    digest of their weights or of their source is added. A policy of one's own that says of which
    agent it is a training counts as a seed of it. AGENT=FILE.py:NAME,FILE.py:NAME names the seeds
    of an agent, which are called AGENT-NAME. `behaviour` stands for the recipe's behaviours, which
    form one group, weighted by their episodes.
    """
    specs = _specs(recipe)
    found = [
        replace(entrant, word=name)
        for name in dict.fromkeys(names) for entrant in _named(name, recipe, specs)
    ]  # fmt: skip
    for distinct in (_with_file, _distinct):
        count = Counter(c.behaviour.name for c in found)
        found = [distinct(c) if count[c.behaviour.name] > 1 else c for c in found]
    return found


def _named(name: str, recipe: Recipe, specs: Sequence[Spec]) -> list[Entrant]:
    """Return the entrants of one name."""
    if name == BEHAVIOUR:
        return _recorded(recipe)
    agent, seeds = seeds_of(name)
    if not agent:
        return [_seen(name, recipe, specs)]
    found = [_seen(seed, recipe, specs, agent) for seed in seeds]
    count = Counter(each.behaviour.name for each in found)
    return [
        _called(each, f"{agent}-{own if count[own] == 1 else each.code}")
        for each in found for own in [each.behaviour.name]
    ]  # fmt: skip


def seeds_of(name: str) -> tuple[str, list[str]]:
    """Return agent and functions of AGENT=FILE.py:NAME,FILE.py:NAME; any other name is no agent's.

    Raises InputError if one of the seeds is no function or is named twice.
    """
    found = _SEEDS.fullmatch(name)
    if found is None or location(name).exists():
        return "", [name]
    seeds = _SEED.findall(found["seeds"])
    wrong = next((seed for seed in seeds if not is_reference(seed)), None)
    if wrong or ",".join(seeds) != found["seeds"]:
        raise InputError(
            f"{name}: {wrong or found['seeds']!r} names no functions; expected the training seeds "
            f"of an agent, {found['agent']}=path/to/file.py:NAME,path/to/file.py:NAME"
        )
    for seed, times in Counter(seeds).items():
        if times > 1:
            raise InputError(f"{name}: {seed} is named twice, but a seed counts once")
    return found["agent"], seeds


def entrant_of(policy: Policy) -> Entrant:
    """Return the entrant of a policy object, without what only a folder of a checkpoint knows."""
    from hindcast.policies.networks.checkpoint import weights_content  # which compiles networks
    from hindcast.policies.networks.policy import LearnedPolicy

    behaviour = Behaviour(policy.name, policy)
    if not isinstance(policy, LearnedPolicy):
        return Entrant(behaviour, "heuristic", policy.name)
    digest = hashlib.sha256(weights_content(policy.weights)).hexdigest()
    return Entrant(behaviour, "learned", policy.name, digest=digest)


def told_apart(found: Sequence[Entrant]) -> list[Entrant]:
    """Return the entrants, agents with another name if their checkpoint is an entrant as well.

    Otherwise, the agent would count as another training of the checkpoint's agent.
    """
    folders = {each.digest for each in found if each.checkpoint}
    return [
        replace(_distinct(each), group=_distinct(each).behaviour.name)
        if each.kind == "learned" and each.checkpoint is None and each.digest in folders
        else each
        for each in found
    ]


def with_whole_paths(recipe: Recipe, names: Sequence[str]) -> list[str]:
    """Return the names, with absolute paths of checkpoints and code, for other processes."""
    return [name if _in_package(name, recipe) else _whole(name, recipe) for name in names]


def _in_package(name: str, recipe: Recipe) -> bool:
    """Return whether a name needs nothing from outside the package and the recipe."""
    return name == BEHAVIOUR or _without_checkpoint(name, recipe.scenario)


def _without_checkpoint(name: str, scenario: str) -> bool:
    """Return whether a name is a rule, or rules that look ahead."""
    return (
        looks_ahead(name)
        or find_rule(scenario, name) is not None
        or rule_that_looks_ahead(name, scenario) is not None
    )


def _whole(name: str, recipe: Recipe) -> str:
    agent, seeds = seeds_of(name)
    if agent:
        return f"{agent}={','.join(_whole(seed, recipe) for seed in seeds)}"
    if is_reference(name) and not location(name).exists():
        return source_of(name, recipe.base).reference
    folder = split_checkpoint_name(name)[0]
    if is_remote(place := location(folder)):
        return name
    return f"{place.absolute()}{name[len(folder) :]}"


def packed(recipe: Recipe, names: Sequence[str]) -> tuple[list[str], dict[str, Path]]:
    """Return names of policies for an archive, and the files that they need by path in it.

    Raises InputError for code that is a module of Python's path, or has weights elsewhere.
    """
    folders, files = dict[Path, str](), dict[str, Path]()

    def one(name: str) -> str:
        agent, seeds = seeds_of(name)
        if agent:
            return f"{agent}={','.join(map(one, seeds))}"
        if _in_package(name, recipe):
            return name
        if not is_reference(name) or location(name).exists():
            named = split_checkpoint_name(name)[0]
            folder = location(named)
            place = folders.setdefault(folder.absolute(), f"policies/{len(folders)}")
            files.update({f"{place}/{file}": folder / file for file in (DESCRIPTION, WEIGHTS)})
            return place + name[len(named) :]
        source = source_of(name, recipe.base)
        if source.module:
            raise InputError(
                f"{name}: a module of Python's path is not packed; name its file and function, "
                f"{source.path.name}:{source.name}"
            )
        place = folders.setdefault(source.path.parent, f"policies/{len(folders)}")
        for file in (source.path, *weights_of(source)):
            if not file.resolve().is_relative_to(source.path.parent):
                raise InputError(f"{name}: its weights {file} are not below the folder of its code")
            files[f"{place}/{file.resolve().relative_to(source.path.parent).as_posix()}"] = file
        return f"{place}/{source.path.name}:{source.name}"

    return [one(name) for name in names], files


def evaluated_policies(recipe: Recipe) -> tuple[str, ...]:
    """Return the policies of an evaluation: those of its recipe, and the scenario's references.

    Raises RecipeError as `own_policies` does.
    """
    names = own_policies(recipe)
    references = load_scenario(recipe.scenario).references if names else ()
    return tuple(dict.fromkeys((*names, *references)))


def own_policies(recipe: Recipe) -> tuple[str, ...]:
    """Return the policies that a recipe names for its evaluation.

    Raises RecipeError for a checkpoint or code that is named by the manifest of a dataset, which
    may be foreign: nothing outside the dataset is opened or run because its manifest says so.
    """
    names, origin = recipe.evaluate.policies, recipe.origin
    if origin is not None and names == origin.evaluate.policies:
        for name in names:
            if not _in_package(name, recipe):
                raise RecipeError(
                    f"{origin.folder}: evaluate.policies of the manifest names {name!r}, which is "
                    f"no policy of {recipe.scenario}; a manifest cannot name a checkpoint or code "
                    "outside its dataset, so name it yourself with --policy, or --set "
                    "evaluate.policies"
                )
    return names


def _recorded(recipe: Recipe) -> list[Entrant]:
    """Return the behaviours of a recipe, with a prefix: a rule may have the same name."""
    known, episodes = behaviours(recipe), {b.name: b.episodes for b in recipe.behaviours}
    return [
        Entrant(
            replace(known[name], name=f"{BEHAVIOUR}:{name}"), "mixture", BEHAVIOUR,
            episodes=episodes[name],
        )
        for name in episodes
    ]  # fmt: skip


def _specs(recipe: Recipe) -> list[Spec]:
    """Return the specs that policies of an evaluation can have, that of the recipe first.

    The others have the columns that settings add, and lack those that the recipe adds.
    """
    scenario, config = load_scenario(recipe.scenario), recipe.config
    others = [
        replace(config, **{setting: not getattr(config, setting)})
        for setting in dict.fromkeys(scenario.added.values())
    ]
    return [scenario.spec(each, recipe.objective) for each in (config, *others)]


def _seen(name: str, recipe: Recipe, specs: Sequence[Spec], agent: str = "") -> Entrant:
    """Return an entrant under the first of the specs that suits it; `agent` is whose seed it is."""
    fault: HindcastError | None = None
    for spec in specs:
        try:
            return _entrant(name, recipe, spec, agent)
        except (InputError, DatasetError) as error:
            fault = fault or error
    assert fault is not None
    raise fault


def _entrant(name: str, recipe: Recipe, spec: Spec, agent: str) -> Entrant:
    """Return what an evaluation scores under a name: own code, a rule or a checkpoint."""
    scenario = recipe.scenario
    if is_reference(name) and not location(name).exists():
        own, source = resolve_own(name, spec, recipe.base)
        agent, digest = training_of(source, agent)
        kind = "learned" if agent else "random" if own.stochastic else "heuristic"
        return Entrant(own, kind, agent or own.name, digest=digest, code=source.label)
    behaviour = resolve(name, scenario, spec)
    if isinstance(behaviour.policy, MemoryRule):
        return Entrant(behaviour, behaviour.policy.kind, behaviour.name)
    if _without_checkpoint(name, scenario):
        kind = "random" if behaviour.stochastic else "heuristic"
        return Entrant(behaviour, kind, behaviour.name)
    from hindcast.policies.networks.checkpoint import read_description

    path, asked = split_checkpoint_name(name)
    folder = location(path)
    description = read_description(folder)
    training = description.get("training")
    group, seed, learned_from, delivered = behaviour.name, None, "", ""
    if isinstance(training, dict):
        seed = training.get("seed")
        learned_from = _recipe_of(training)
        if "delivered" in training:
            group += "-delivered"
            verdict = training["delivered"]
            delivered = str(verdict.get("delivered", "")) if isinstance(verdict, dict) else ""
        elif "of_steps" in training:
            group += "-best" if "best" in training else f"-step{training.get('steps')}"
    if asked:
        group += f"@{asked}" if isinstance(asked, str) else f"@{asked:g}"
    named = replace(behaviour, name=group if seed is None else f"{group}-seed{seed}")
    digest = description["weights"]["sha256"]
    trained = sessions_of_training(folder)
    return Entrant(
        named, "learned", group, str(folder), digest, trained=trained, learned_from=learned_from,
        delivered=delivered,
    )  # fmt: skip


def _recipe_of(training: Mapping[str, Any]) -> str:
    """Return the digest of the recipe whose windows a training used; "" if that is not certain.

    A training that started from another checkpoint may have learned from other windows before.
    """
    of = [training[key] for key in ("dataset", "online") if key in training]
    known = len(of) == 1 and isinstance(of[0], Mapping) and not of[0].get("start")
    return str(of[0].get("digest") or "") if known else ""


def _with_file(entrant: Entrant) -> Entrant:
    """Return a policy of the user's own under the name of its file and its own."""
    return entrant if entrant.code is None else _called(entrant, entrant.code)


def _called(entrant: Entrant, name: str) -> Entrant:
    rule = entrant.code is not None and entrant.kind != "learned"  # seeds keep their agent
    group = name if rule else entrant.group
    return replace(entrant, behaviour=replace(entrant.behaviour, name=name), group=group)


def _distinct(entrant: Entrant) -> Entrant:
    if entrant.digest is None:
        return entrant
    return _called(entrant, f"{entrant.behaviour.name}-{entrant.digest[:8]}")
