"""Plans of evaluations: what is to be scored and compared, written before test windows are read.

    plan.json   kind, version, written   the time in UTC
                recipe, digest, windows, split
                overrides                settings that were replaced, as SECTION.KEY=VALUE
                names                    words that named the policies
                policies                 policy, kind, group, digest of each, and whether an agent
                looks                    other agents that had been scored on these windows;
                                         null if looks were not counted
                until                    "decided" where windows will be played until two
                                         policies are told apart

The comparisons of a plan are one family: each of its agents with the strongest of its policies
that did not learn. An evaluation with a plan says where it deviates from it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.evaluation.entrant import Entrant
from hindcast.pipeline.evaluation.looks import looks, now, others
from hindcast.pipeline.evaluation.until import DECIDED, check_until
from hindcast.pipeline.recipes.problem import windows_key
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.storage.files import json_text, read_json, sha256_text, write_json
from hindcast.pipeline.storage.json_values import a_count, a_list, a_table, a_text
from hindcast.pipeline.workloads.caveats import Caveat

KIND: Final = "evaluation plan"
VERSION: Final = 1
DEVIATES: Final = "deviates_from_plan"
_TEXTS: Final = ("written", "recipe", "digest", "windows", "split")


def make_plan(
    recipe: Recipe,
    names: Sequence[str],
    policies: Sequence[Entrant],
    split: str,
    *,
    overrides: Sequence[str] = (),
    decide: bool = False,
) -> dict[str, Any]:
    """Return the plan of an evaluation; `names` are the words that named the policies.

    `overrides` are those that the recipe was loaded with. With `decide`, windows will be played
    until two policies are told apart.

    Raises InputError if there is no agent, or nothing to compare agents with.
    """
    agents = [str(p.digest) for p in policies if p.is_agent]
    if not agents:
        raise InputError(
            "plan: no policy has learned or is your own, so there is nothing to plan; name an agent"
        )
    if len(agents) == len(policies):
        raise InputError(
            "plan: every policy is an agent; name the rules to compare with, RULE@rollout included"
        )
    if decide:
        check_until(recipe, policies, split)
    return {
        "kind": KIND, "version": VERSION, "written": now(),
        "recipe": recipe.id, "digest": recipe.digest, "windows": windows_key(recipe, split),
        "split": split, "overrides": list(overrides), "names": list(names),
        "policies": [_described(each) for each in policies],
        "looks": others(recipe, split, agents),
        **({"until": DECIDED} if decide else {}),
    }  # fmt: skip


def write_plan(path: Path, plan: Mapping[str, Any]) -> None:
    """Write a plan; InputError if the file exists, since a plan is not replaced."""
    if path.exists():
        raise InputError(
            f"{path}: exists already, and a plan is not replaced; choose another --out"
        )
    write_json(path, plan)


def read_plan(path: Path) -> dict[str, Any]:
    """Return the plan of a file; raise DatasetError if it is none."""
    value = read_json(path)
    kind = value.get("kind") if isinstance(value, dict) else type(value).__name__
    if kind != KIND or value.get("version") != VERSION:
        raise DatasetError(f"{path}: this is no {KIND} of version {VERSION}; kind is {kind!r}")
    try:
        for name in _TEXTS:
            a_text(value[name])
        for each in a_list(value["policies"]):
            for name in ("policy", "kind", "group"):
                a_text(a_table(each)[name])
            if each["digest"] is not None or each["agent"]:
                a_text(each["digest"])
        for name in (*a_list(value["names"]), *a_list(value.get("overrides", []))):
            a_text(name)
        if value["looks"] is not None:
            a_count(value["looks"])
    except (KeyError, TypeError, ValueError) as error:
        raise DatasetError(f"{path}: this {KIND} is damaged: {error}") from error
    if value.get("until", DECIDED) != DECIDED:
        raise DatasetError(f"{path}: until is {value['until']!r}, expected {DECIDED!r}")
    return dict(value)


def kept(
    plan: Mapping[str, Any],
    recipe: Recipe,
    policies: Sequence[Entrant],
    split: str,
    *,
    decide: bool = False,
) -> dict[str, Any]:
    """Return what an evaluation keeps of its plan, with its deviations from it as sentences.

    `decide` says whether windows are played until two policies are told apart.
    """
    groups = [p["group"] for p in plan["policies"] if p["agent"]]
    digests = {each.behaviour.name: each.digest for each in policies}
    deviations = deviations_from(plan, recipe, digests, split)
    if decide and "until" not in plan:
        deviations.append("windows are played until it is decided, which was not planned")
    return {
        "sha256": sha256_text(json_text(plan)), "written": plan["written"], "looks": plan["looks"],
        "agents": list(dict.fromkeys(groups)),
        "deviations": deviations,
    }  # fmt: skip


def caveats_of(of_plan: Mapping[str, Any] | None) -> tuple[Caveat, ...]:
    """Return the caveat of an evaluation that deviates from its plan, if it has one and does."""
    if of_plan is None or not (found := of_plan["deviations"]):
        return ()
    text = f"This evaluation deviates from its plan of {of_plan['written']}: {'; '.join(found)}."
    return (Caveat(DEVIATES, text, {"deviations": float(len(found))}),)


def _described(each: Entrant) -> dict[str, Any]:
    return {"policy": each.behaviour.name, "kind": each.kind, "group": each.group,
            "digest": each.digest, "agent": each.is_agent}  # fmt: skip


def deviations_from(
    plan: Mapping[str, Any], recipe: Recipe, scored: Mapping[str, str | None], split: str
) -> list[str]:
    """Return deviations from a plan as parts of a sentence; `scored` has digests by policy."""
    found = []
    if windows_key(recipe, split) != plan["windows"]:
        found.append(f"the windows are others than those of {plan['split']} in {plan['recipe']}")
    elif recipe.digest != plan["digest"]:
        planned_as, is_now = plan["digest"][:8], recipe.digest[:8]
        found.append(f"{plan['recipe']} was changed (digest {is_now}, planned {planned_as})")
    planned = {each["policy"]: each for each in plan["policies"]}
    for name in planned:
        if name not in scored:
            found.append(f"{name} was planned and is not scored")
        elif scored[name] != planned[name]["digest"]:
            found.append(f"{name} has changed since")
    found += [f"{name} is scored and was not planned" for name in scored if name not in planned]
    before = {
        digest for look in looks(recipe, split) or () if look.time < plan["written"]
        for digest in look.agents
    }  # fmt: skip
    found += [
        f"{name} had been scored on these windows before the plan"
        for name, each in planned.items() if each["digest"] in before
    ]  # fmt: skip
    return found
