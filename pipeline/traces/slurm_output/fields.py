"""Fields of a job of Slurm: its times, processors, nodes, GPUs and memory in the columns of sacct.

Columns are named in lowercase; those that another program names otherwise are read under the names
of sacct, see hindcast.pipeline.traces.slurm.
"""

from collections.abc import Mapping
from typing import Final

import polars as pl

from hindcast.pipeline.traces.field_values import counted_gpus, kilobytes, resource, span
from hindcast.pipeline.traces.job_logs import Field, time_field

TIMES: Final = ("submit", "eligible", "start", "end")
# Numbers of the database of Slurm for a value that is not set; 2^32 - 1 is also "no limit".
NO_LIMIT_NUMBER: Final = "4294967295"
NOT_SET: Final = ("4294967294", "18446744073709551614", "18446744073709551615")
_PER_CPU: Final = 2**63  # flag of an amount of memory in the database of Slurm
# Numbers of resources in its database, which are the same everywhere; generic ones have others.
_CPU, _MEMORY, _NODE = "(?:cpu|1)", "(?:mem|2)", "(?:node|4)"
_GPU: Final = "gres/gpu"
_LISTS: Final = ("alloctres", "reqtres")
_GPU_LISTS: Final = (*_LISTS, "allocgres", "reqgres")  # the surest first
GENERIC: Final = r"(?:^|,)(1\d{3})="  # a generic resource by number


def fields_of(labels: Mapping[str, str], zone: str, form: str | None) -> dict[str, Field]:
    """Return the fields of a job that the columns give.

    The columns are those of `with_lists_read`. `labels` has the name in the file of each column;
    `form` is a format of strftime for times that are not as in ISO 8601.
    """
    fields = {
        name: time_field(labels[name], pl.col(name), zone, form) for name in TIMES if name in labels
    }
    spans = {name: pl.col(name) for name in ("elapsedraw", "elapsed") if name in labels}
    if spans:
        text = pl.coalesce(list(spans.values()))
        fields["duration"] = Field(labels[next(iter(spans))], text, span(text), "a time span")
    limits = {
        "timelimitraw": pl.col("timelimitraw").cast(pl.Float64, strict=False) * 60,
        "timelimit": span(pl.col("timelimit")),
        "limit_s": pl.col("limit_s").cast(pl.Float64, strict=False),
    }
    limits = {name: value for name, value in limits.items() if name in labels}
    if limits:
        name = next(iter(limits))
        fields["limit"] = Field(
            labels[name], pl.coalesce(list(limits)), pl.coalesce(list(limits.values())), "a limit"
        )
    for field, columns, tres in (
        ("requested_cores", ("reqcpus",), "reqtres"),
        ("allocated_cores", ("alloccpus", "ncpus"), "alloctres"),
    ):
        texts = {name: pl.col(name) for name in columns if name in labels}
        texts |= {tres: pl.col(f"{tres}_cpu")} if tres in labels else {}
        if texts:
            fields[field] = _number_of(labels, texts, "a number of processors")
    nodes = _nodes(labels)
    if nodes:
        fields["nodes"] = _number_of(labels, nodes, "a number of nodes")
    if gpus := {name: pl.col(f"{name}_gpu") for name in _GPU_LISTS if name in labels}:
        fields["gpus"] = _number_of(labels, gpus, "a number of GPUs")
    return fields | _memory(labels, fields)


def _number_of(labels: Mapping[str, str], texts: Mapping[str, pl.Expr], expected: str) -> Field:
    """Return the field of a whole number that the first of some columns gives."""
    text = pl.coalesce(list(texts.values()))
    number = text.cast(pl.Float64, strict=False)  # 8.0 and 1e+05, as pandas and R write them
    whole = pl.when(number == number.floor()).then(number)
    return Field(labels[next(iter(texts))], text, whole, expected)


def _nodes(labels: Mapping[str, str]) -> dict[str, pl.Expr]:
    """Return the texts of the number of nodes by column, the surest first."""
    texts = {
        **{name: pl.col(name) for name in ("allocnodes", "nnodes")},
        "alloctres": pl.col("alloctres_node"),
        "reqnodes": pl.col("reqnodes"),
        "reqtres": pl.col("reqtres_node"),
    }
    return {name: text for name, text in texts.items() if name in labels}


def with_lists_read(
    rows: pl.LazyFrame, labels: Mapping[str, str], names: Mapping[str, str]
) -> pl.LazyFrame:
    """Add what the lists of resources say, as texts, and amounts of memory in KB.

    `reqtres_mem` is the memory in the column `reqtres`, `reqtres_mem_kb` its amount. `names` has
    names of generic resources by number, as 1001: gres/gpu.
    """
    lists = [name for name in _LISTS if name in labels]
    generic = [name for name in _GPU_LISTS if name in labels and name not in _LISTS]
    named = {name: pl.col(name) for name in lists if names}
    for number, resource_name in names.items():
        form = f"${{1}}{resource_name.replace('$', '$$')}="
        named = {n: text.str.replace_all(rf"(^|,){number}=", form) for n, text in named.items()}
    texts = {
        f"{name}_{what}": resource(pl.col(name), key)
        for name in lists
        for what, key in (("cpu", _CPU), ("mem", _MEMORY), ("node", _NODE))
    }
    amounts = [
        name for name in ("reqtres_mem", "alloctres_mem", "reqmem") if name in {*texts, *labels}
    ]
    return (
        rows.with_columns(**named, **{name: counted_gpus(pl.col(name)) for name in generic})
        .with_columns(**texts, **{f"{n}_gpu": _gpus(n) for n in _GPU_LISTS if n in labels})
        .with_columns(**{f"{n}_kb": kilobytes(pl.col(n), "m") for n in amounts})
    )


def _gpus(column: str) -> pl.Expr:
    """Return the GPUs of a TRES as `gres/gpu=4,gres/gpu:a100=4`, or of a GRES as `gpu:a100:4`."""
    text = pl.col(column)
    listed = _sum_of(text.str.extract_all(r"gres/gpu:[^=,]+=\d+"), r"=(\d+)$")
    if column in _LISTS:
        return pl.coalesce(resource(text, _GPU), listed)
    gres = _sum_of(text.str.extract_all(r"\bgpu(?::[^:,()=]+)?:\d+\b"), r":(\d+)$")
    return pl.coalesce(resource(text, _GPU), listed, gres)


def _sum_of(parts: pl.Expr, number: str) -> pl.Expr:
    values = parts.list.eval(pl.element().str.extract(number).cast(pl.Int64, strict=False))
    return pl.when(values.list.len() > 0).then(values.list.sum()).cast(pl.String)


def gpu_types(labels: Mapping[str, str]) -> pl.Expr:
    """Return the GPUs that a job asked for by type, such as "a100:2,v100:1"; null if by none.

    A list that names GPUs without their types asked for any. Where the log has no list of what was
    asked for, or it does not name GPUs, the types are those that the job got.
    """
    types = pl.lit(None, pl.String)
    for name in ("allocgres", "reqgres", *_LISTS):  # that of what was asked for last
        if name not in labels:
            continue
        column = pl.col(name)
        found = (
            column.str.extract_all(r"\bgpu:[^:,()=]+[:=]\d+\b")
            .list.join(",")
            .str.replace_all("gpu:", "", literal=True)
            .str.replace_all("=", ":", literal=True)
        )
        names_gpus = column.str.contains(r"\bgpu\b").fill_null(value=False)
        types = pl.when(names_gpus).then(pl.when(found != "").then(found)).otherwise(types)
    return types


def lists_gpus(labels: Mapping[str, str], names: Mapping[str, str]) -> pl.Expr:
    """Return whether a row would name the GPUs of its job if it had any.

    A list of resources by number does so if `names` has the number of a GPU.
    """
    by_number = any(name.startswith(_GPU) for name in names.values())
    lists = [pl.lit(value=True) for name in ("allocgres", "reqgres") if name in labels]
    for name in _LISTS:
        if name in labels:
            named = pl.col(name).str.contains("[a-z]") | pl.lit(by_number)
            lists.append((pl.col(name).is_not_null() & named).fill_null(value=False))
    return pl.any_horizontal(lists) if lists else pl.lit(value=False)


def _memory(labels: Mapping[str, str], fields: Mapping[str, Field]) -> dict[str, Field]:
    """Return the fields of the memory that a job asked for, and that it held.

    An amount of 0 is no amount, but all memory of the nodes, which AllocTRES has.
    """
    held, requested = (
        pl.coalesce([fields[name].value for name in order if name in fields])
        for order in (
            ("allocated_cores", "requested_cores"),
            ("requested_cores", "allocated_cores"),
        )
    )
    # Memory is requested for the requested nodes; older logs give the allocated ones alone.
    known = _nodes(labels)
    first = [known[name] for name in ("reqnodes", "reqtres") if name in known]
    nodes = pl.coalesce(*first, *known.values(), pl.lit("1")).cast(pl.Float64, strict=False)
    nodes_held = pl.coalesce(*known.values(), pl.lit("1")).cast(pl.Float64, strict=False)
    of_tres = {name: pl.col(f"{name}_mem") for name in _LISTS if name in labels}
    totals = {name: pl.col(f"{name}_mem_kb") for name in of_tres}

    def of_request(cores: pl.Expr, nodes: pl.Expr) -> dict[str, pl.Expr]:
        values: dict[str, pl.Expr] = {}
        if "reqmem" in labels:
            last = pl.col("reqmem").str.slice(-1)
            units = pl.when(last == "c").then(cores).when(last == "n").then(nodes).otherwise(1.0)
            values["reqmem"] = pl.col("reqmem_kb") * units
        if "memory_mb" in labels:
            values["memory_mb"] = _megabytes(pl.col("memory_mb"), cores) * 1024
        return values

    asked = of_request(requested, nodes)
    texts = {**of_tres, **{name: pl.col(name) for name in asked}}
    order = [n for n in ("reqtres", "reqmem", "memory_mb", "alloctres") if n in texts]
    if not order:
        return {}
    text, label = pl.coalesce([texts[name] for name in order]), labels[order[0]]
    values = totals | asked
    value = pl.coalesce([values[name] for name in order])
    is_some = (value != 0).fill_null(value=True)
    holds = totals | of_request(held, nodes_held)
    holding = [n for n in ("alloctres", "reqtres", "reqmem", "memory_mb") if n in texts]
    job = pl.coalesce([_positive(holds[name]) for name in holding])
    return {
        "memory_kb": Field(label, pl.when(is_some).then(text), _positive(value), "an amount"),
        "held_memory_kb": Field(label, text, job, "an amount"),
    }


def _positive(amount: pl.Expr) -> pl.Expr:
    return pl.when(amount > 0).then(amount)


def _megabytes(text: pl.Expr, cores: pl.Expr) -> pl.Expr:
    """Return an amount in MB; the database of Slurm marks those per processor by 2^63."""
    marked = text.cast(pl.UInt64, strict=False)
    per_cpu = (marked - _PER_CPU).cast(pl.Float64) * cores
    amount = pl.when(marked >= _PER_CPU).then(per_cpu)
    return amount.otherwise(text.cast(pl.Float64, strict=False))
