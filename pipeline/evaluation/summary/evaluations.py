"""Evaluation folders, read and checked.

evaluation.json   recipe, split, metrics, policies and references of the evaluation
scores.parquet    one row per policy, scenario, window, seed and metric
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import polars as pl

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.statistics.sequential import Sequential
from hindcast.pipeline.storage.files import read_json, read_parquet
from hindcast.pipeline.storage.json_values import a_count
from hindcast.pipeline.storage.provenance import as_records
from hindcast.pipeline.workloads.caveats import Caveat, from_json

Kind: TypeAlias = Literal[
    "heuristic", "random", "learned", "mixture", "knows run times", "recorded"
]
Direction: TypeAlias = Literal["lower", "higher", "neither"]
# Kinds of policies that are no baselines: they learned, or know what no scheduler knows.
NO_BASELINE: Final = frozenset({"learned", "knows run times"})

_MOST_EPISODES = 10**9
KEY = ["policy", "scenario", "window", "seed", "metric"]
_COLUMNS: dict[str, tuple[str, type[pl.DataType]]] = {
    "policy": ("text", pl.String),
    "scenario": ("text", pl.String),
    "window": ("a whole number", pl.Int64),
    "seed": ("a whole number", pl.Int64),
    "metric": ("text", pl.String),
    "value": ("a number", pl.Float64),
}


@dataclass(frozen=True)
class Metric:
    """An outcome that was scored.

    Attributes:
        name: Name in scores.parquet.
        unit: Its unit; "1" for plain numbers.
        better: "lower", "higher" or "neither".
        description: Its meaning, in words.
    """

    name: str
    unit: str = ""
    better: Direction = "neither"
    description: str = ""


@dataclass(frozen=True)
class PolicyEntry:
    """A policy that was scored, as evaluation.json describes it.

    Attributes:
        name: Name in scores.parquet.
        kind: "heuristic", "random", "learned", "mixture", "knows run times" or "recorded".
        group: Name that training seeds of one agent share.
        checkpoint: Folder of a learned policy.
        digest: SHA-256 of the weights of a learned policy.
        episodes: Episodes per window of a behaviour of the log, its weight in the mean of the log.
        description: Sentence about a rule; empty for other policies and in older files.
        trained: Keys of the sessions of its training; empty if they were not recorded.
        learned_from: Digest of the recipe whose windows a learned policy was trained on; "" if
            unknown.
        delivered: "agent" or "rule": what the gate of its training delivered; "" for any other.
    """

    name: str
    kind: Kind
    group: str
    checkpoint: str | None = None
    digest: str | None = None
    episodes: int | None = None
    description: str = ""
    trained: tuple[str, ...] = ()
    learned_from: str = ""
    delivered: str = ""


@dataclass(frozen=True)
class PlanOfEvaluation:
    """The part of its plan that an evaluation keeps, see `hindcast.pipeline.evaluation.plans`.

    Attributes:
        sha256: SHA-256 of the plan's file.
        written: Time of the plan, UTC, ISO 8601.
        looks: Other agents that the ledger had on these windows when the plan was written; None if
            looks were not counted.
        agents: Names of the agents that are compared.
        deviations: Deviations of the evaluation from the plan, as parts of a sentence.
    """

    sha256: str
    written: str
    looks: int | None
    agents: tuple[str, ...]
    deviations: tuple[str, ...]


@dataclass(frozen=True)
class Evaluation:
    """Content of evaluation.json; text that the file lacks is empty.

    `sessions` are the keys in `records` of where it was computed
    (`hindcast.pipeline.storage.provenance`). `looks` is the number of other agents that had been
    scored on these windows before; None if that was not counted. `stretches` are the first job of
    each window in its log and the one after its last, where windows share jobs. `loads` are the
    offered loads of windows, see `hindcast.pipeline.simulation.scenario`. `until` is the decision
    of an evaluation that stopped when it was decided. `settings` are the recipe, as
    `hindcast.pipeline.recipes.loading.parse_recipe` reads it; empty in older files.
    """

    folder: Path
    recipe: str
    digest: str
    scenario: str
    objective: str
    split: str
    headline: str
    metrics: tuple[Metric, ...]
    policies: tuple[PolicyEntry, ...]
    references: tuple[str, ...] = ()
    bound: str | None = None
    bound_kind: Literal["lower", "upper"] | None = None
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    caveats: tuple[Caveat, ...] = ()
    looks: int | None = None
    plan: PlanOfEvaluation | None = None
    stretches: Mapping[int, tuple[int, int]] | None = None
    loads: Mapping[int, float] = field(default_factory=dict)
    until: Sequential | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def read_evaluation(folder: Path) -> Evaluation:
    """Read evaluation.json of a folder.

    Raises DatasetError if the folder is missing or is no evaluation folder, or if the file lacks
    something that a comparison needs: the headline metric, the policies, their kinds.
    """
    path = folder / "evaluation.json"
    if not folder.is_dir():
        raise DatasetError(f"{folder}: no such folder; expected one that `hindcast evaluate` wrote")
    if not path.is_file():
        raise DatasetError(
            f"{folder}: not an evaluation folder (evaluation.json is missing); "
            "expected one that `hindcast evaluate` wrote"
        )
    raw = read_json(path)
    if not isinstance(raw, dict):
        raise DatasetError(f"{path}: expected a JSON object, found {type(raw).__name__}")
    computed = raw.get("provenance") or {}
    records = computed.get("records", {}) if isinstance(computed, dict) else None
    if not isinstance(records, dict):
        raise DatasetError(f"{path}: key 'provenance' should have an object 'records'")
    as_records(list(records.values()), f"{path}: provenance")
    metrics = tuple(_metric(path, entry) for entry in _list(path, raw, "metrics"))
    headline = _text(path, raw, "headline")
    if headline not in {metric.name for metric in metrics}:
        raise DatasetError(f"{path}: headline {headline!r} is not one of the metrics")
    bound, versions, settings = raw.get("bound"), raw.get("versions") or {}, raw.get("settings")
    if not isinstance(versions, dict):
        raise DatasetError(f"{path}: key 'versions' should be an object, found {versions!r}")
    bound_kind = _one_of(path, raw, "bound_kind", ("lower", "upper", None), None)
    evaluation = Evaluation(
        folder=folder,
        recipe=str(raw.get("recipe") or ""),
        digest=str(raw.get("digest") or ""),
        scenario=str(raw.get("scenario") or ""),
        objective=str(raw.get("objective") or ""),
        split=str(raw.get("split") or ""),
        headline=headline,
        metrics=metrics,
        policies=tuple(_policy(path, entry) for entry in _list(path, raw, "policies")),
        references=_texts(path, raw, "references"),
        bound=str(bound) if bound and bound_kind else None,
        bound_kind=bound_kind,
        command=str(raw.get("command") or ""),
        versions={str(name): str(version) for name, version in versions.items()},
        notes=_texts(path, raw, "notes"),
        sessions=_texts(path, computed, "sessions"),
        records=records,
        looks=_looks(path, raw),
        plan=_plan(path, raw["plan"]) if raw.get("plan") is not None else None,
        stretches=_stretches(path, raw["stretches"]) if raw.get("stretches") is not None else None,
        loads=_loads(path, raw.get("loads", {})),
        settings=settings if isinstance(settings, dict) else {},
    )
    with _reading(path, "until"):
        until = Sequential.from_table(raw["until"]) if raw.get("until") is not None else None
    with _reading(path, "caveats"):
        caveats = from_json(raw.get("caveats") or [])  # files of version 0.1 have none
    return replace(evaluation, until=until, caveats=caveats)


@contextmanager
def _reading(path: Path, key: str) -> Iterator[None]:
    """Turn errors of reading a damaged value into DatasetError."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise DatasetError(f"{path}: key {key!r} is damaged: {error}") from error


def _stretches(path: Path, raw: Any) -> dict[int, tuple[int, int]]:
    """Return the first job of each window and the one after its last; raise DatasetError."""
    with _reading(path, "stretches"):
        found = {int(w): (a_count(first), a_count(stop)) for w, (first, stop) in raw.items()}
    for window, (first, stop) in found.items():
        if first >= stop:
            raise DatasetError(f"{path}: window {window} has the jobs {first} to {stop}, thus none")
    return found


def _loads(path: Path, raw: Any) -> dict[int, float]:
    """Return the offered load of each window; raise DatasetError if one cannot be."""
    with _reading(path, "loads"):
        found = {int(window): float(load) for window, load in raw.items()}
    for window, load in found.items():
        if not (math.isfinite(load) and load >= 0):
            raise DatasetError(f"{path}: the load of window {window} is {load}, expected 0 or more")
    return found


def _plan(path: Path, raw: Any) -> PlanOfEvaluation:
    if not isinstance(raw, dict):
        raise DatasetError(f"{path}: key 'plan' should be an object, found {raw!r}")
    return PlanOfEvaluation(
        sha256=_text(path, raw, "sha256"),
        written=_text(path, raw, "written"),
        looks=_looks(path, raw),
        agents=_texts(path, raw, "agents"),
        deviations=_texts(path, raw, "deviations"),
    )


def _looks(path: Path, raw: Mapping[str, Any]) -> int | None:
    value = raw.get("looks")
    if value is not None and (type(value) is not int or value < 0):
        raise DatasetError(f"{path}: looks is {value!r}, expected a number of agents")
    return value


def read_scores(folder: Path) -> pl.DataFrame:
    """Read scores.parquet of a folder: columns policy, scenario, window, seed, metric, value.

    Raises DatasetError if the file is missing or empty, a column is missing or of another type, a
    value is infinite, or a row is duplicated.
    """
    path = folder / "scores.parquet"
    if not path.is_file():
        raise DatasetError(f"{path}: no such file; run `hindcast evaluate` again for this folder")
    frame = read_table(path)
    for name, (wanted, _) in _COLUMNS.items():
        if name not in frame.columns:
            raise DatasetError(
                f"{path}: column {name!r} ({wanted}) is missing; found {', '.join(frame.columns)}"
            )
        if not _fits(frame.schema[name], wanted):
            raise DatasetError(
                f"{path}: column {name!r} should be {wanted}, found {frame.schema[name]}"
            )
        if name != "value" and frame[name].null_count():
            raise DatasetError(f"{path}: column {name!r} has empty cells")
    if frame.is_empty():
        raise DatasetError(f"{path}: the table has no rows, expected one per score")
    frame = frame.select(pl.col(name).cast(kind) for name, (_, kind) in _COLUMNS.items())
    endless = frame.filter(pl.col("value").is_infinite())
    if not endless.is_empty():
        row = describe_row(endless.row(0, named=True))
        raise DatasetError(f"{path}: column 'value' is infinite at {row}")
    twice = frame.filter(pl.struct(KEY).is_duplicated())
    if not twice.is_empty():
        row = describe_row(twice.row(0, named=True))
        raise DatasetError(f"{path}: {twice.height} rows are duplicated, the first at {row}")
    return frame


def read_table(path: Path) -> pl.DataFrame:
    """Read a Parquet file as a table; raise DatasetError if it is not a readable one."""
    try:
        return read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DatasetError(f"{path}: not a readable Parquet file ({first})") from error


def describe_row(row: Mapping[str, Any]) -> str:
    """Return the key of a row in words, for an error message."""
    return ", ".join(f"{name} {row[name]!r}" for name in KEY)


def _fits(found: pl.DataType, wanted: str) -> bool:
    if wanted == "text":
        return found in {pl.String, pl.Categorical} or isinstance(found, pl.Enum)
    return found.is_integer() or (wanted == "a number" and found.is_numeric())


def _metric(path: Path, entry: Any) -> Metric:
    return Metric(
        name=_text(path, entry, "name"),
        unit=str(entry.get("unit") or ""),
        better=_one_of(path, entry, "better", ("lower", "higher", "neither"), "neither"),
        description=str(entry.get("description") or ""),
    )


def _policy(path: Path, entry: Any) -> PolicyEntry:
    """Return a policy that evaluation.json lists; raise DatasetError for a damaged entry."""
    name = _text(path, entry, "name")
    # A policy of unknown kind is refused: it could pass as a baseline if taken for a heuristic.
    kind = _one_of(path, entry, "kind", get_args(Kind))
    checkpoint, digest, episodes = (entry.get(k) for k in ("checkpoint", "digest", "episodes"))
    if episodes is not None and (type(episodes) is not int or not 1 <= episodes < _MOST_EPISODES):
        raise DatasetError(f"{path}: policy {name!r}: episodes is {episodes!r}, expected 1 or more")
    return PolicyEntry(
        name=name,
        kind=cast("Kind", kind),
        group=str(entry.get("group") or name),
        checkpoint=None if checkpoint is None else str(checkpoint),
        digest=None if digest is None else str(digest),
        episodes=episodes,
        description=str(entry.get("description") or ""),
        trained=_texts(path, entry, "trained"),
        learned_from=str(entry.get("learned_from") or ""),
        delivered=_one_of(path, entry, "delivered", ("agent", "rule", ""), ""),
    )


def _list(path: Path, raw: Mapping[str, Any], key: str) -> list[Any]:
    value = raw.get(key)
    if not isinstance(value, list) or not value:
        raise DatasetError(f"{path}: key {key!r} should be a list with at least one entry")
    return value


def _texts(path: Path, raw: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = raw.get(key) or []
    if not isinstance(value, list):
        raise DatasetError(f"{path}: key {key!r} should be a list, found {value!r}")
    return tuple(str(item) for item in value)


def _text(path: Path, raw: Any, key: str) -> str:
    value = raw.get(key) if isinstance(raw, dict) else None
    if not isinstance(value, str) or not value:
        raise DatasetError(f"{path}: key {key!r} should be text, found {value!r}")
    return value


def _one_of(
    path: Path, raw: Mapping[str, Any], key: str, options: tuple[Any, ...], *default: Any
) -> Any:
    value = raw.get(key, *default)
    if value not in options:
        known = ", ".join(str(option) for option in options if option is not None)
        raise DatasetError(f"{path}: key {key!r} should be one of {known}, found {value!r}")
    return value
