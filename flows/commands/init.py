"""`hindcast init`: look at a table, a series or a workload; propose how it is read or run."""

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown
from hindcast.pipeline.storage.location import location

if TYPE_CHECKING:
    from hindcast.pipeline.traces.tables.draft import Proposal

_OF_NODES: Final = "gpupack"  # scenario of --nodes
_NEEDED: Final = frozenset({"submit", "start", "end", "duration", "cores", "requested_cores"})

_FACTS: Final = 8  # remarks on a series that are shown


@dataclass(frozen=True)
class Request:
    """Table of jobs or workload, and the file for its mapping or recipe."""

    source: p.Folder = p.argument(
        "table of jobs, CSV or Parquet, or a folder of such; a log of decisions; a series of a "
        "grid; or a workload that `ingest` wrote",
        metavar="TABLE|WORKLOAD",
    )
    out: p.Folder = p.option(
        "file for the mapping or recipe (default: beside it, ending in .toml); never overwritten",
        default="",
        metavar="FILE",
    )
    scenario: str = p.option(
        "scenario of the recipe: queue, binpack or deferrable of a workload (default: the first "
        "that suits), gpupack of a list of pods",
        default="",
        metavar="NAME",
    )
    time_zone: str = p.option(
        "time zone of the log, such as Europe/Berlin (default: that of the log, else UTC)",
        default="",
        metavar="ZONE",
    )
    nodes: tuple[p.Name, ...] = p.option(
        "kinds of nodes for a list of pods, such as 40x64x96Gx8:A100, or published; proposes a "
        "recipe of gpupack", default=(), nargs="+", metavar="COUNTxCPUSxMEMORYxGPUS:MODEL",
    )  # fmt: skip


def check(request: Request) -> None:
    """Raise InputError if there is no such table or workload, or the file exists."""
    from hindcast.pipeline.errors import InputError, StorageError
    from hindcast.pipeline.storage.location import is_remote
    from hindcast.pipeline.traces.first_look import no_such_file

    source, out = location(request.source), _out(request)
    if is_remote(source) or is_remote(out):
        raise InputError(f"{source}: expected a table on this machine, not in an object store")
    if not source.exists():
        no_such_file(source, "a table of jobs, CSV or Parquet, or the folder of a workload")
    if _is_workload(request):
        _check_workload(source)
    elif request.time_zone or (request.scenario and not _reads_tables(request.scenario)):
        option = "--time-zone" if request.time_zone else "--scenario"
        raise InputError(
            f"{option} is for a workload, but {source} is a table; ingest it first, and then give "
            "the workload"
        )
    if out.exists():
        raise StorageError(
            f"{out}: this file exists and is not overwritten; choose another --out, or remove it"
        )


def _is_workload(request: Request) -> bool:
    """Return whether the source is a folder that Hindcast wrote; another folder is a table."""
    return (location(request.source) / "manifest.json").exists()


def _reads_tables(scenario: str) -> bool:
    """Return whether a scenario proposes recipes for tables."""
    from hindcast.pipeline.recipes.proposals.proposal import PROPOSALS, proposer

    return scenario in PROPOSALS and hasattr(proposer(scenario), "propose")


def _check_workload(source: Path) -> None:
    """Raise InputError if a folder is no workload, by its manifest."""
    from hindcast.pipeline.errors import InputError
    from hindcast.pipeline.storage.files import read_json
    from hindcast.pipeline.workloads.folder import KIND

    manifest = read_json(source / "manifest.json")
    kind = manifest.get("kind") if isinstance(manifest, dict) else None
    if kind != KIND:
        contents = f"this folder holds a {kind}" if kind else "this folder holds no workload"
        raise InputError(
            f"{source}: {contents}, expected a table of jobs, or the folder of a workload, which "
            "`hindcast ingest` writes"
        )


def _out(request: Request) -> Path:
    """Return the file to write: jobs.toml for jobs.csv, jobs.csv.gz, and a folder jobs/."""
    from hindcast.pipeline.traces.files.compression import SUFFIXES

    if request.out:
        return location(request.out)
    source = location(request.source)
    if source.is_dir():
        folder = source.resolve() if source.name in {"", ".."} else source
        return folder.with_name(f"{folder.name}.toml")
    plain = source.stem if source.suffix in SUFFIXES else source.name
    return source.with_name(plain).with_suffix(".toml")


def _path_in(out: Path, source: Path) -> str:
    """Return the path of the source to write in `out`: its name, if both are in one folder."""
    absolute = source.resolve()
    return absolute.name if absolute.parent == out.resolve().parent else str(absolute)


def run(request: Request) -> dict[str, Any]:
    """Write the mapping of a table or the recipe of a workload; return its open questions too."""
    if request.nodes or (request.scenario and not _is_workload(request)):
        return _pods(request)
    if _is_workload(request):
        return _recipe(request)
    from hindcast.pipeline.errors import TraceError
    from hindcast.pipeline.storage.files import write_text
    from hindcast.pipeline.traces.tables.toml import toml_of

    source, out = location(request.source), _out(request)
    if decided := _decisions(source, out):
        return decided
    try:
        proposal = _mapping(source)
    except TraceError:  # no table of jobs by its names
        if found := _series(source) or _decisions(source, out, by_values=True):
            return found
        raise
    runs = proposal.known or {"duration", "end"} & proposal.columns.keys()
    if not runs and (series := _series(source)):
        return series
    if not (proposal.known or {"duration", "start"} & proposal.columns.keys()):
        _say_pods(source, proposal)
    write_text(out, toml_of(proposal, _path_in(out, source)))
    return {
        "mapping": str(out),
        "known": proposal.known,
        "notes": proposal.notes,
        "columns": proposal.columns,
        "units": proposal.units,
        "states": proposal.states,
        "not_read": proposal.unused,
        "unsure": proposal.unsure,
        **_plausibility(out),
    }


def _decisions(source: Path, out: Path, *, by_values: bool = False) -> dict[str, Any] | None:
    """Write the mapping of a log of decisions; return None for a table that is none."""
    from hindcast.pipeline.decisions.proposals.proposal import propose
    from hindcast.pipeline.storage.files import write_text

    proposal = propose(source, by_values=by_values)
    if proposal is None:
        return None
    if source.resolve().parent != out.resolve().parent:
        proposal.table["file"] = str(source.resolve())
        if outcomes := proposal.table.get("outcomes"):
            outcomes["file"] = str(source.resolve().with_name(outcomes["file"]))
    write_text(out, proposal.toml)
    return {
        "decisions": str(out),
        "mapping": proposal.table,
        "not_read": proposal.not_read,
        "unsure": proposal.unsure,
    }


def _say_pods(source: Path, proposal: "Proposal") -> None:
    """Add that a table without lengths of jobs can be read as a list of pods, if it can."""
    from hindcast.pipeline.errors import TraceError
    from hindcast.pipeline.traces.pods import columns_of

    with suppress(TraceError):
        columns_of(source)
        proposal.unsure.append(
            f"this may be a list of pods: `hindcast init {source} --nodes "
            "COUNTxCPUSxMEMORYxGPUS:MODEL` proposes a recipe of gpupack"
        )


def _series(source: Path) -> dict[str, Any] | None:
    """Return the settings that read a series of a grid; None for a table that is none."""
    from hindcast.pipeline.errors import TraceError
    from hindcast.pipeline.traces.hourly.proposal import propose

    proposal = propose(source)
    if proposal is None:
        return None
    if not proposal.columns:
        raise TraceError(
            f"{source}: rows are equally far apart in time, as in a series of a grid, but no name "
            "says which column is a carbon intensity, a price or a capacity; for a series name it, "
            f"as in `hindcast ingest series {source} --set price=COLUMN`; the columns of numbers "
            f"are {', '.join(proposal.not_read)[:300]}"
        )
    return {"series": str(source), **asdict(proposal)}


def _show_series(result: Mapping[str, Any]) -> Shown:
    """Return the lines about a series, with the settings that read it."""
    lines = [f"{result['series']}: a series of a grid; it needs no mapping, so nothing is written"]
    lines += [f"  {name:<16} {label}" for name, label in result["columns"].items()]
    lines += [f"  {fact}" for fact in result["facts"][:_FACTS]]
    if (more := len(result["facts"]) - _FACTS) > 0:
        lines.append(f"  and {more:,} more, which `ingest series` prints")
    settings = [
        f"--set {shlex.quote(f'{key}={str(value).lower() if value is True else value}')}"
        for key, value in result["settings"].items()
    ]
    command = ["hindcast ingest series", shlex.quote(result["series"]), *settings, "--out series"]
    questions = _open_questions(result)[:-1]
    return Shown([*lines, *questions, "Then:", f"  {' '.join(command)}"])


def _pods(request: Request) -> dict[str, Any]:
    """Write the recipe of a table that one scenario reads, such as a list of pods."""
    from hindcast.pipeline.recipes.proposals.proposal import proposer
    from hindcast.pipeline.storage.files import write_text

    source, out, scenario = location(request.source), _out(request), request.scenario or _OF_NODES
    propose = proposer(scenario).propose
    proposal = propose(source, _path_in(out, source), out.stem, request.nodes)
    write_text(out, proposal.toml)
    return {
        "pods": str(out),
        "scenario": scenario,
        "columns": proposal.columns,
        "facts": list(proposal.facts),
        "not_read": list(getattr(proposal, "not_read", ())),  # a plug-in's may have none
        "unsure": list(proposal.unsure),
    }


def _show_pods(result: Mapping[str, Any]) -> Shown:
    lines = [f"{result['pods']}: a recipe for scenario {result['scenario']}"]
    lines += [f"  {name:<16} {label}" for name, label in result["columns"].items()]
    lines += [*result["facts"], *_open_questions(result)]
    command = f"hindcast evaluate {shlex.quote(result['pods'])} --out evaluation"
    return Shown([*lines, f"  {command}"])


def _show_decisions(result: Mapping[str, Any]) -> Shown:
    mapping = result["mapping"]
    lines = [f"{result['decisions']}: a log of decisions, shape {mapping['shape']}"]
    lines += [f"  {name:<16} {column}" for name, column in mapping["columns"].items()]
    for side in ("context", "candidates"):
        for kind in ("numbers", "categories"):
            if found := mapping[side].get(kind):
                lines.append(f"  {side} {kind}: {', '.join(found)}")
    lines += _open_questions(result)
    command = f"hindcast ingest decisions {shlex.quote(result['decisions'])} --out dataset"
    return Shown([*lines, f"  {command}"])


def _open_questions(result: Mapping[str, Any]) -> list[str]:
    """Return the lines on what a mapping leaves open, which end above the next command."""
    columns = ", ".join(result["not_read"])
    return [
        *([f"  {'not read':<16} {columns}"] if columns else []),
        *(f"unsure: {question}" for question in result["unsure"]),
        "Look at the file, then:",
    ]


def _plausibility(mapping: Path) -> dict[str, Any]:
    """Return what of a table is implausible as the mapping reads it; nothing if it reads no job."""
    from hindcast.pipeline.errors import TraceError
    from hindcast.pipeline.traces import FORMATS
    from hindcast.pipeline.workloads.log_caveats import log_caveats, mostly_unread

    try:
        caveats = log_caveats(FORMATS["table"].reading(mapping)[0])
    except TraceError:
        return {"warnings": [], "unread": False}  # the open questions say what is missing
    return {"warnings": [c.text for c in caveats], "unread": mostly_unread(caveats)}


def _mapping(source: Path) -> "Proposal":
    """Return the proposal for a table; raise TraceError if nothing in it is a column of jobs."""
    from hindcast.pipeline.errors import TraceError
    from hindcast.pipeline.traces.tables.proposal import propose

    proposal = propose(source)
    found = _NEEDED & proposal.columns.keys()
    if proposal.names or (found if not proposal.is_json else "submit" in found):
        return proposal
    labels = [*proposal.columns.values(), *proposal.unused]
    listed = ", ".join(labels[:12]) + (", ..." if len(labels) > 12 else "")
    kind = "this is JSON, expected a table of jobs; " if proposal.is_json else ""
    raise TraceError(
        f"{source}: {kind}no column was found for submit, duration (or start and end) or cores, "
        f"which are needed; the columns are {listed}. A log of decisions needs the id of the "
        "decision, its candidates and the taken one"
    )


def _recipe(request: Request) -> dict[str, Any]:
    """Write the recipe for a workload; return what `show` says about it."""
    from hindcast.pipeline.recipes.proposals.proposal import propose_recipe
    from hindcast.pipeline.storage.files import write_text
    from hindcast.pipeline.workloads.folder import load_workload

    source, out = location(request.source), _out(request)
    proposal = propose_recipe(
        load_workload(source),
        _path_in(out, source),
        out.stem,
        request.scenario,
        request.time_zone,
    )
    write_text(out, proposal.toml)
    config = {key: value for key, value in proposal.plan.config.items() if key != "starts"}
    splits = [{**asdict(split), "windows": len(split.windows)} for split in proposal.plan.splits]
    return {
        "recipe": str(out),
        "scenario": proposal.scenario,
        "suits": dict(proposal.suits),
        "config": config,
        "facts": list(proposal.plan.facts),
        "splits": splits,
        "tasks": proposal.tasks,
        "left_out": dict(proposal.plan.left_out),
        "rows_left_out": dict(proposal.rows_left_out),
        "warnings": list(proposal.warnings),
        "unread": proposal.unread,
    }


def show(result: Mapping[str, Any]) -> Shown:
    """Return the proposal, its open questions, the parts left out, and the next command."""
    if "pods" in result:
        return _show_pods(result)
    if "series" in result:
        return _show_series(result)
    if "decisions" in result:
        return _show_decisions(result)
    return _show_recipe(result) if "recipe" in result else _show_mapping(result)


def _show_mapping(result: Mapping[str, Any]) -> Shown:
    """Return the lines about a mapping; the exit code is 1 if it cannot read most of the rows."""
    units = result["units"]
    lines = [f"{result['mapping']}: {len(result['columns'])} columns proposed"]
    lines += [f"this is {result['known']}"] if result["known"] else []
    lines += [f"note: {note}" for note in result["notes"]]
    for name, label in result["columns"].items():
        unit = f" ({units[name]})" if name in units else ""
        lines.append(f"  {name:<16} {label}{unit}")
    lines += _open_questions(result)
    lines.append(f"  hindcast ingest table {shlex.quote(result['mapping'])} --out workload")
    return Shown(lines, warnings=result["warnings"], code=int(result["unread"]))


def _show_recipe(result: Mapping[str, Any]) -> Shown:
    """Return the lines about a recipe; the exit code is 1 if most rows of the log were bad."""
    lines = [f"{result['recipe']}: a recipe for scenario {result['scenario']}"]
    for name, why in result["suits"].items():
        if name != result["scenario"]:
            suits = f"does not suit: {why}" if why else "suits as well"
            lines.append(f"  {name:<12}{suits} (--scenario {name})")
    lines += [f"  {'machine':<12}{'; '.join(result['facts'])}"]
    settings = ", ".join(f"{key} = {value}" for key, value in result["config"].items())
    lines += [f"  {'config':<12}{settings}", "", _row("split", *_COLUMNS)]
    for split in result["splits"]:
        values = (
            f"{split['windows']:,}", f"{split['jobs']:,}", f"{split['days']:.4g}",
            f"{split['load']:.0%}", f"{split['contended']:.0%}",
            "-" if split["in_use"] is None else f"{split['in_use']:.0%}",
            "-" if split["wait_h"] is None else f"{split['wait_h']:.3g}",
        )  # fmt: skip
        lines.append(_row(split["name"], *values))
    used = result["tasks"] - sum(result["left_out"].values())
    lines += [
        "",
        "load: work of the jobs by what the machines can do; contended: share of the time in",
        "which jobs would need more than there is if none waited; in use, wait: in the log",
        "",
        f"used: {used:,} of {result['tasks']:,} tasks, {used / result['tasks']:.0%}",
    ]
    lines += [f"  left out, {why}: {count:,} tasks" for why, count in result["left_out"].items()]
    lines += [
        f"  left out by ingest, {why}: {count:,} rows"
        for why, count in result["rows_left_out"].items()
        if count
    ]
    command = f"hindcast run {shlex.quote(result['recipe'])} --out run"
    lines += ["Look at the file, then:", f"  {command}"]
    return Shown(lines, warnings=result["warnings"], code=int(result["unread"]))


_COLUMNS: Final = ("windows", "jobs", "days", "load", "contended", "in use", "wait h")


def _row(name: str, *values: str) -> str:
    return f"{name:<12}" + "".join(f"{value:>11}" for value in values)


COMMANDS: Final = {"init": Command(
    "hindcast init jobs.csv --out jobs.toml",
    Request,
    "Of a table it proposes the mapping that `ingest table` reads, of a log of decisions that of "
    "`ingest decisions`, of a series the settings of `ingest series`, of a workload a recipe for "
    "`run`.",
)}  # fmt: skip
