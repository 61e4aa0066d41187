"""What differs between two datasets: from the recipe, key by key, to the bytes of their parts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from pipeline import dataset as ds
from pipeline import manifest as mf
from pipeline.dataset import Dataset
from pipeline.difference_rows import first_difference

_CHUNK: Final = 1 << 20
_KEY: Final = ("split", "behaviour", "seed", "window", "nth")  # nth of equals, if appended twice
_SHOWN: Final = 3  # examples of what one dataset has and the other has not


@dataclass(frozen=True)
class Difference:
    """One thing that differs.

    section   recipe, spec, versions, workload, episodes, parts or files
    key       what of it: a key with dots, a file, a column
    a, b      what each dataset has; None where it has nothing
    note      in words, where two values do not tell it
    """

    section: str
    key: str
    a: Any = None
    b: Any = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return {
            "section": self.section,
            "key": self.key,
            "a": self.a,
            "b": self.b,
            "note": self.note,
        }

    def line(self) -> str:
        """For people."""
        values = "" if self.a is None and self.b is None else f"{_short(self.a)} | {_short(self.b)}"
        return f"{self.section:<9} {self.key}: {'; '.join(t for t in (values, self.note) if t)}"


def compare(a: Path, b: Path) -> list[Difference]:
    """Every difference, in the order in which a reader would ask; empty where the bytes are equal.

    The content of both is read, so that files are equal because they are, not because a manifest
    says so. Raises DatasetError where a folder is no dataset or cannot be read.
    """
    one, other = ds.open(a), ds.open(b)
    return [
        *_keys("recipe", _recipe(one), _recipe(other)),
        *_keys("spec", _spec(one), _spec(other)),
        *_keys("versions", one.manifest.versions, other.manifest.versions),
        *_workloads(one, other),
        *_episodes(one, other),
        *_parts(one, other),
        *_files(one, other),
    ]


def _spec(dataset: Dataset) -> dict[str, Any]:
    """A spec with its features by name, so that one that is new does not shift the others."""
    value = mf.spec_to_json(dataset.spec)
    for key in ("context", "candidates", "outcomes"):
        value[key] = {feature["name"]: feature for feature in value[key]}
    return value


def _recipe(dataset: Dataset) -> dict[str, Any]:
    """The recipe, and those that were appended, with behaviours by name."""
    first, *later = (
        {
            **recipe.to_dict(),
            "behaviours": {b.name: asdict(b) for b in recipe.behaviours},
        }
        for recipe in dataset.manifest.recipes
    )
    return {**first, "appended": later} if later else first


def _keys(section: str, a: Any, b: Any, key: str = "") -> Iterator[Difference]:
    """Keys whose values differ, with dots; a table that only one side has is one difference."""
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
    """A table, or a list of tables by number; None for any other value."""
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
    """Which episodes one has and the other has not; how the others differ."""
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
    """How a column of the shared episodes differs: its first values, and by how much."""
    first = differing.row(0, named=True)
    note = f"{differing.height:,} of {shared:,} shared episodes, first {_named(first)}"
    if differing.schema[column].is_numeric():
        change = (differing[f"{column}\nb"] - differing[column]).cast(pl.Float64).to_numpy()
        note += f"; b - a is {change.mean():.6g} on average, {abs(change).max():.6g} at most"
    return Difference("episodes", column, first[column], first[f"{column}\nb"], note)


def _named(row: Mapping[str, Any]) -> str:
    return f"{row['split']} window {row['window']} {row['behaviour']} seed {row['seed']}"


def _parts(one: Dataset, other: Dataset) -> Iterator[Difference]:
    """The number of parts; which differ in their bytes; of the first, where."""
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
        yield Difference("parts", x.path, note="columns differ: rows are not compared")
        return
    found = first_difference(one.folder / x.path, other.folder / y.path, one.spec)
    if found is None:
        note = "every value is the same: the encoding differs"
        yield Difference("parts", x.path, note=note)
    else:
        where = f"episode {found.episode}, step {found.step}, column {found.column}"
        yield Difference("parts", x.path, found.a, found.b, f"first at {where}")


def _file(entry: mf.FileEntry) -> str:
    return f"{entry.rows:,} rows, {entry.bytes:,} bytes, sha256 {entry.sha256[:12]}"


def _files(one: Dataset, other: Dataset) -> Iterator[Difference]:
    """All other files whose bytes differ, in case nothing before says why."""
    held = [_names(dataset.folder) for dataset in (one, other)]
    for name in sorted({*held[0], *held[1]}):
        if name not in held[0] or name not in held[1]:
            yield Difference("files", name, note="only in a" if name in held[0] else "only in b")
        elif not same_bytes(one.folder / name, other.folder / name):
            yield Difference("files", name, note="bytes differ")


def _names(folder: Path) -> set[str]:
    """Files of a dataset that are no parts: its own and those of its workload."""
    own = {path.name for path in folder.iterdir() if path.is_file()}
    workload = folder / mf.WORKLOAD
    if workload.is_dir():
        own |= {f"{mf.WORKLOAD}/{path.name}" for path in workload.iterdir() if path.is_file()}
    return own


def same_bytes(a: Path, b: Path) -> bool:
    """Whether two files hold the same; DatasetError is left to who opens them as what they are."""
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
    """The lines that `hindcast diff` prints."""
    if not differences:
        return ["the same: recipe, spec, versions, workload, episodes and the bytes of all parts"]
    return [d.line() for d in differences]


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
