"""Reading of a log of decisions, whatever its shape: files, frames, lists and dictionaries.

A file or folder that describes itself is recognised: dsjson, cb_adf text, OBP's .npz, a folder of
the Open Bandit Dataset. Other tables need a mapping.
"""

import dataclasses
import gc
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.decisions import checks
from hindcast.pipeline.decisions.assembly import assemble
from hindcast.pipeline.decisions.batch import TERM, Batch, Reading, concat, take
from hindcast.pipeline.decisions.cautions import with_cautions
from hindcast.pipeline.decisions.log import DecisionLog
from hindcast.pipeline.decisions.mapping import KIND, DecisionMapping, load_mapping, parse_mapping
from hindcast.pipeline.decisions.outcomes import join, read_outcomes
from hindcast.pipeline.decisions.shapes import obd, obp
from hindcast.pipeline.decisions.shapes.cb_adf import COST as CB_COST
from hindcast.pipeline.decisions.shapes.cb_adf import read_cb_adf
from hindcast.pipeline.decisions.shapes.dsjson import COST as DSJSON_COST
from hindcast.pipeline.decisions.shapes.dsjson import read_dsjson
from hindcast.pipeline.decisions.shapes.nested import read_nested
from hindcast.pipeline.decisions.shapes.records import lines_of
from hindcast.pipeline.decisions.shapes.rows import IdsReturn, read_rows
from hindcast.pipeline.decisions.shapes.tables import Tables, is_parquet, name_of
from hindcast.pipeline.decisions.shapes.wide import read_wide
from hindcast.pipeline.errors import InputError, TraceError
from hindcast.pipeline.traces.files.compression import first_bytes
from hindcast.pipeline.traces.first_look import source_file

Source = Path | pl.DataFrame | list[dict[str, Any]] | dict[str, Any]
EXPECTED: Final = (
    "a mapping (TOML) that `hindcast init TABLE` writes, or a file that describes itself: dsjson, "
    "cb_adf text, OBP's .npz, a folder of the Open Bandit Dataset"
)
_LOOKED_AT: Final = 200  # lines by which a text file is recognised
# Factors of the rewards that a shape itself names.
_TERMS: Final[Mapping[str, Mapping[str, float]]] = {
    "dsjson": {DSJSON_COST: -1.0}, "cb_adf": {CB_COST: -1.0},
    "obp": {obp.REWARD: 1.0}, "obd": {obd.CLICK: 1.0},
}  # fmt: skip
_ABSENT_IS_ZERO: Final = frozenset({"dsjson", "cb_adf"})


def read_log(
    source: Any, mapping: DecisionMapping | Mapping[str, Any] | None = None
) -> DecisionLog:
    """Return the decisions of a log, checked.

    Args:
        source: Path of a mapping, file or folder, or several; or a polars or pandas frame, a list
            of records, or OBP's dictionary.
        mapping: Meaning of the columns, for tables and records without a TOML file.

    Raises:
        TraceError: The log cannot be read, or is refused as a whole.
        RecipeError: The mapping is not valid.
    """
    if isinstance(mapping, Mapping):
        mapping = parse_mapping(mapping, "mapping")
    sources, mapping, folder = _sources(source, mapping)
    where = name_of(sources[0])
    reading, terms = Reading(), _terms(mapping)
    try:
        batch, scales = _joined(sources, mapping, reading, [*terms], apart=False)
    except IdsReturn:
        reading.clear()
        batch, scales = _joined(sources, mapping, reading, [*terms], apart=True)
    if batch is None:
        if not reading.rejected:
            raise TraceError(f"{where}: no decisions, expected at least one{_hint(sources[0])}")
        _, line, _, reason = reading.rejected[0]
        raise TraceError(f"{where}: no decisions; line {line}: {reason}")
    scales.refuse(where)
    files = [source_file(path) for path in _files(sources)]
    batch = _with_ids(batch)
    batch = checks.without_repetitions(batch, reading)
    reasons = batch.decisions["reason"]
    bad = reasons.is_not_null()
    lost = (
        batch.decisions.filter(bad)
        .select("file", "line", "id")
        .with_columns(reasons.filter(bad).alias("reason"))
    )
    quarantine = pl.concat([lost, _rejected(reading)], how="vertical_relaxed")
    same = quarantine["reason"].str.starts_with("the same id") & quarantine["id"].is_duplicated()
    counted = quarantine.filter(~same | quarantine["id"].is_first_distinct())
    if bad.any():
        batch = take(batch, np.flatnonzero(~bad.to_numpy()))
    checks.refuse_many(counted, len(batch), where)
    if mapping.outcomes is not None:
        path = folder / mapping.outcomes.file
        found = read_outcomes(path, mapping, reading)
        files.append(source_file(path))
        batch = dataclasses.replace(
            batch, decisions=join(batch.decisions, found, mapping.outcomes, reading)
        )
    c = mapping.columns
    stated = c.propensity or c.probability or c.probabilities
    if stated and mapping.propensity.kind == "none":
        reading.notes.append(f'{stated} is not used, since propensity.kind is "none"')
    log = assemble(batch, mapping, terms, reading, quarantine, counted.height, tuple(files))
    return with_cautions(log)


def _joined(
    sources: list[Source],
    mapping: DecisionMapping,
    reading: Reading,
    terms: list[str],
    *,
    apart: bool,
) -> tuple[Batch | None, checks.Scales]:
    """Return all checked decisions of a log, and the scales of their probabilities.

    `terms` are the columns that a reward is the sum of; `apart` is as in `read_rows`.
    """
    scales = checks.Scales()
    absent = 0.0 if mapping.shape in _ABSENT_IS_ZERO else float("nan")
    collecting = gc.isenabled()
    gc.disable()  # to look for cycles in millions of records, which have none, takes a third longer
    try:
        batches = _batches(sources, mapping, reading, apart)
        return concat(_checked(batches, scales, mapping, terms), absent), scales
    finally:
        if collecting:
            gc.enable()


def _checked(
    batches: Iterator[Batch], scales: checks.Scales, mapping: DecisionMapping, terms: list[str]
) -> Iterator[Batch]:
    for batch in batches:
        if len(batch):
            scales.add(batch)
            yield checks.checked(batch, mapping, terms)


def _hint(source: Any) -> str:
    """Return what to do with a file that is one JSON list; "" for another one."""
    if not isinstance(source, Path) or not source.is_file():
        return ""
    if not first_bytes(source).lstrip().startswith(b"["):
        return ""
    return " (the file is one JSON list: `jq -c '.[]'` writes a record per line)"


def _terms(mapping: DecisionMapping) -> dict[str, float]:
    """Return the factors of the columns that the reward is the sum of."""
    own = {TERM + name: factor for name, factor in mapping.columns.terms.items()}
    later = mapping.outcomes.terms if mapping.outcomes is not None else {}
    own |= {TERM + name: factor for name, factor in later.items()}
    return own or dict(_TERMS.get(mapping.shape, {}))


def _rejected(reading: Reading) -> pl.DataFrame:
    return pl.DataFrame(
        reading.rejected,
        schema={"file": pl.Int32, "line": pl.Int64, "id": pl.String, "reason": pl.String},
        orient="row",
    )


def _with_ids(batch: Batch) -> Batch:
    """Return the decisions with their numbers as ids, where the log has none."""
    ids = batch.decisions["id"]
    if not ids.null_count():
        return batch
    numbered = pl.select(
        pl.coalesce(ids, pl.int_range(len(batch)).cast(pl.String)).alias("id")
    ).to_series()
    return dataclasses.replace(batch, decisions=batch.decisions.with_columns(numbered))


def _files(sources: list[Source]) -> list[Path]:
    """Return the files among the sources, and those in their folders."""
    found = []
    for source in sources:
        if isinstance(source, Path):
            found += (
                sorted(p for p in source.iterdir() if p.is_file()) if source.is_dir() else [source]
            )
    return found


def _sources(
    source: Any, mapping: DecisionMapping | None
) -> tuple[list[Source], DecisionMapping, Path]:
    """Return what is read, its mapping, and the folder of names in it."""
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.exists():
            raise TraceError(f"{path}: there is no such file or folder, expected {EXPECTED}")
        if mapping is None and path.suffix == ".toml":
            return _from_mapping(load_mapping(path), path)
        shape = recognise(path)
        if mapping is None:
            if shape is None:
                raise TraceError(f"{path}: this does not describe itself, expected {EXPECTED}")
            mapping = parse_mapping({"kind": KIND, "file": path.name, "shape": shape}, str(path))
        return _expanded(path, mapping.shape), mapping, path.parent
    if isinstance(source, list) and source and all(isinstance(s, str | Path) for s in source):
        parts = [_sources(s, mapping) for s in source]
        shapes = {part[1].shape for part in parts}
        if len(shapes) > 1:
            raise TraceError(f"files of several shapes, {', '.join(sorted(shapes))}: expected one")
        return [s for part in parts for s in part[0]], parts[0][1], parts[0][2]
    if isinstance(source, dict):
        return [source], mapping or parse_mapping({"kind": KIND, "shape": "obp"}, "mapping"), Path()
    frame: Any = source
    if (
        not isinstance(source, pl.DataFrame)
        and hasattr(source, "to_dict")
        and hasattr(source, "columns")
    ):
        frame = pl.from_dict({str(c): source[c].to_list() for c in source.columns}, strict=False)
    if not isinstance(frame, pl.DataFrame | list):
        raise InputError(f"a log of type {type(source).__name__}, expected a path, a frame, a list "
                         "of records, or OBP's dictionary")  # fmt: skip
    if mapping is None:
        raise InputError("a table at hand has no mapping, expected the argument `mapping`")
    return [frame], mapping, Path()


def _from_mapping(
    mapping: DecisionMapping, path: Path
) -> tuple[list[Source], DecisionMapping, Path]:
    """Return the files that a mapping at `path` names, the mapping, and the folder of both."""
    folder = path.parent
    if not mapping.files:
        raise TraceError(f"{path}: the key `file` is missing, expected the log or a list of files")
    found: list[Source] = []
    for name in mapping.files:
        file = folder / name
        if not file.exists():
            raise TraceError(f"{path}: it names the file {name!r}, which is not beside it")
        found += _expanded(file, mapping.shape)
    return found, mapping, folder


def _expanded(path: Path, shape: str) -> list[Source]:
    """Return the files of a folder in the order of their names; a path that is a file alone.

    The data of OBD are read as a folder. Raises TraceError for a folder without files.
    """
    if path.is_dir() and shape != "obd":
        found = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
        if not found:
            raise TraceError(f"{path}: this folder has no files")
        return list(found)
    return [path]


def recognise(path: Path) -> str | None:
    """Return the shape of a log whose content tells it: obd, obp, dsjson or cb_adf; else None.

    A table, in Parquet or text, can have any shape.
    """
    if path.is_dir():
        return "obd" if obd.obd_table(path) is not None else None
    if path.suffix == ".npz":
        return "obp"
    if is_parquet(path):
        return None
    with_bar = other_lines = 0
    for number, line in lines_of(path):
        if number > _LOOKED_AT:
            break
        text = line.strip()
        if text.startswith(b"{"):
            try:
                record = json.loads(text)
            except (ValueError, RecursionError):
                continue
            context = record.get("c")
            if "_label_ca" in record or (isinstance(context, dict) and "_multi" in context):
                return "dsjson"
        elif text:
            other_lines += 1
            tag = text.split(b"|", maxsplit=1)[0].strip()
            with_bar += b"|" in text and (
                not tag or tag.startswith((b"shared", b"'")) or tag[:1].isdigit()
            )
    return "cb_adf" if with_bar and with_bar == other_lines else None


def _batches(
    sources: list[Source], mapping: DecisionMapping, reading: Reading, apart: bool
) -> Iterator[Batch]:
    """Yield the decisions of the sources by the reader of their shape.

    `apart` says that rows of a decision need not be adjacent, see `read_rows`.
    """
    paths = [s for s in sources if isinstance(s, Path)]
    shape = mapping.shape
    if shape == "dsjson":
        yield from read_dsjson(paths, mapping.time_zone, reading)
    elif shape == "cb_adf":
        yield from read_cb_adf(paths, reading)
    elif shape == "obd":
        for path in paths:
            yield from obd.read_obd(path if path.is_dir() else path.parent, reading)
    elif shape == "obp":
        for source in sources:
            arrays = source if isinstance(source, dict) else obp.load_obp(Path(str(source)))
            yield from obp.read_obp(arrays, name_of(source))
    elif shape == "nested":
        yield from read_nested(sources, mapping, reading)  # type: ignore[arg-type]
    else:
        tables = Tables([pl.DataFrame(s) if isinstance(s, list) else s for s in sources],  # type: ignore[misc]
                        mapping.separator)  # fmt: skip
        if shape == "rows":
            yield from read_rows(tables, mapping, reading, apart)
        else:
            yield from read_wide(tables, mapping, reading)
