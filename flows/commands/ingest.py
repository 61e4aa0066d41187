"""`hindcast ingest`: convert a raw trace to a workload, a dataset of decisions, or a series."""

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown, build, caveats_of
from hindcast.flows.progress import progress
from hindcast.pipeline.errors import InputError, did_you_mean
from hindcast.pipeline.storage.location import location

if TYPE_CHECKING:
    from hindcast.pipeline.traces.ingest import IngestResult


@dataclass(frozen=True)
class Request:
    """Raw trace, its format, and the folder for the workload or dataset."""

    trace_format: p.Name = p.argument(
        "name of a format that `hindcast traces` lists, such as decisions", metavar="FORMAT"
    )
    path: p.Folder = p.argument(
        "file or folder of the raw trace, or the mapping that `init` wrote", metavar="PATH"
    )
    out: p.Folder = p.option("folder for the workload or dataset (Parquet and manifest.json)")
    settings: tuple[p.Override, ...] = p.option(
        "setting of the format's reader (TOML), such as processors=1024; may be repeated",
        default=(), flag="--set", action="append", metavar="KEY=VALUE",
    )  # fmt: skip
    anonymise: p.Name | None = p.option(
        "file of a key, made if there is none: names become pseudonyms, times are moved, so that "
        "the workload can be published",
        default=None, metavar="KEYFILE",
    )  # fmt: skip
    keep: tuple[p.Name, ...] = p.option(
        "with --anonymise, a column whose names stay: queue, partition, qos or cluster; may be "
        "repeated",
        default=(), flag="--keep", action="append", metavar="COLUMN",
    )  # fmt: skip


def check(request: Request) -> None:
    """Raise InputError if the format is unknown or the trace does not exist."""
    from hindcast.pipeline.errors import unknown_name
    from hindcast.pipeline.traces import FORMATS
    from hindcast.pipeline.traces.first_look import no_such_file

    if request.trace_format not in FORMATS:
        raise unknown_name("trace format", request.trace_format, FORMATS)
    if not location(request.path).exists():
        expected = FORMATS[request.trace_format].path
        no_such_file(location(request.path), expected)
    settings_of(request)
    _check_anonymise(request)


def _check_anonymise(request: Request) -> None:
    """Raise InputError if the key, or the columns whose names stay, cannot be used."""
    from hindcast.pipeline.storage.location import is_remote
    from hindcast.pipeline.traces import FORMATS
    from hindcast.pipeline.workloads.anonymous import check_kept, key_for

    if request.anonymise is None:
        if request.keep:
            raise InputError("ingest: --keep is for --anonymise")
        return
    if FORMATS[request.trace_format].read is None:
        raise InputError(f"--anonymise is for logs of jobs, and {request.trace_format} is none")
    if is_remote(location(request.anonymise)):
        raise InputError(f"{request.anonymise}: expected a file on this machine for the key")
    check_kept(request.keep)
    key_for(location(request.anonymise), location(request.out))


def settings_of(request: Request) -> Any:
    """Return the settings of the format's reader; None if none are given."""
    from hindcast.pipeline.recipes.loading import settings_from
    from hindcast.pipeline.traces import FORMATS

    if not request.settings:
        return None
    kind = FORMATS[request.trace_format].settings
    if kind is None:
        raise no_settings(request.trace_format, request.settings, request.path)
    return settings_from(kind, request.settings)


# What selects jobs of a log -> how jobs of a table are selected.
_ONE_OF_SEVERAL: Final = {
    "partition": "`hindcast whatif --where partition=NAME` plays one",
    "cluster": "give the rows of one cluster as a table of their own",
}


def no_settings(form: str, settings: Sequence[str], path: str) -> InputError:
    """Return the error for settings of a format whose reader has none."""
    from hindcast.pipeline.recipes.loading import apply_override
    from hindcast.pipeline.traces.tables.mapping import TableMapping

    fault = f"--set: the format {form} has no settings"
    if form != "table":
        return InputError(fault)
    known = [attribute.name for attribute in fields(TableMapping)]
    for key in (override.partition("=")[0].strip() for override in settings):
        if key.partition(".")[0] not in known:
            way = _ONE_OF_SEVERAL.get(key) or did_you_mean(key, known)
            return InputError(f"{fault}, and its mapping no key {key!r}; {way}")
    written = []
    for override in settings:
        key, _, text = override.partition("=")
        value: dict[str, Any] = {}
        apply_override(value, f"value={text}")
        as_toml = json.dumps(value["value"], ensure_ascii=False, default=str)
        written.append(f"{key.strip()} = {as_toml}")
    return InputError(f"{fault}; write {', '.join(written)} into {path}")


def run(request: Request) -> dict[str, Any]:
    """Read a raw trace and write a workload, or read recorded decisions and write a dataset."""
    from hindcast.pipeline.traces import FORMATS
    from hindcast.pipeline.traces import ingest as ingestion
    from hindcast.pipeline.workloads.caveats import to_json
    from hindcast.pipeline.workloads.log_caveats import mostly_unread

    name, path, out = request.trace_format, location(request.path), location(request.out)
    if name in FORMATS and FORMATS[name].recorded:
        module = importlib.import_module(FORMATS[name].recorded)
        return {**build.result_of(module.ingest(path, out)), **_counted(out)}
    if name in FORMATS and FORMATS[name].series:
        made: dict[str, Any] = importlib.import_module(FORMATS[name].series).ingest(
            path, out, settings_of(request)
        )
        return made
    key = None if request.anonymise is None else location(request.anonymise)
    with progress("ingest") as tell:
        result = ingestion.ingest(name, path, out, tell, settings_of(request), key, request.keep)
    provenance = result.workload.provenance
    return {
        "workload": str(result.folder),
        "tasks": result.workload.tasks.height,
        "counts": dict(provenance.counts),
        "left_out": dict(provenance.left_out),
        "quarantined": result.quarantined,
        "caveats": to_json(result.caveats),
        "unread": mostly_unread(result.caveats),
        **_anonymised(result, request.anonymise),
    }


def _anonymised(result: "IngestResult", key: str | None) -> dict[str, Any]:
    """Return what became of the columns; nothing if the workload was not anonymised."""
    if result.anonymised is None:
        return {}
    of = result.anonymised
    return {
        "anonymised": {
            "key": key,
            "key_made": result.key_made,
            "replaced": list(of.replaced),
            "numbered": dict(of.numbered),
            "kept": list(of.kept),
            "unchanged": list(of.unchanged),
        }
    }


def _counted(dataset: Path) -> dict[str, Any]:
    """Return the counts of decisions that were made elsewhere, and how they were read."""
    from hindcast.pipeline.dataset.manifest import read_manifest

    lineage = read_manifest(dataset).provenance
    return {"counts": dict(lineage["counts"]), "notes": list(lineage["notes"])}


def show(result: Mapping[str, Any]) -> Shown:
    """Return the numbers of tasks that were read and of rows that were left out."""
    if "dataset" in result:
        made = build.show(result)
        counts = [f"  {name}: {n:,}" for name, n in result["counts"].items() if n]
        notes = [f"  note: {note}" for note in result["notes"]]
        return replace(made, lines=[*made.lines, *counts, *notes])
    if "series" in result:
        hours, zones = result["counts"]["hours"], len(result["zones"])
        first, last = (
            f"{datetime.fromtimestamp(3600 * result[key], UTC):%Y-%m-%d %H:%M}"
            for key in ("first_hour", "last_hour")
        )
        of = f"{zones} zones" if zones > 1 else f"zone {result['zones'][0]}"
        lines = [f"{result['series']}: {hours:,} hours of {of}, {first} to {last} UTC"]
        lines += [f"  {name}: {n:,}" for name, n in result["counts"].items() if n]
        lines += [f"  gaps, in hours: {', '.join(map(str, result['gaps_h']))}"] * bool(
            result["gaps_h"]
        )
        lines += [f"  {remark}" for remark in result["remarks"]]
        return Shown(lines, warnings=result["warnings"])
    lines = [f"{result['workload']}: {result['tasks']:,} tasks"]
    lines += [f"  {name}: {count:,}" for name, count in result["counts"].items()]
    lines += [f"  left out, {name}: {count:,}" for name, count in result["left_out"].items()]
    if result["quarantined"]:
        lines.append(f"  quarantined with file, line and reason: {result['quarantined']:,} rows")
    if "anonymised" in result:
        lines += _show_anonymised(result["anonymised"])
    return Shown(lines, warnings=caveats_of(result), code=int(result["unread"]))


def _show_anonymised(told: Mapping[str, Any]) -> list[str]:
    """Return what was replaced and removed, what is lost by it, and what still identifies."""
    key = f"{'new ' if told['key_made'] else ''}key in {told['key']}"
    numbered = ", ".join(f"{name} ({count:,})" for name, count in told["numbered"].items())
    facts = {
        f"anonymised with the {key}": "keep it for the next log, and from others, who could test "
        "guessed names with it",
        "replaced by pseudonyms": ", ".join(told["replaced"]),
        "numbered, without their names": numbered,
        "with their names": ", ".join(told["kept"]),
        "moved": "all times by one number of whole weeks, so that hours and weekdays stay",
        "removed": "time zone, names and digests of files, notes of the log, names of machines, "
        "rows left out",
        "unchanged, so that a job can be recognised by another record of it": ", ".join(
            told["unchanged"]
        ),
    }
    return [f"  {what}: {text}" for what, text in facts.items() if text]


COMMANDS: Final = {"ingest": Command(
    "hindcast ingest alibaba2017 traces/batch_task.csv --out workloads/alibaba",
    Request,
    recorded="asked",
)}  # fmt: skip
