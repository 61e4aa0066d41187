"""Units of the columns that are proposed: from what fits, the names, and defaults in this order."""

import re
from collections.abc import Mapping

import polars as pl

from hindcast.pipeline.traces.field_values import moment, span
from hindcast.pipeline.traces.tables.draft import FORMS, SINCE_1970, Proposal, share_of, values_of
from hindcast.pipeline.traces.tables.fitting import (
    GOOD,
    exceeds_log,
    is_limit,
    is_since_submission,
    time_between,
    unit_of_limits,
    unit_of_memory,
    unit_of_runs,
    unit_of_times,
)
from hindcast.pipeline.traces.tables.mapping import (
    CORES,
    DATETIME,
    GPU_SHARE,
    MEMORY,
    SECONDS,
    TIMES,
)
from hindcast.pipeline.traces.tables.names import memory_of


def units_of_times(proposal: Proposal, sample: pl.DataFrame, hints: Mapping[str, str]) -> None:
    """Find the units or forms of times, and say where they have no offset."""
    local = False
    doubts: dict[str, str] = {}
    for name in [name for name in TIMES if name in proposal.columns]:
        values, label = values_of(sample, proposal.columns[name]), proposal.columns[name]
        numbers = values.cast(pl.Float64, strict=False).drop_nulls()
        if len(numbers) and len(numbers) >= GOOD * len(values):
            unit, doubt = _unit_of_times(float(str(numbers.median())), hints.get(name))
            if doubt:
                doubts[name] = f"{name}: {label!r} {doubt}"
        elif share_of(values, moment(pl.col("x"))) >= GOOD:
            unit = DATETIME
            zoned = values.str.contains(r"(Z|[+-]\d\d:?\d\d)$").mean()
            local = local or float(str(zoned)) < GOOD
        else:
            forms = [f for f in FORMS if share_of(values, moment(pl.col("x"), form=f)) >= GOOD]
            if not forms:  # of a known table
                proposal.unsure.append(f"{name}: the values of {label!r} are no times")
                continue
            unit, local = forms[0], True
            if len(forms) > 1:
                proposal.unsure.append(
                    f"{name}: {label!r} is read as {forms[0]}, or is it {forms[1]}?"
                )
        if unit != DATETIME:
            proposal.units[name] = unit
    if {"start", "end"} <= doubts.keys() and "duration" in proposal.columns:
        run = values_of(sample, proposal.columns["duration"])
        is_clock = run.cast(pl.Float64, strict=False).is_null().mean() or 0.0
        of_one = 1.0 if float(str(is_clock)) >= GOOD else SECONDS.get(hints.get("duration", ""))
        of_times = unit_of_times(proposal.columns, of_one, sample) if of_one else None
        if of_times:
            proposal.units |= dict.fromkeys(doubts, of_times)
            doubts = {}
    proposal.unsure += doubts.values()
    if local:
        proposal.unsure.append("times have no offset and are read as UTC: set time_zone if not so")


def _unit_of_times(size: float, hint: str | None) -> tuple[str, str]:
    """Return the unit of times of this size, and a doubt about the unit in words, or "".

    A name that ends in a unit decides, since times need not count from 1970. If that unit puts the
    times thousands of years after 1970, the name is wrong, and the size decides.
    """
    since_1970 = next((unit for least, unit in SINCE_1970 if size >= least), None)
    if hint is None or hint not in SECONDS:
        return since_1970 or "s", "" if since_1970 else "counts in an unknown unit, taken as s"
    if since_1970 is None:
        return hint, ""
    hinted, likely = SECONDS[hint], SECONDS.get(since_1970, 1.0)
    if hinted < likely:
        return hint, ""
    doubt = f"is named {hint}, but looks like {since_1970}"
    return since_1970, "" if hinted == likely else doubt


def units_of_spans(proposal: Proposal, sample: pl.DataFrame, hints: Mapping[str, str]) -> None:
    """Find the units of run times and limits, and tell one from the other by fit."""
    columns = proposal.columns
    if "duration" in columns and _is_number(sample, columns["duration"]):
        _unit_of_duration(proposal, sample, hints.get("duration"))
    if "duration" in columns and is_limit(
        columns, proposal.units, sample, proposal.units.get("duration", "s")
    ):
        label = columns.pop("duration")
        proposal.units.pop("duration", None)
        told = (
            f"the column {label!r} looks like duration by its name, but is longer than end - start"
        )
        if "time_limit" not in columns:
            columns["time_limit"] = label
            told += ": it is taken as the time limit"
        proposal.unsure.append(told)
    limit = columns.get("time_limit")
    if limit is None or not _is_number(sample, limit):
        return
    is_run = unit_of_runs(columns, proposal.units, sample, "time_limit")
    if is_run and "duration" not in columns:
        columns["duration"] = columns.pop("time_limit")
        proposal.units["duration"] = is_run
        proposal.unsure.append(
            f"the column {limit!r} looks like time_limit by its name, but is end - start"
        )
        return
    hint = hints.get("time_limit")
    unit, why = unit_of_limits(columns, proposal.units, sample)
    is_slurm = re.sub(r"[^a-z]", "", limit.lower()) in {"timelimit", "timelimitraw"}
    if unit is None:
        unit = hint or ("min" if is_slurm and _is_slurm(columns) else "s")
        if not hint:
            known = "as Slurm writes it" if unit == "min" else "has no unit"
            proposal.unsure.append(f"time_limit: {limit!r} {known}, taken as {unit}")
    elif hint and hint in SECONDS and hint != unit:
        proposal.unsure.append(
            f"time_limit: {limit!r} is named {hint}, but fits {unit} better ({why})"
        )
    elif not hint and unit != "s":
        proposal.unsure.append(f"time_limit: {limit!r} is taken as {unit}, since {why}")
    proposal.units["time_limit"] = unit


def _is_slurm(columns: Mapping[str, str]) -> bool:
    """Return whether other columns have names of Slurm or of its database."""
    names = {re.sub(r"[^a-z]", "", label.lower()) for label in columns.values()}
    return len(names & {"idjob", "timesubmit", "timestart", "timeend", "jobid", "alloccpus",
                        "reqcpus", "elapsedraw", "alloctres", "idgroup"}) >= 2  # fmt: skip


def _is_number(sample: pl.DataFrame, label: str) -> bool:
    """Return whether spans are numbers, which need a unit; texts such as 1:00:00 do not."""
    values = values_of(sample, label)
    clock = values.cast(pl.Float64, strict=False).is_null().mean()
    return len(values) > 0 and float(str(clock)) < GOOD


def _unit_of_duration(proposal: Proposal, sample: pl.DataFrame, hint: str | None) -> None:
    """Set the unit of the column of durations, or leave the column out, with doubts about it.

    The unit is the one in which durations are end - start; else that of the name, `hint`; else s,
    or a smaller one if runs would be longer than the log.
    """
    columns, label = proposal.columns, proposal.columns["duration"]
    fitting = unit_of_runs(columns, proposal.units, sample, "duration")
    unit = fitting or (hint if hint in SECONDS else None)
    if fitting and hint in SECONDS and hint != fitting:
        proposal.unsure.append(
            f"duration: {label!r} is named {hint}, but end - start has it in {fitting}"
        )
    if unit is None:
        smaller = exceeds_log(columns, proposal.units, sample)
        unit = smaller or "s"
        why = ", since in s most runs would be longer than the log" if smaller else ""
        proposal.unsure.append(f"duration: {label!r} has no unit, taken as {unit}{why}")
    proposal.units["duration"] = unit
    if fitting is None and is_since_submission(columns, proposal.units, sample):
        del columns["duration"], proposal.units["duration"]
        proposal.unsure.append(f"duration: {label!r} is end - submit, and is not read")
    elif fitting is None and {"start", "end"} <= columns.keys():
        run = time_between(columns, proposal.units, "start", "end")
        given = span(pl.col(label)) * SECONDS[unit]
        far = (given - run).abs() > pl.max_horizontal(pl.lit(2.0), run * 0.01)
        share = float(sample.select(far.mean()).item() or 0.0)
        proposal.unsure.append(f"duration: {label!r} is not end - start in {share:.0%} of the rows")


def units_of_amounts(proposal: Proposal, sample: pl.DataFrame, hints: Mapping[str, str]) -> None:
    """Find the units of processors, GPUs and memory."""
    columns = proposal.columns
    for name in [n for n in CORES if n in columns and not columns[n].startswith("=")]:
        values = values_of(sample, columns[name])
        if hints.get(name) == "milli":
            proposal.units[name] = "millicores"
        elif hints.get(name) in {"percent", "millicores"}:
            proposal.units[name] = hints[name]
        elif (
            name not in proposal.parts
            and (values.cast(pl.Float64, strict=False).fill_null(1) % 100 == 0).all()
        ):
            proposal.unsure.append(
                f"{name}: all values of {columns[name]!r} are multiples of 100; is 100 "
                f'one core? Then add {name} = "percent" to [units]'
            )
    if GPU_SHARE in columns:
        proposal.units[GPU_SHARE] = "milligpus"
    count = next((name for name in ("gpus", "nodes") if name in columns), None)
    if count and not columns.keys() & set(CORES):
        what = "GPUs" if count == "gpus" else count
        proposal.unsure.append(
            f"no column of processors: {columns[count]!r} is a number of {what}; to play the "
            f'{what} as the machine, write cores = "{columns[count]}" into [columns]'
        )
    if MEMORY in columns:
        _unit_of_memory(proposal, sample, hints.get(MEMORY))


def _unit_of_memory(proposal: Proposal, sample: pl.DataFrame, hint: str | None) -> None:
    """Set the unit of memory and `memory_of`; `hint` is the unit that the column's name has."""
    columns, label = proposal.columns, proposal.columns[MEMORY]
    values = values_of(sample, label)
    owner = memory_of(label)
    counted = {"node": "nodes", "gpu": "gpus"}.get(owner)  # the column that the owner needs
    if owner == "core" or counted in columns:
        proposal.memory_of = owner
    if MEMORY in proposal.parts:  # of a list of resources, as Slurm's mem=4000
        proposal.units[MEMORY] = "MB"
        return
    if not values.str.contains(r"[A-Za-z]").all():  # else each text has its own unit, as 128Mi
        unit = hint
        if unit is None:
            cores = next((columns[n] for n in CORES if n in columns), None)
            unit = unit_of_memory(cores, label, sample, proposal.memory_of) or "MB"
            proposal.unsure.append(f"memory: {label!r} has no unit, taken as {unit}")
        proposal.units[MEMORY] = unit
    if owner == "job":
        proposal.unsure.append(f"memory: is {label!r} that of the job, or of one core (memory_of)?")
