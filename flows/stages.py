"""The stages of `hindcast run`: build, verify, train, evaluate, report, each done once.

OUT/dataset                      the dataset, where the recipe has behaviours
OUT/agents/<agent>-seed<seed>    a checkpoint per agent and seed of [train], then of [online]; its
                                 best/ is the one that validation chose
OUT/evaluation                   the policies of [evaluate], last and best checkpoints, split test
OUT/report.html                  with summary.parquet, summary.md, results.csv and results.md
OUT/run.json                     the ledger: what is done need not be done again
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from flows import steps
from flows.ledger import Ledger
from pipeline.recipes.loading import load_recipe
from pipeline.recipes.recipe import Recipe
from pipeline.storage.files import sha256_file
from pipeline.storage.location import location
from policies.entrants import BEHAVIOUR
from policies.offline import agent as find_agent
from policies.offline import agents_for

Step: TypeAlias = Callable[..., dict[str, Any]]
Call: TypeAlias = Callable[..., dict[str, Any]]  # call(step, **arguments) runs a step


def directly(step: Step, **arguments: Any) -> dict[str, Any]:
    """Run a step here and now."""
    return step(**arguments)


def run_stages(
    recipe: str,
    out: Path | str,
    overrides: Sequence[str] = (),
    workers: int = 1,
    command: str = "",
    call: Call = directly,
) -> dict[str, Any]:
    """Run all stages, each through `call`; results by stage, and the path of the report.

    Raises DatasetError where `out` holds a run of another recipe.
    """
    loaded, out = load_recipe(recipe, overrides), location(out)
    ledger = Ledger(out, loaded)
    results: dict[str, Any] = {}
    manifest = out / "dataset" / "manifest.json"

    def stage(name: str, output: Path, step: Step, inputs: Any, **arguments: Any) -> None:
        results[name] = ledger.stage(name, inputs, output, lambda: call(step, **arguments))

    data = {}
    if loaded.behaviours or not loaded.online.agent:  # else there is nothing to record, or to log
        stage(
            "build", manifest, steps.build, {"recipe": loaded.digest},
            recipe=recipe, out=manifest.parent, overrides=list(overrides), workers=workers,
        )  # fmt: skip
        data = {"dataset": sha256_file(manifest)}
        stage("verify", manifest, steps.verify, data, dataset=manifest.parent)
    checkpoints = []
    for agent, seed in _runs(loaded):
        folder = out / "agents" / f"{agent}-seed{seed}"
        arguments = {"agent": agent, "steps": loaded.train.steps_of(agent), "seed": seed}
        if settings := loaded.train.settings_of(agent):
            arguments["settings"] = settings
        stage(
            f"train {folder.name}", folder / "checkpoint.json", steps.train, {**data, **arguments},
            dataset=manifest.parent, out=folder, **arguments,
        )  # fmt: skip
        checkpoints.append(folder)
    for seed in loaded.online.seeds if loaded.online.agent else ():
        folder = out / "agents" / f"{loaded.online.agent}-seed{seed}"
        inputs = {"recipe": loaded.digest, "seed": seed}
        more: dict[str, Any] = {}
        if loaded.online.imitate_steps:
            inputs, more = {**inputs, **data}, {"imitate": manifest.parent}
        stage(
            f"train {folder.name}", folder / "checkpoint.json", steps.train_online, inputs,
            recipe=recipe, out=folder, overrides=list(overrides), seed=seed, workers=workers,
            **more,
        )  # fmt: skip
        checkpoints.append(folder)
    evaluation = out / "evaluation" / "evaluation.json"
    # Last and selected checkpoints are both reported; nothing is selected on the test split.
    selected = [f / "best" for f in checkpoints if (f / "best" / "checkpoint.json").is_file()]
    learned = [*checkpoints, *selected]
    recorded = [BEHAVIOUR] if loaded.behaviours else []
    policies = [*loaded.evaluate.policies, *recorded, *map(str, learned)]
    trained = {str(f.relative_to(out)): sha256_file(f / "checkpoint.json") for f in learned}
    stage(
        "evaluate", evaluation, steps.evaluate, {"recipe": loaded.digest, "agents": trained},
        recipe=recipe, out=evaluation.parent, policies=policies, split="test",
        overrides=list(overrides), workers=workers, command=command,
    )  # fmt: skip
    scored = {"evaluation": sha256_file(evaluation), "agents": trained, **data}
    stage(
        "report", out / "report.html", steps.report, scored,
        evaluations=[evaluation.parent], out=out, training=checkpoints,
        datasets=[manifest.parent] if data else [], metrics=list(loaded.evaluate.metrics),
    )  # fmt: skip
    return {"stages": results, "report": str(out / "report.html")}


def _runs(recipe: Recipe) -> list[tuple[str, int]]:
    """Agents and seeds, seed by seed; those that learn from the same sample one after another."""
    names = agents_for(recipe.train.agents, recipe.scenario)
    wants = {
        name: (of.transitions, of.probabilities, of.per_episode or 0, of.candidates)
        for name, of in ((name, find_agent(name)) for name in names)
    }
    ordered = sorted(names, key=wants.__getitem__)
    return [(agent, seed) for seed in recipe.train.seeds for agent in ordered]
