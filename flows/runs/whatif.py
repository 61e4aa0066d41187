"""Stages of `hindcast whatif`.

OUT/recipe.toml, before.toml, run.toml    the windows and runs, see pipeline.report.whatif.plan
OUT/agents/evolution-seed0                an agent of --train, with its delivered/ and best/
OUT/plays, OUT/jobs                       starts of all jobs, see flows.runs.plays
OUT/whatif.html                           the page
OUT/whatif.json, whatif.csv, groups.csv   its numbers, written before the page
OUT/run.json                              the ledger of finished stages, which are skipped
"""

import itertools
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.flows.commands import directly, train_online
from hindcast.flows.commands.ingest import no_settings
from hindcast.flows.progress import note, progress
from hindcast.flows.runs import plays
from hindcast.flows.runs.ledger import Ledger
from hindcast.flows.runs.played_log import BEFORE, RECIPES, RUN, WINDOWS, PlayedLog, file_of
from hindcast.flows.runs.plays import RECORDED, Part, Policy, Scope
from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.recipes.loading import apply_override, load_recipe
from hindcast.pipeline.recipes.recipe import Recipe, TraceSource
from hindcast.pipeline.recipes.recognition import recognise
from hindcast.pipeline.recipes.workload_source import INGESTED, load_source
from hindcast.pipeline.report.whatif import plan as planning
from hindcast.pipeline.report.whatif.held import whole_nodes
from hindcast.pipeline.report.whatif.jobs import counted_jobs
from hindcast.pipeline.report.whatif.material import Material
from hindcast.pipeline.report.whatif.material import policy_of as policy_name
from hindcast.pipeline.report.whatif.numbers import UNITS, UTILISATION
from hindcast.pipeline.report.whatif.numbers import Scope as Values
from hindcast.pipeline.report.whatif.page import write_page
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.schedules.schedule import read_schedule
from hindcast.pipeline.settings.reading import read_settings
from hindcast.pipeline.storage.files import (
    make_folder,
    read_parquet,
    table_writer,
    write_atomically,
    write_text,
)
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.storage.locks import writing
from hindcast.pipeline.storage.run_files import BEST, DELIVERED, DESCRIPTION
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.first_look import no_such_file
from hindcast.pipeline.whatif import pools as pooling
from hindcast.pipeline.whatif.batch_systems.advice import advise
from hindcast.pipeline.whatif.batch_systems.mine import Mine, read_mine
from hindcast.pipeline.whatif.grade import Grade, grade
from hindcast.pipeline.whatif.orders import STRICT, policy_of
from hindcast.pipeline.whatif.outcomes import counted, lower_bounds_of
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.predictable import explained
from hindcast.pipeline.whatif.record import Array
from hindcast.pipeline.whatif.replay import Replay, beside_record
from hindcast.pipeline.whatif.resources.capacities import parse_capacities
from hindcast.pipeline.whatif.run import Run, joined, run_of
from hindcast.pipeline.whatif.shakes import Shaken, shake, shaken
from hindcast.pipeline.whatif.worlds import World, changed, compare, read_change
from hindcast.pipeline.workloads.log_caveats import log_caveats, missing_fields
from hindcast.policies.entrants import entrants

_FORMATS: Final = ("swf", "slurm", "pbs", "table")
_DRAWS: Final = 20  # of --shake
_SHAKEN_JOBS: Final = 60_000_000  # jobs of all shaken runs together, which take some minutes
# Rule that plans the slots of all waiting jobs at every moment, and the number of jobs in a run up
# to which it is played without being asked for.
_PLANNING, _PLANNED_JOBS = "conservative", 100_000


def source_of(request: Any) -> TraceSource:
    """Return the source of a request's log; raise InputError if it cannot be read as one."""
    path = location(request.log)
    ingested = (path / "manifest.json").is_file()
    given: dict[str, Any] = {}
    for each in request.settings:
        apply_override(given, each)
    with_columns = "slurm" if "columns" in given else ""  # output of sacct without its header
    name = request.format or with_columns or (INGESTED if ingested else recognise(path))
    if name != INGESTED and name not in FORMATS:
        raise unknown_name("trace format", name, [*_FORMATS, INGESTED])
    kind = None if name == INGESTED else FORMATS[name].settings
    if given and kind is None:
        raise no_settings(name, request.settings, request.log)
    if kind is not None and given:
        read_settings(kind, given, "--set")
    return TraceSource(name, str(path.resolve()), given)


def check_request(request: Any) -> None:
    """Raise InputError for a policy, change, pool or condition that cannot be used."""
    plays.policies_of(request.policies, reading(TraceSource(INGESTED)))
    for text in request.changes:
        read_change(text)
    if request.mine and not file_of(request.mine).is_file():
        no_such_file(file_of(request.mine), "a slurm.conf, lines of PBS, or FILE.py:function")
    pools = pooling.parse_pools(request.pools) if request.pools else ()
    parse_capacities(request.capacity, [pool.name for pool in pools])
    rules = [*planning.RULES, *planning.CLAIRVOYANT]
    known = [*rules, *request.policies, RECORDED]
    for option, names in (("without", request.without_rules), ("only", request.only_rules)):
        for name in names:
            if name not in known:
                raise unknown_name(f"rule of --{option}-rule", name, known)


def run_whatif(request: Any) -> dict[str, Any]:
    """Run all stages of a request of `hindcast whatif`."""
    out = location(request.out or _id_of(location(request.log)))
    with writing(out):
        return _run(request, out)


def _run(request: Any, out: Path) -> dict[str, Any]:
    source = source_of(request)
    note(f"reading {Path(source.path).name} as {source.format}")
    log = PlayedLog(request, out, source, load_source(reading(source)))
    name, file = _id_of(Path(source.path)), Path(source.path).name
    trace: dict[str, Any] = {"format": source.format, "path": source.path}
    if source.settings:
        trace["settings"] = dict(source.settings)
    texts = planning.recipes(log.plan, name, trace, f"log {file}", log.settings)
    make_folder(out)
    _refuse_another(out, texts)
    for file, text in texts.items():
        write_text(out / file, text)
    recipes = {file: load_recipe(out / file) for file in texts}
    ledger = Ledger(out, recipes[planning.RUN].id, recipes[planning.RUN].digest)
    training = None
    if request.train:
        training = _train(log, ledger, recipes)
    mine = None
    if request.mine:
        mine = read_mine(request.mine, log.record, log.clock)
    policies = _policies(log, recipes[planning.RUN], training, mine)
    material = _material(log, ledger, recipes, policies, training, mine)
    return write_page(material, out)


def _policies(
    log: PlayedLog, run: Recipe, training: Mapping[str, Any] | None, mine: Mine | None
) -> list[Policy]:
    """Return the policies that are played, in the order of tables."""
    request, names = log.request, [*planning.RULES, *planning.CLAIRVOYANT]
    if request.only_rules:
        names = [name for name in names if name in request.only_rules]
    names = [name for name in names if name not in request.without_rules]
    jobs = log.plan.test_last - log.plan.test_first
    asked = (*request.policies, *request.only_rules)
    if _PLANNING in names and jobs > _PLANNED_JOBS and _PLANNING not in asked:
        note(
            f"{_PLANNING} is left out: the run has {jobs:,} jobs, and it plans a slot for every "
            f"waiting job at every moment; --policy {_PLANNING} plays it"
        )
        names.remove(_PLANNING)
    names += [name for name in request.policies if name not in names]
    if training is not None:
        names += training["used"]
    found = plays.policies_of(names, run)
    if log.plan.warm:
        text = "the recorded starts, each in its second, or later where the job does not fit then"
        found.insert(0, Policy(RECORDED, "recorded", RECORDED, None, description=text))
    if mine is not None:
        rule = (mine.order, mine.mode)
        text = mine.description
        found.append(Policy("mine", "heuristic", log.identity, rule, description=text))
    if not [policy for policy in found if policy.kind == "heuristic"]:
        raise InputError("no rule is left to compare; name at least one with --policy")
    return found


def _material(
    log: PlayedLog, ledger: Ledger, recipes: Mapping[str, Recipe], policies: Sequence[Policy],
    training: Mapping[str, Any] | None, mine: Mine | None,
) -> Material:  # fmt: skip
    """Play everything and return what the page is made of."""
    request, workload, plan = log.request, log.workload, log.plan
    scopes = log.parts(recipes)
    run = _run_of(log, scopes)
    graded = _grade(log, mine) if plan.warm else None
    values: dict[str, Values] = {}
    inputs = plays.inputs_of(log.content, {
        "settings": dict(log.source.settings), "pools": request.pools,
        "where": list(request.where),
        **({"capacity": list(request.capacity)} if request.capacity else {}),
    })  # fmt: skip
    of_run: dict[str, list[Array]] = {}  # starts by machine
    for scope in scopes:
        of_scope: dict[str, dict[str, Any]] = {}
        for policy in policies:
            with _shares(f"{scope.name}: {policy.name}") as tell:
                found = plays.played(log.out, ledger, scope, policy, inputs, tell)
            of_scope[policy.name] = {
                metric: of
                for metric, of in plays.values_of(scope, policy, found).items()
                if metric in UNITS or metric.startswith(UTILISATION)
            }
            if scope.name == RUN:
                of_run[policy.name] = found.starts[0]
                plays.write_jobs(log.out, workload, log.rows, run, policy, found)
        values[scope.name] = Values(of_scope)
    together, _ = joined(run.runs)
    shakes = _shakes(log, run, policies)
    known = "" if graded is None or graded.known is None else graded.known
    changes = _changes(log, run, policies, of_run, known, shakes) if request.changes else None
    frames = {name: plays.counted_frame(run, starts) for name, starts in of_run.items()}
    # An orderly scheduler without backfilling leaves fitting jobs waiting, and has a good grade.
    far = graded is not None and graded.letter in {"C", "D"}
    fitting = graded.fitting if graded is not None and far else None
    material = Material(
        name=Path(log.source.path).name,
        format=log.source.format,
        settings=dict(log.source.settings),
        provenance=workload.provenance,
        processors=together.processors,
        plan=plan,
        kinds={policy.name: policy.kind for policy in policies},
        descriptions={policy.name: policy.description for policy in policies},
        run=values[RUN],
        windows=values.get(WINDOWS),
        before=values.get(BEFORE),
        jobs=counted_jobs(together),
        played=frames,
        grade=graded,
        replay=_replayed(run, of_run[RECORDED]) if RECORDED in of_run else None,
        shaken=shakes,
        changes=changes,
        predictable=explained(log.record),
        caveats=(
            *log_caveats(
                workload, pools=bool(log.pools), fitting=fitting, resources=log.resources
            ),
            *log.cautions,
        ),
        missing=missing_fields(workload, log.resources),
        delivered=_delivered(policies, training),
        training=training,
        names={**log.record.names, "user": dict(enumerate(map(str, log.users.tolist())))},
        epoch_s=None if log.second_zero is None else log.second_zero.timestamp(),
        mine="" if mine is None else mine.label,
        commands=_commands(log, recipes, policies),
        command=request.command,
        resources=together.resources,
        whole_nodes=whole_nodes(log.record),
        bounds=lower_bounds_of(run.runs) if together.resources else {},
    )  # fmt: skip
    advice, left_out = _advice(log, ledger, material, inputs, mine)
    read = {name: read_schedule(plays.jobs_file(log.out, name)) for name in material.drawn}
    # Names that differ in a character such as "/" share a file.
    drawn = {name: of for name, of in read.items() if of.facts["policy"] == name}
    return replace(material, advice=advice, without_advice=left_out, schedules=drawn)


def _delivered(policies: Sequence[Policy], training: Mapping[str, Any] | None) -> dict[str, str]:
    """Return what the gate of each agent's training delivered, "" for an agent without a gate."""
    found = {of.name: of.entrant.delivered for of in policies if of.entrant is not None}
    agents = {of.name for of in policies if of.kind == "learned"}
    return {
        **{name: what for name, what in found.items() if name in agents},
        **({} if training is None else training["delivered"]),
    }


def _run_of(log: PlayedLog, scopes: Sequence[Scope]) -> Part:
    """Return the run; raise InputError if there is none, or a change leaves nothing of it."""
    parts = [scope.parts[0] for scope in scopes if scope.name == RUN]
    if not parts:
        raise InputError(
            "the run, usually the last 30 % of the jobs, has no counted job whose start is known; "
            "choose another part with --where FROM..TO"
        )
    for text in log.request.changes:
        for run in parts[0].runs:
            changed(read_change(text), log.record, run)
    return parts[0]


def _advice(
    log: PlayedLog, ledger: Ledger, material: Material, inputs: Mapping[str, Any],
    mine: Mine | None,
) -> tuple[pl.DataFrame | None, tuple[str, ...]]:  # fmt: skip
    """Return advice.csv for the best rule before the run, and what is left out there.

    There is none for several machines, nor for a run other than the last 30 %.
    """
    rule = material.cast.candidate
    if len(log.machines) > 1 or policy_of(rule) is None or not log.is_usual:
        return None, ()
    today = policy_of(material.known) if mine is None else (mine.order, mine.mode)
    path = log.out / "plays" / "advice.parquet"
    key = {**inputs, "rule": rule, "today": material.known if mine is None else log.identity}

    def make() -> dict[str, Any]:
        record = log.record
        with progress("what to change") as tell:
            played = itertools.count(1)
            run = run_of(record, log.plan.test_first, warm=log.plan.warm)
            found = advise(
                record, run, rule, today, clock=log.clock,
                tell=lambda: tell(0, 1, f"{next(played)} runs"),
            )  # fmt: skip
        write_atomically(path, table_writer(found.frame))
        return {"left_out": list(found.left_out)}

    if not ledger.is_finished("advice", key, path):
        ledger.record("advice", key, path, make())
    return read_parquet(path), tuple(ledger.result_of("advice")["left_out"])


def _grade(log: PlayedLog, mine: Mine | None) -> Grade:
    stops = [
        span for text in log.request.without
        for span in [pooling.parse_times(text, "--without", log.second_zero)]
    ]  # fmt: skip
    note("grading the machine")
    last = int(log.record.arrive[-1]) + 1
    return grade(
        [machine.record for machine in log.machines],
        None if mine is None else (mine.order, mine.mode),
        [(begin or 0, last if end is None else end) for begin, end in stops],
    )


@contextmanager
def _shares(title: str) -> Iterator[Callable[[float], None]]:
    """Show the progress of a step that tells the share which is done."""
    with progress(title) as tell:
        yield lambda share: tell(int(1000 * share), 1000)


def _replayed(run: Part, starts: Sequence[Array]) -> Replay:
    """Return what became of the recorded starts of a run on all machines."""
    of, place = joined(run.runs)
    return beside_record(of, np.concatenate(starts)[place])


def _shakes(log: PlayedLog, run: Part, policies: Sequence[Policy]) -> dict[str, Shaken]:
    """Return the values of every rule by draw, with all submissions moved by up to a minute."""
    rules = [of for of in policies if of.rule is not None and of.kind == "heuristic"]
    draws = log.request.shake
    if draws is None:
        # The same log has the same draws on every machine: jobs are counted, not seconds.
        played = len(rules) * sum(len(of.row) for of in run.runs)
        draws = max(2, min(_DRAWS, _SHAKEN_JOBS // max(played, 1)))
        if draws < _DRAWS:
            note(f"shakes: {draws} draws, not {_DRAWS}, since the log is long; --shake K draws K")
    found: dict[str, Shaken] = {}
    for policy in rules if draws else ():
        assert policy.rule is not None
        with _shares(f"shakes: {policy.name}") as tell:
            found[policy.name] = shake(run.runs, *policy.rule, draws, tell)
    return found


def _changes(
    log: PlayedLog, run: Part, policies: Sequence[Policy],
    of_run: Mapping[str, Sequence[Array]], known: str, shakes: Mapping[str, Shaken],
) -> pl.DataFrame:  # fmt: skip
    """Return changes.csv: a row for each change and rule, see `hindcast.pipeline.report.whatif`."""
    rules = [of for of in policies if of.rule is not None and of.kind == "heuristic"]
    together, place = joined(run.runs)
    merged = {of.name: np.concatenate(of_run[of.name])[place] for of in rules}
    named = _named_for_changes(log, rules, together, merged, known)
    texts = log.request.changes
    spreads = _spreads(log, run, named, min((len(of.wait) for of in shakes.values()), default=0))
    rows = []
    for text in texts:
        for policy in named:
            with _shares(f"{text}: {policy.name}") as tell:
                there = _world(log, run.runs, policy, text, tell)
            slowdown = compare(together, merged[policy.name], *there)
            wait = compare(together, merged[policy.name], *there, "wait")
            spread = spreads[text, policy.name]
            rows.append({
                "change": text, "policy": policy.name, "jobs": slowdown.jobs,
                "removed": there[0].removed, "chains": there[0].chains,
                "mean_bounded_slowdown": slowdown.mean, "mean_wait_s": wait.mean,
                "same_jobs_slowdown": slowdown.same_jobs, "same_jobs_wait_s": wait.same_jobs,
                "difference": slowdown.difference.value, "low": slowdown.difference.low,
                "high": slowdown.difference.high,
                "shake_sd": float(np.std(spread, ddof=1)) if len(spread) > 1 else None,
            })  # fmt: skip
    return pl.DataFrame(rows)


def _spreads(
    log: PlayedLog, run: Part, named: Sequence[Policy], draws: int
) -> dict[tuple[str, str], list[float]]:
    """Return the differences by draw of every change and policy.

    The unchanged side of a draw is played once for all changes.
    """
    texts = log.request.changes
    found: dict[tuple[str, str], list[float]] = {(t, of.name): [] for t in texts for of in named}
    with _shares("shakes of changed worlds") as tell:
        for number, policy in enumerate(named):
            for draw in range(draws):
                runs = [shaken(of, draw) for of in run.runs]
                together, place = joined(runs)
                starts = np.concatenate([plays.start(of, policy) for of in runs])[place]
                for text in texts:
                    there = _world(log, runs, policy, text)
                    difference = compare(together, starts, *there).difference
                    found[text, policy.name].append(difference.value)
                tell((number + (draw + 1) / draws) / len(named))
    return found


def _world(
    log: PlayedLog, runs: Sequence[Run], policy: Policy, text: str,
    tell: Callable[[float], None] | None = None,
) -> tuple[World, Array]:  # fmt: skip
    """Return the changed world of the runs of all machines, and the starts in it."""
    change, record = read_change(text), log.record
    worlds = [changed(change, record, of) for of in runs]
    assert policy.rule is not None
    order, mode = policy.rule
    starts = [play(of.run, order, of.options(mode), tell) for of in worlds]
    together, place = joined([of.run for of in worlds])
    world = replace(
        worlds[0], run=together, removed=sum(of.removed for of in worlds),
        chains=sum(of.chains for of in worlds),
    )  # fmt: skip
    return world, np.concatenate(starts)[place]


def _named_for_changes(
    log: PlayedLog, rules: Sequence[Policy], run: Run, starts: Mapping[str, Array], known: str
) -> list[Policy]:
    """Return the rules of changed worlds: --only-rule, the known scheduler, or the best three."""
    by_name = {policy.name: policy for policy in rules}
    if log.request.only_rules or log.request.policies:
        asked = {*log.request.only_rules, *log.request.policies, "mine"}
        if chosen := [policy for policy in rules if policy.name in asked]:
            return chosen
    if (served := policy_name(known)) in by_name:
        return [by_name[served]]
    means = {name: float(counted(run, of).slowdown.mean()) for name, of in starts.items()}
    best = sorted(means, key=means.__getitem__)[:3]
    plain = planning.RULES[0]
    return [by_name[name] for name in dict.fromkeys([*best, plain]) if name in by_name]


def _commands(
    log: PlayedLog, recipes: Mapping[str, Recipe], policies: Sequence[Policy]
) -> dict[str, str]:
    """Return the command that gives the same values as each table, by its name."""
    if not log.is_whole:
        return {}
    # A strict rule needs a column that the recipes do not ask for.
    strict = [of.name for of in policies if of.rule is not None and of.rule[1] == STRICT]
    names = [of.name for of in policies if of.name != "mine" and of.name not in strict]
    return {
        scope: shlex.join(
            ["hindcast", "evaluate", str(log.out / file), "--policy", *names, "--out", "scores"]
        )
        for scope, file in RECIPES.items()
        if file in recipes
    }


def reading(source: TraceSource) -> Recipe:
    """Return a recipe that does no more than name the log."""
    config = load_scenario("queue").config()
    return Recipe("whatif", "queue", config, "bounded_slowdown", source, {"test": range(1)}, 1)


def _id_of(path: Path) -> str:
    """Return an id for the recipes: the name of the log in letters, digits and hyphens."""
    stem = path.name.split(".")[0].lower()
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in stem).strip("-")
    return f"whatif-{plain or 'log'}"


def _refuse_another(out: Path, texts: Mapping[str, str]) -> None:
    """Raise InputError if a recipe in the folder differs from its text in `texts`, by file name."""
    for file, text in texts.items():
        path = out / file
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise InputError(
                f"{path}: this recipe is of another log, of other settings or another version; "
                "choose another --out"
            )


def _train(log: PlayedLog, ledger: Ledger, recipes: Mapping[str, Recipe]) -> dict[str, Any]:
    """Train an agent with each seed, unless that is done; return checkpoints, gates and budget."""
    request, out = log.request, log.out
    if not log.is_whole:
        raise InputError("--train plays whole logs, so it cannot go with --pools or a partition")
    if planning.TRAIN not in recipes:
        raise InputError(
            f"--train: the log has {log.plan.log_jobs:,} jobs, expected at least "
            f"{planning.FEWEST_JOBS}"
        )
    recipe = recipes[planning.TRAIN]
    iterations = request.iterations or recipe.online.iterations
    used = []
    for seed in recipe.online.seeds:
        folder = out / "agents" / f"{recipe.online.agent}-seed{seed}"
        inputs = {
            "recipe": recipe.digest, "log": log.content, "iterations": iterations, "seed": seed,
        }  # fmt: skip
        step = train_online.Request(
            str(out / planning.TRAIN), str(folder), iterations=iterations, seed=seed,
            workers=request.workers,
        )  # fmt: skip
        ledger.stage(f"train {folder.name}", inputs, folder / DESCRIPTION, partial(directly, step))
        # What the gate refused is on the page as well, and named so: the agent, not the rule.
        places = (folder / DELIVERED, folder / BEST, folder)
        agents = [place for place in places if (place / DESCRIPTION).is_file()]
        delivered = entrants(recipe, [str(agents[0])])[0].delivered
        used.append(str(agents[0] if delivered == "agent" else agents[min(1, len(agents) - 1)]))
    found = entrants(recipe, used)
    sampling = recipe.online.settings["sampling"]
    return {
        "used": used,
        "delivered": {of.behaviour.name: of.delivered or "rule" for of in found},
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
