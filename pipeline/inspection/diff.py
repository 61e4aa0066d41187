"""Differences between two datasets, from keys of the recipe to bytes of the parts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.documents.card.coverage import row_groups
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage.files import is_partial

_CHUNK: Final = 1 << 20
_KEY: Final = ("split", "behaviour", "seed", "window", "nth")  # nth of equal episodes of appends
_SHOWN: Final = 3  # examples of episodes that only one dataset has


@dataclass(frozen=True)
class Difference:
    """One difference between two datasets.

    Attributes:
        section: recipe, spec, versions, workload, episodes, parts or files.
        key: Place in the section: a key with dots, a file, a column.
        a: Value in the first dataset; None if it has no value there.
        b: Value in the second dataset; None if it has no value there.
        note: The difference in words, where two values do not express it.
    """

    section: str
    key: str
    a: Any = None
    b: Any = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the difference as a JSON object."""
        return dict(vars(self))

    def line(self) -> str:
        """Return the difference as a line of text."""
        values = "" if self.a is None and self.b is None else f"{_short(self.a)} | {_short(self.b)}"
        return f"{self.section:<9} {self.key}: {'; '.join(t for t in (values, self.note) if t)}"


def compare(a: Path, b: Path) -> list[Difference]:
    """Return every difference, from the recipe to single files; empty if all bytes are equal.

    The content of both datasets is read, so equality does not rest on the claims of a manifest.
    Raises DatasetError if a folder is no dataset or cannot be read.
    """
    one, other = ds.open(a), ds.open(b)
    return [
        *_keys("recipe", _recipe(one), _recipe(other)),
        *_keys("spec", _spec(one), _spec(other)),
        *_keys("lineage", *(mf.to_json(d.manifest).get("lineage", {}) for d in (one, other))),
        *_keys("versions", one.manifest.versions, other.manifest.versions),
        *_workloads(one, other),
        *_episodes(one, other),
        *_parts(one, other),
        *_files(one, other),
    ]


def _spec(dataset: Dataset) -> dict[str, Any]:
    """Return a spec with its features by name, so that a new feature does not shift the others."""
    value = mf.spec_to_json(dataset.spec)
    for key in ("context", "candidates", "outcomes"):
        value[key] = {feature["name"]: feature for feature in value[key]}
    return value


def _recipe(dataset: Dataset) -> dict[str, Any]:
    """Return the recipe and the recipes of appends, with behaviours by name."""
    first, *later = (
        {
            **recipe.to_dict(),
            "behaviours": {b.name: asdict(b) for b in recipe.behaviours},
        }
        for recipe in dataset.manifest.recipes
    )
    return {**first, "appended": later} if later else first


def _keys(section: str, a: Any, b: Any, key: str = "") -> Iterator[Difference]:
    """Yield keys with different values; a table that only one side has is one difference."""
    one, other = _table(a), _table(b)
    if one is None or other is None:
        if a != b:
            yield Difference(section, key, a, b)
        return
    for name in [*one, *(k for k in other if k not in one)]:
        inner = f"{key}.{name}" if key else name
        if name in one and name in other:
            yield from _keys(section, one[name], other[name], inner)
        else:
            note = "only in a" if name in one else "only in b"
            yield Difference(section, inner, one.get(name), other.get(name), note)


def _table(value: Any) -> dict[str, Any] | None:
    """Return a table, or a list of tables by number; None for any other value."""
    if isinstance(value, Mapping):
        return {str(k): v for k, v in value.items()}
    if isinstance(value, list | tuple) and any(isinstance(v, Mapping) for v in value):
        return {str(i): v for i, v in enumerate(value)}
    return None


def _workloads(one: Dataset, other: Dataset) -> Iterator[Difference]:
    yield from _keys("workload", one.manifest.provenance, other.manifest.provenance)
    a, b = one.manifest.workload_sha256, other.manifest.workload_sha256
    if a != b:
        yield Difference("workload", "sha256", a, b)


def _episodes(one: Dataset, other: Dataset) -> Iterator[Difference]:
    """Yield the episodes that only one dataset has, and differences of the common ones."""
    a, b = (_numbered(dataset.episodes()) for dataset in (one, other))
    for name, left, right in (("a", a, b), ("b", b, a)):
        only = left.join(right, on=_KEY, how="anti", maintain_order="left")
        if only.height:
            examples = ", ".join(_named(row) for row in only.head(_SHOWN).rows(named=True))
            more = ", ..." if only.height > _SHOWN else ""
            count = f"{only.height:,} of {left.height:,} episodes: {examples}{more}"
            yield Difference("episodes", f"only in {name}", note=count)
    both = a.join(b, on=_KEY, how="inner", suffix="\nb", maintain_order="left")
    for column in a.columns:
        if column in _KEY or column not in b.columns:
            continue
        differing = both.filter(pl.col(column).ne_missing(pl.col(f"{column}\nb")))
        if differing.height:
            yield _column(column, differing, both.height)


def _numbered(episodes: pl.DataFrame) -> pl.DataFrame:
    key = [name for name in _KEY if name != "nth"]
    return episodes.with_columns(pl.int_range(pl.len()).over(key).alias("nth"))


def _column(column: str, differing: pl.DataFrame, shared: int) -> Difference:
    """Return the difference in a column of the common episodes: first values and sizes."""
    first = differing.row(0, named=True)
    note = f"{differing.height:,} of {shared:,} shared episodes, first {_named(first)}"
    if differing.schema[column].is_numeric():
        change = (differing[f"{column}\nb"] - differing[column]).cast(pl.Float64).to_numpy()
        note += f"; b - a is {change.mean():.6g} on average, {abs(change).max():.6g} at most"
    return Difference("episodes", column, first[column], first[f"{column}\nb"], note)


def _named(row: Mapping[str, Any]) -> str:
    return f"{row['split']} window {row['window']} {row['behaviour']} seed {row['seed']}"


def _parts(one: Dataset, other: Dataset) -> Iterator[Difference]:
    """Yield the number of parts if it differs, and the first difference inside a part."""
    a, b = one.manifest.parts, other.manifest.parts
    if len(a) != len(b):
        yield Difference("parts", "count", len(a), len(b))
    pairs = list(zip(a, b, strict=False))
    differing = [
        pair for pair in pairs
        if not same_bytes(one.folder / pair[0].path, other.folder / pair[1].path)
    ]  # fmt: skip
    if not differing:
        return
    x, y = differing[0]
    note = f"{len(differing):,} of {len(pairs):,} parts differ in their bytes; this is the first"
    yield Difference("parts", x.path, _file(x), _file(y), note)
    if one.spec != other.spec:
        yield Difference(
            "parts", x.path, note="the columns or the closing rows differ, so rows are not compared"
        )
        return
    found = first_difference(one.folder / x.path, other.folder / y.path, one.spec)
    if found is None:
        note = "all values are equal; only the encoding differs"
        yield Difference("parts", x.path, note=note)
    else:
        where = f"episode {found.episode}, step {found.step}, column {found.column}"
        yield Difference("parts", x.path, found.a, found.b, f"first at {where}")


def _file(entry: mf.FileEntry) -> str:
    return f"{entry.rows:,} rows, {entry.bytes:,} bytes, sha256 {entry.sha256[:12]}"


def _files(one: Dataset, other: Dataset) -> Iterator[Difference]:
    """Yield all other files whose bytes differ, as nothing else may explain the difference."""
    held = [_names(dataset.folder) for dataset in (one, other)]
    for name in sorted({*held[0], *held[1]}):
        if name not in held[0] or name not in held[1]:
            yield Difference("files", name, note="only in a" if name in held[0] else "only in b")
        elif not same_bytes(one.folder / name, other.folder / name):
            yield Difference("files", name, note="bytes differ")


def _names(folder: Path) -> set[str]:
    """Return the files of a dataset that are not parts, including those of its workload."""
    there = [path for path in folder.iterdir() if not is_partial(path.name)]
    own = {path.name for path in there if path.is_file()}
    workload = folder / mf.WORKLOAD
    if workload.is_dir():
        own |= {f"{mf.WORKLOAD}/{path.name}" for path in workload.iterdir() if path.is_file()}
    return own


def same_bytes(a: Path, b: Path) -> bool:
    """Return whether two files have the same content; False if one of them is missing."""
    try:
        if a.stat().st_size != b.stat().st_size:
            return False
        with a.open("rb") as one, b.open("rb") as other:
            while piece := one.read(_CHUNK):
                if piece != other.read(_CHUNK):
                    return False
    except FileNotFoundError:
        return False
    return True


def report(differences: Sequence[Difference]) -> list[str]:
    """Return the lines that `hindcast diff` prints."""
    if not differences:
        return ["the same: recipe, spec, versions, workload, episodes and the bytes of all parts"]
    return [d.line() for d in differences]


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


@dataclass(frozen=True)
class RowDifference:
    """Place of the first difference and both values; `column` is a name with dots."""

    episode: int
    step: int
    column: str
    a: Any
    b: Any


def first_difference(a: Path, b: Path, spec: Spec) -> RowDifference | None:
    """Return the first row that differs and its first such column; None if all values are equal.

    Rows are compared in order, regardless of row groups; NaN equals NaN. Raises DatasetError if a
    file cannot be read.
    """
    one, other = (_Rows(map(pl.DataFrame, row_groups(path, spec))) for path in (a, b))
    while n := min(one.ready(), other.ready()):
        left, right = one.take(n), other.take(n)
        rows = {name: left[name].ne_missing(right[name]).arg_max() or 0 for name in left.columns}
        found = [
            (row, name)
            for name, row in rows.items()
            if left[name][row : row + 1].ne_missing(right[name][row : row + 1]).any()
        ]
        if found:
            row, name = min(found, key=lambda each: each[0])
            values = (frame.row(row, named=True)[name] for frame in (left, right))
            return _at(left, row, *_inside(name, *values))
    if one.ready():
        return _at(one.take(1), 0, "row", "a row", None)
    return _at(other.take(1), 0, "row", None, "a row") if other.ready() else None


class _Rows:
    """Rows of a part, taken from its row groups one after the other."""

    def __init__(self, groups: Iterator[pl.DataFrame]) -> None:
        self._groups = groups
        self._held = pl.DataFrame()

    def ready(self) -> int:
        """Return how many rows can be taken at once; 0 at the end."""
        while self._held.is_empty() and (group := next(self._groups, None)) is not None:
            self._held = group
        return self._held.height

    def take(self, count: int) -> pl.DataFrame:
        """Return the next rows."""
        taken, self._held = self._held[:count], self._held[count:]
        return taken


def _at(rows: pl.DataFrame, row: int, column: str, a: Any, b: Any) -> RowDifference:
    return RowDifference(rows["episode"][row], rows["step"][row], column, a, b)


def _inside(name: str, a: Any, b: Any) -> tuple[str, Any, Any]:
    """Return name and values of the first part of two values that differs, or their lengths."""
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return f"{name} (length)", len(a), len(b)
        i = next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if repr(x) != repr(y))
        inner, *values = _inside(name, a[i], b[i])
        return f"{inner}[{i}]", *values
    if isinstance(a, dict) and isinstance(b, dict):
        key = next(key for key in a if repr(a[key]) != repr(b[key]))  # NaN is not equal to itself
        return _inside(f"{name}.{key}", a[key], b[key])
    return name, a, b
