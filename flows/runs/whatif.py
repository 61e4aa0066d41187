"""Stages of `hindcast whatif`.

OUT/recipe.toml, before.toml, run.toml    the windows and runs, see pipeline.report.whatif.plan
OUT/agents/evolution-seed0                the agent of --train, and its best/
OUT/evaluation, before, run               scores of all policies, as `hindcast evaluate` writes
OUT/jobs                                  every job of the run under each policy
OUT/whatif.html                           the page
OUT/whatif.json, whatif.csv, groups.csv   its numbers, written before the page
OUT/run.json                              the ledger of finished stages, which are skipped
"""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from hindcast.flows.commands import Call, directly, evaluate, train_online
from hindcast.flows.commands.ingest import no_settings
from hindcast.flows.progress import note, progress
from hindcast.flows.runs.ledger import Ledger
from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.evaluation.evaluate import Entrant, Job, make_job
from hindcast.pipeline.recipes.loading import apply_override, load_recipe
from hindcast.pipeline.recipes.recipe import Recipe, TraceSource
from hindcast.pipeline.recipes.recognition import recognise
from hindcast.pipeline.recipes.settings import read_settings
from hindcast.pipeline.recipes.workload_source import INGESTED, load_source
from hindcast.pipeline.report.whatif import plan as planning
from hindcast.pipeline.report.whatif import story
from hindcast.pipeline.report.whatif.jobs import play
from hindcast.pipeline.report.whatif.page import write_page
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.storage.files import make_folder, write_text
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.storage.locks import writing
from hindcast.pipeline.storage.run_files import BEST, DESCRIPTION
from hindcast.pipeline.traces import FORMATS
from hindcast.policies.entrants import entrants

_FORMATS: Final = ("swf", "slurm", "pbs", "table")
_EVALUATIONS: Final = {  # folder -> recipe
    story.WINDOWS: planning.RECIPE, story.BEFORE: planning.BEFORE, story.RUN: planning.RUN,
}  # fmt: skip


def source_of(request: Any) -> TraceSource:
    """Return the source of a request's log; raise InputError if it cannot be read as one."""
    path = location(request.log)
    ingested = (path / "manifest.json").is_file()
    name = request.format or (INGESTED if ingested else recognise(path))
    if name != INGESTED and name not in FORMATS:
        raise unknown_name("trace format", name, [*_FORMATS, INGESTED])
    given: dict[str, Any] = {}
    for each in request.settings:
        apply_override(given, each)
    kind = None if name == INGESTED else FORMATS[name].settings
    if given and kind is None:
        raise no_settings(name, request.settings, request.log)
    if kind is not None and given:
        read_settings(kind, given, "--set")
    return TraceSource(name, str(path.resolve()), given)


def check_policies(names: Sequence[str]) -> None:
    """Raise InputError for a policy that is unknown, or a checkpoint that does not fit."""
    scenario = load_scenario("queue")
    config = scenario.config()
    split = {"test": range(1)}
    empty = Recipe("whatif", "queue", config, "bounded_slowdown", TraceSource(INGESTED), split, 1)
    for name in names:
        found = entrants(empty, [name])
        if len(found) != 1 or found[0].behaviour.stochastic:
            raise InputError(
                f"--policy {name}: this policy draws, expected one whose choices "
                "are fixed, since every policy plays the log once"
            )


def run_whatif(request: Any, call: Call = directly) -> dict[str, Any]:
    """Run all stages of a request of `hindcast whatif`, each through `call`."""
    out = location(request.out or _id_of(location(request.log)))
    with writing(out):
        return _run(request, out, call)


def _run(request: Any, out: Path, call: Call) -> dict[str, Any]:
    source = source_of(request)
    trace: dict[str, Any] = {"format": source.format, "path": source.path}
    if source.settings:
        trace["settings"] = dict(source.settings)
    note(f"reading {Path(source.path).name} as {source.format}")
    workload = load_source(_reading(source))
    plan = planning.plan(workload)
    name = _id_of(Path(source.path))
    make_folder(out)
    texts = planning.recipes(plan, name, trace, f"log {Path(source.path).name}")
    _refuse_another(out, texts)
    for file, text in texts.items():
        write_text(out / file, text)
    recipes = {file: load_recipe(out / file) for file in texts}
    recipe = recipes[planning.RECIPE]
    ledger = Ledger(out, recipe.id, recipe.digest)
    policies = list(dict.fromkeys([*recipes[planning.RECIPE].evaluate.policies, *request.policies]))
    # The digest of a recipe covers the path of the log, not its content.
    content = [file.sha256 for file in workload.provenance.files]
    training = None
    if request.train:
        training = _train(request, out, ledger, recipes[planning.TRAIN], content, call)
        policies += training["used"]
    run, commands = recipes[planning.RUN], {}
    named = zip(policies, entrants(run, policies), strict=True)
    agents = [name for name, entrant in named if entrant.kind == "learned"]
    for folder, file in _EVALUATIONS.items():
        recipe, played = recipes[file], policies
        if file == planning.BEFORE and len(agents) == 1:  # there is no choice among agents
            played = [name for name in policies if name not in agents]
        scored = {
            "recipe": recipe.digest, "log": content, "policies": _identities(recipe, played),
        }  # fmt: skip
        place = out / folder
        commands[folder] = shlex.join(
            ["hindcast", "evaluate", str(out / file), "--policy", *played, "--out", "scores"]
        )
        step = evaluate.Request(
            str(out / file), str(place), tuple(played), workers=request.workers,
            command=request.command,
        )  # fmt: skip
        ledger.stage(f"evaluate {folder}", scored, place / "evaluation.json", partial(call, step))
    cast = story.read_cast(out)
    entered = [
        e for e in entrants(run, policies) if e.kind != "learned" or e.behaviour.name == cast.agent
    ]
    job = replace(make_job(run, "test", out / "jobs"), workload=workload)
    with progress("jobs of the run") as tell:
        jobs = play(job, entered, tell)
        strict = play(*_strict(run, job), lambda _done, _of: None)[planning.STRICT]
    material = story.Material(
        log=Path(source.path), source=source, workload=workload, plan=plan, job=job,
        played=jobs, strict=strict, training=training, commands=commands, command=request.command,
    )  # fmt: skip
    return write_page(material, out)


def _strict(run: Recipe, job: Job) -> tuple[Job, list[Entrant]]:
    """Return the run with waiting as a choice, and order of arrival without backfilling."""
    waiting = replace(run, config=replace(run.config, allow_wait=True))
    there = replace(make_job(waiting, "test", job.out), workload=job.workload)
    return there, entrants(waiting, [planning.STRICT])


def _reading(source: TraceSource) -> Recipe:
    """Return a recipe that does no more than name the log."""
    config = load_scenario("queue").config()
    return Recipe("whatif", "queue", config, "bounded_slowdown", source, {"test": range(1)}, 1)


def _id_of(path: Path) -> str:
    """Return an id for the recipes: the name of the log in letters, digits and hyphens."""
    stem = path.name.split(".")[0].lower()
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in stem).strip("-")
    return f"whatif-{plain or 'log'}"


def _refuse_another(out: Path, texts: dict[str, str]) -> None:
    """Raise InputError if a recipe in the folder differs from its text in `texts`, by file name."""
    for file, text in texts.items():
        path = out / file
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise InputError(
                f"{path}: this recipe is of another log, of other settings or another version; "
                "choose another --out"
            )


def _identities(recipe: Recipe, policies: Sequence[str]) -> dict[str, str | None]:
    return {e.behaviour.name: e.digest for e in entrants(recipe, policies)}


def _train(
    request: Any, out: Path, ledger: Ledger, recipe: Recipe, content: list[str], call: Call
) -> dict[str, Any]:
    """Train an agent with each seed, unless that is done; return the checkpoints and the budget."""
    iterations = request.iterations or recipe.online.iterations
    used, unguarded = [], []
    for seed in recipe.online.seeds:
        folder = out / "agents" / f"{recipe.online.agent}-seed{seed}"
        inputs = {
            "recipe": recipe.digest, "log": content, "iterations": iterations, "seed": seed,
        }  # fmt: skip
        step = train_online.Request(
            str(out / planning.TRAIN), str(folder), iterations=iterations, seed=seed,
            workers=request.workers,
        )  # fmt: skip
        ledger.stage(f"train {folder.name}", inputs, folder / DESCRIPTION, partial(call, step))
        passed = (folder / BEST / DESCRIPTION).is_file()
        used.append(str(folder / BEST if passed else folder))
        unguarded += [] if passed else [seed]
    sampling = recipe.online.settings["sampling"]
    return {
        "used": used,
        "unguarded": unguarded,
        "seeds": len(recipe.online.seeds),
        "iterations": iterations,
        "episodes": iterations * sampling["trajectories"] * sampling["windows"],
        "jobs": recipe.config.jobs,
        "train_windows": len(recipe.split["train"]),
        "command": shlex.join(
            ["hindcast", "train-online", str(out / planning.TRAIN), "--iterations",
             str(iterations), "--seed", "0", "--out", "agent"]
        ),
    }  # fmt: skip
