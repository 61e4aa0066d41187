"""Stages of `hindcast run`: build, verify, train, evaluate, report.

    OUT/dataset                      the dataset, if the recipe has behaviours
    OUT/agents/<agent>-seed<seed>    a checkpoint per agent and seed of [train], then of [online];
                                     its best/ is the best checkpoint on validation
    OUT/evaluation                   scores on the test split of the policies of [evaluate] and of
                                     the last and best checkpoints
    OUT/report.html                  with summary.parquet, summary.md, results.csv and results.md
    OUT/run.json                     the ledger of finished stages, which are skipped

Results of stages are small JSON values, see hindcast.flows.runs.ledger.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hindcast.flows import runners
from hindcast.flows.commands import (
    Call,
    build,
    directly,
    evaluate,
    report,
    train,
    train_online,
    verify,
)
from hindcast.flows.runs.ledger import Ledger
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import opens_trace
from hindcast.pipeline.storage.files import sha256_file
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.storage.locks import writing
from hindcast.pipeline.storage.run_files import BEST, DELIVERED, DESCRIPTION
from hindcast.policies.entrants import BEHAVIOUR, entrants, evaluated_policies
from hindcast.policies.offline import agent as find_agent
from hindcast.policies.offline import agents_for
from hindcast.policies.own_agents import reference_of, source_sha256


def run_stages(request: Any, call: Call = directly) -> dict[str, Any]:
    """Run all stages of a request of `hindcast run`, each through `call`.

    Returns the results by stage and the path of the report. Raises DatasetError if `out` holds a
    run of another recipe.
    """
    loaded, out = load_recipe(request.recipe, request.settings()), location(request.out)
    with writing(out):
        return _stages(request, loaded, out, call)


def _stages(request: Any, loaded: Recipe, out: Path, call: Call) -> dict[str, Any]:
    """Run the stages of `hindcast run` that the ledger does not have yet; return all results."""
    recipe, overrides, workers = request.recipe, request.settings(), request.workers
    ledger = Ledger(out, loaded.id, loaded.digest)
    results: dict[str, Any] = {}
    manifest = out / "dataset" / "manifest.json"
    dataset = str(manifest.parent)

    def stage(name: str, output: Path, inputs: Any, step: Any) -> None:
        results[name] = ledger.stage(name, inputs, output, lambda: call(step))

    data = {}
    if loaded.behaviours or not loaded.online.agent:  # else nothing is recorded
        recorded = build.Request(recipe, dataset, overrides, workers)
        stage("build", manifest, {"recipe": loaded.digest}, recorded)
        data = {"dataset": sha256_file(manifest)}
        named = request.trace if opens_trace(loaded) else None
        stage("verify", manifest, data, verify.Request(dataset, workers, trace=named))
    trainings: list[tuple[Path, Any, Any]] = []
    for agent, seed in _runs(loaded):
        folder = out / "agents" / f"{agent}-seed{seed}"
        arguments: dict[str, Any] = {
            "agent": agent,
            "steps": loaded.train.steps_of(agent),
            "seed": seed,
        }
        if settings := loaded.train.settings_of(agent):
            arguments["settings"] = settings
        request_of_one = train.Request(
            dataset, out=str(folder), **{**arguments, "agent": reference_of(agent)}
        )
        trainings.append((folder, {**data, **arguments, **_code(agent)}, request_of_one))
    for seed in loaded.online.seeds if loaded.online.agent else ():
        folder = out / "agents" / f"{loaded.online.agent}-seed{seed}"
        inputs = {"recipe": loaded.digest, "seed": seed, **_code(loaded.online.agent)}
        imitate = None
        if loaded.online.imitate_steps:
            inputs, imitate = {**inputs, **data}, dataset
        online = train_online.Request(
            recipe,
            str(folder),
            overrides,
            agent=reference_of(loaded.online.agent),
            seed=seed,
            workers=workers,
            imitate=imitate,
        )
        trainings.append((folder, inputs, online))
    checkpoints = [folder for folder, _, _ in trainings]
    results |= _train(ledger, trainings, call)
    evaluation = out / "evaluation" / "evaluation.json"
    # Last, best and delivered checkpoints are reported; nothing is selected on the test split.
    parts = [f / part for part in (BEST, DELIVERED) for f in checkpoints]
    selected = [f for f in parts if (f / DESCRIPTION).is_file()]
    learned = [*checkpoints, *selected]
    logged = [BEHAVIOUR] if loaded.behaviours else []
    policies = (*evaluated_policies(loaded), *request.policies, *logged, *map(str, learned))
    trained = {str(f.relative_to(out)): sha256_file(f / DESCRIPTION) for f in learned}
    scored: dict[str, Any] = {"recipe": loaded.digest, "agents": trained}
    if request.policies:
        more = entrants(loaded, request.policies)
        scored["policies"] = {each.behaviour.name: each.digest for each in more}
    stage(
        "evaluate", evaluation, scored,
        evaluate.Request(
            recipe, str(evaluation.parent), policies, "test", overrides, workers, request.command
        ),
    )  # fmt: skip
    stage(
        "report", out / "report.html",
        {"evaluation": sha256_file(evaluation), "agents": trained, **data},
        report.Request(
            (str(evaluation.parent),), str(out), training=tuple(map(str, checkpoints)),
            datasets=(dataset,) if data else (), metrics=tuple(loaded.evaluate.metrics),
        ),
    )  # fmt: skip
    return {"stages": results, "report": str(out / "report.html")}


def _train(
    ledger: Ledger, trainings: Sequence[tuple[Path, Any, Any]], call: Call
) -> dict[str, Any]:
    """Return the results of trainings, given by folder, inputs and request, by stage."""
    stages = [(f"train {f.name}", inputs, f / DESCRIPTION, one) for f, inputs, one in trainings]
    left = [one for *stage, one in stages if not ledger.is_finished(*stage)]
    runs = runners.calls(left, call)

    def next_run() -> dict[str, Any]:
        return next(runs)()

    return {
        name: ledger.stage(name, inputs, output, next_run) for name, inputs, output, _ in stages
    }


def _code(agent: str) -> dict[str, str]:
    """Return the digest of an agent's source if the user gave the agent by a reference."""
    digest = source_sha256(agent)
    return {} if digest is None else {"code": digest}


def _runs(recipe: Recipe) -> list[tuple[str, int]]:
    """Return agents and seeds, seed by seed; agents that share a sample of data are adjacent."""
    names = agents_for(recipe.train.agents, recipe.scenario)
    wants = {
        name: (of.transitions, of.probabilities, of.per_episode or 0, of.candidates)
        for name, of in ((name, find_agent(name)) for name in names)
    }
    ordered = sorted(names, key=wants.__getitem__)
    return [(agent, seed) for seed in recipe.train.seeds for agent in ordered]
