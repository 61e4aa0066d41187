"""The manifest of a dataset: its lineage and the claims that `verify` recomputes."""

import importlib.metadata
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pipeline.errors import DatasetError
from pipeline.recipe import Recipe, parse_recipe, read_settings
from pipeline.schema import Feature, Outcome, Spec
from pipeline.storage import read_json

KIND: Final = "dataset"
VERSION: Final = 1
NAME: Final = "manifest.json"
EPISODES: Final = "episodes.parquet"
WORKLOAD: Final = "workload"
CARD: Final = "README.md"
_PACKAGES: Final = ("hindcast", "numpy", "numba", "polars", "pyarrow")
_LARGEST: Final = 64 << 20  # a manifest of a million parts stays below; more is not a manifest


@dataclass(frozen=True)
class FileEntry:
    """A file of the dataset, by its path below the folder."""

    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a dataset claims to be.

    recipe       every value of the recipe, defaults included; `digest` is its SHA-256
    spec         names, units and ranges of observations, rewards and outcomes
    files        the parts in order, then episodes.parquet
    provenance   of the workload: raw files with SHA-256, counts, what was left out and why
    behaviours   per behaviour: episodes, decisions, mean return
    """

    recipe: Recipe
    digest: str
    spec: Spec
    parts: tuple[FileEntry, ...]
    episodes: FileEntry
    workload_sha256: str
    provenance: Mapping[str, Any]
    counts: Mapping[str, int]
    versions: Mapping[str, str]


def versions() -> dict[str, str]:
    """Python and the packages that the bytes depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def to_json(manifest: Manifest) -> dict[str, Any]:
    """The manifest as written."""
    return {
        "kind": KIND,
        "version": VERSION,
        "id": manifest.recipe.id,
        "digest": manifest.digest,
        "recipe": manifest.recipe.to_dict(),
        "spec": spec_to_json(manifest.spec),
        "counts": dict(manifest.counts),
        "provenance": dict(manifest.provenance),
        "workload_sha256": manifest.workload_sha256,
        "versions": dict(manifest.versions),
        "episodes": asdict(manifest.episodes),
        "parts": [asdict(part) for part in manifest.parts],
    }


def spec_to_json(spec: Spec) -> dict[str, Any]:
    """A spec as JSON; infinite bounds become null."""

    def feature(f: Feature) -> dict[str, Any]:
        value = asdict(f)
        for bound in ("low", "high"):
            if value[bound] in {float("inf"), float("-inf")}:
                value[bound] = None
        return value

    return {
        "scenario": spec.scenario,
        "objective": spec.objective,
        "context": [feature(f) for f in spec.context],
        "candidates": [feature(f) for f in spec.candidates],
        "reward_terms": list(spec.reward_terms),
        "outcomes": [asdict(o) for o in spec.outcomes],
        "image_shape": list(spec.image_shape),
        "discount": spec.discount,
        "valued": spec.valued,
    }


def spec_from_json(value: Mapping[str, Any]) -> Spec:
    """The inverse of `spec_to_json`; KeyError, TypeError or ValueError where it is damaged."""

    def feature(f: Mapping[str, Any]) -> Feature:
        bounds = {
            "low": float("-inf") if f["low"] is None else float(f["low"]),
            "high": float("inf") if f["high"] is None else float(f["high"]),
        }
        return Feature(**{**f, **bounds})

    return Spec(
        scenario=str(value["scenario"]),
        objective=str(value["objective"]),
        context=tuple(feature(f) for f in value["context"]),
        candidates=tuple(feature(f) for f in value["candidates"]),
        reward_terms=tuple(map(str, value["reward_terms"])),
        outcomes=tuple(Outcome(**o) for o in value["outcomes"]),
        image_shape=tuple(map(int, value["image_shape"])),
        discount=float(value["discount"]),
        valued=bool(value["valued"]),
    )


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a dataset folder.

    Raises DatasetError that says what is missing or damaged; RecipeError where its recipe is not
    valid. Nothing outside the folder is named by a manifest that this returns.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise DatasetError(f"{folder}: {what}, expected a dataset (see `hindcast build --help`)")
    path = folder / NAME
    if not path.is_file():
        raise DatasetError(
            f"{folder}: no {NAME}, so this is no finished dataset; "
            "run `hindcast build` again to finish it"
        )
    if path.stat().st_size > _LARGEST:
        raise DatasetError(f"{path}: {path.stat().st_size} bytes is too large for a manifest")
    value = read_json(path)
    if not isinstance(value, dict) or value.get("kind") != KIND:
        kind = value.get("kind") if isinstance(value, dict) else type(value).__name__
        raise DatasetError(f"{path}: kind is {kind!r}, expected {KIND!r}")
    if value.get("version") != VERSION:
        raise DatasetError(f"{path}: version {value.get('version')!r}, expected {VERSION}")
    try:
        manifest = Manifest(
            recipe=parse_recipe(value["recipe"], f"{path}: recipe"),
            digest=str(value["digest"]),
            spec=spec_from_json(value["spec"]),
            parts=tuple(_entry(p) for p in value["parts"]),
            episodes=_entry(value["episodes"]),
            workload_sha256=str(value["workload_sha256"]),
            provenance=dict(value["provenance"]),
            counts={str(k): int(v) for k, v in value["counts"].items()},
            versions={str(k): str(v) for k, v in value["versions"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DatasetError(f"{path}: damaged ({type(error).__name__}: {error})") from error
    for entry in (*manifest.parts, manifest.episodes):
        _check_inside(entry.path, path)
    return manifest


def _entry(value: Mapping[str, Any]) -> FileEntry:
    entry = read_settings(FileEntry, value, "file")
    assert isinstance(entry, FileEntry)
    return entry


def _check_inside(name: str, manifest: Path) -> None:
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts or "\0" in name:
        raise DatasetError(f"{manifest}: file name {name!r} leaves the folder")
