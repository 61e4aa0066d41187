"""Pages of scenarios: dynamics and recipes; features; rules, outcomes and settings."""

from collections.abc import Iterable, Mapping

from docs.generate.recipe import settings_table
from docs.generate.text import code, prose, sentence, table
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.shipped import known_recipes
from hindcast.pipeline.scenarios import SCENARIOS, load_scenario, module_of
from hindcast.pipeline.simulation.spec import Feature
from hindcast.policies.heuristics import rules as rules_of


def scenario_pages() -> Mapping[str, str]:
    """Return a part for every scenario: `parts/scenario-NAME.md`."""
    return {f"parts/scenario-{name}.md": _part(name) for name in SCENARIOS}


def rules_page(name: str) -> str:
    """Return the committed table of the rules, outcomes and settings of a scenario."""
    scenario = load_scenario(name)
    spec = scenario.spec(scenario.config(), scenario.objectives[0])
    parts = [
        f"# Rules of `{name}`",
        "",
        f"Rules, outcomes and settings of [{name}](../../scenarios/{name}.md).",
        "",
        "## Rules",
        "",
        "Every rule can be a behaviour of a dataset and a row of an evaluation.",
        "",
    ]
    rules = [
        [code(rule), sentence(h.description), code(h.formula)] for rule, h in rules_of(name).items()
    ]
    parts += [table(["rule", "choice", "score"], rules)]
    parts += ["## Objectives and outcomes", ""]
    parts += [f"Objectives: {', '.join(map(code, scenario.objectives))}. "]
    parts += [
        f"Reward terms: {', '.join(map(code, spec.reward_terms))}." if spec.reward_terms else "",
        "",
    ]
    outcomes = [
        [code(o.name), prose(o.unit), o.better, sentence(o.description)] for o in spec.outcomes
    ]
    parts += [table(["outcome", "unit", "better", "meaning"], outcomes)]
    if scenario.bound:
        bound = f"{code(scenario.bound)}, {scenario.bound_kind}"
        parts += [f"Bound of the headline outcome: {bound}.", ""]
    parts += [
        "## Settings",
        "",
        "Keys of `[config]` in a recipe.",
        "",
        settings_table(scenario.config),
    ]
    return "\n".join(parts)


def features_page(name: str) -> str:
    """Return the committed table of what a policy observes in a scenario."""
    scenario = load_scenario(name)
    spec = scenario.spec(scenario.config(), scenario.objectives[0])
    parts = [
        f"# Features of `{name}`",
        "",
        f"What a policy observes in [{name}](../../scenarios/{name}.md).",
        "",
        "## Context",
        "",
        "Features of the moment, the same for all candidates:",
        "",
        _features(_shortened(spec.context)),
        "## Candidates",
        "",
        "One row per candidate:",
        "",
        _features(spec.candidates),
    ]
    return "\n".join(parts)


def _part(name: str) -> str:
    scenario = load_scenario(name)
    parts = [
        "## Dynamics in full",
        "",
        "```text",
        (module_of(name).__doc__ or "").strip(),
        "```",
        "",
    ]
    parts += ["## Source", "", prose(scenario.source), ""]
    if scenario.differences:
        parts += ["## Differences from the paper", ""]
        parts += [f"- {sentence(each)}" for each in scenario.differences] + [""]
    own = [load_recipe(each) for each in known_recipes()]
    rows = [[code(r.id), r.level, sentence(r.description)] for r in own if r.scenario == name]
    parts += ["## Recipes", "", table(["recipe", "level", "description"], rows)]
    return "\n".join(parts)


def _features(features: Iterable[Feature]) -> str:
    rows = [
        [code(f.name), prose(f.unit), f"{f.low:g} to {f.high:g}", sentence(f.description)]
        for f in features
    ]
    return table(["feature", "unit", "range", "meaning"], rows) or "None.\n"


def _shortened(features: tuple[Feature, ...]) -> list[Feature]:
    """Return one feature per description: numbered repetitions are shown once."""
    return list({f.description: f for f in reversed(features)}.values())[::-1]
