"""The manifest of a dataset: its lineage and the claims that `verify` recomputes."""

import itertools
import json
import math
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.dataset.lineage import Lineage, lineage_from_json, lineage_to_json
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.recipes.checkpoints import checkpoint_places
from hindcast.pipeline.recipes.loading import parse_recipe
from hindcast.pipeline.recipes.recipe import Origin, Recipe, digest_of_dataset
from hindcast.pipeline.settings.reading import read_settings
from hindcast.pipeline.simulation.spec import MOST_PIXELS, Feature, Outcome, Spec
from hindcast.pipeline.storage.files import json_text, sha256_text
from hindcast.pipeline.storage.files import read_manifest as read_manifest_json
from hindcast.pipeline.storage.json_values import a_count, a_list, a_sha256, a_table, a_text
from hindcast.pipeline.storage.versions import package_versions, version
from hindcast.pipeline.workloads import caveats as cv
from hindcast.pipeline.workloads.schema import read_provenance

KIND: Final = "dataset"
VERSION: Final = 1
WITHOUT_CLOSING_ROWS: Final = 2  # version of a dataset whose spec has no `closing_rows`
_VERSIONS: Final = (VERSION, WITHOUT_CLOSING_ROWS)
NAME: Final = "manifest.json"
EPISODES: Final = "episodes.parquet"
WORKLOAD: Final = "workload"
CARD: Final = "README.md"
_PACKAGES: Final = ("numpy", "numba", "polars", "pyarrow")
_PART: Final = re.compile(r"data/part-[0-9]{5,}\.parquet")
_EPISODES: Final = re.compile(r"episodes(-[0-9]{5,})?\.parquet")
_MOST_FEATURES: Final = 4096  # of context or candidates, reward terms or outcomes
_ROWS_PER_BYTE: Final = 1 << 12  # no part packs rows more densely; a larger claim is refused


@dataclass(frozen=True)
class FileEntry:
    """A file of the dataset, by its path below the folder."""

    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Segment:
    """Lineage of one `hindcast build --append`, and its first part and episode."""

    recipe: Recipe
    digest: str
    versions: Mapping[str, str]
    first_part: int
    first_episode: int


@dataclass(frozen=True)
class Manifest:
    """Lineage, spec, files and counts of a dataset.

    Attributes:
        recipe: Recipe of the first build, every value with defaults included.
        digest: SHA-256 of the recipe; of all recipes' digests if something was appended; of these
            and the lineage if the dataset was made of others.
        spec: Names, units and ranges of observations, rewards and outcomes.
        parts: The parts, in order.
        episodes: The table of episodes.
        workload_sha256: SHA-256 of the manifest of the workload.
        provenance: Source of the workload: raw files with SHA-256, counts, and rows left out by
            reason.
        counts: Numbers of episodes, decisions, rows, windows and truncated episodes.
        versions: Versions of Python and the packages that the bytes depend on.
        appended: Later additions, in order.
        caveats: Facts that limit what results on the dataset can say; written only if there are.
        lineage: How the dataset was made of others, or None.
        merged: Recipes of such a dataset after the first, with other behaviours or windows.
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
    appended: tuple[Segment, ...] = ()
    caveats: tuple[cv.Caveat, ...] = ()
    lineage: Lineage | None = None
    merged: tuple[Recipe, ...] = ()

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """The recipe of the first build, then the appended and the merged ones."""
        return (self.recipe, *(segment.recipe for segment in self.appended), *self.merged)

    @property
    def name(self) -> str:
        """Id of the recipe, marked with the digest unless the dataset is all that it builds."""
        if not self.appended and self.lineage is None:
            return self.recipe.id
        return f"{self.recipe.to_dict()['id']}+{self.digest[:6]}"

    @property
    def data_sha256(self) -> str:
        """SHA-256 of the digests of parts and episodes, a line each: equal for equal data.

        `sealed` in manifest.json covers the versions of packages too.
        """
        return sha256_text("\n".join(one.sha256 for one in (*self.parts, self.episodes)))


def digest_of(recipes: Sequence[Recipe], lineage: Lineage | None = None) -> str:
    """Return the digest of a dataset by its recipes and its lineage."""
    of = [] if lineage is None else [lineage_to_json(lineage)]
    return digest_of_dataset(recipes, *of)


def is_episodes(name: str) -> bool:
    """Return whether `name` is that of a table of episodes; each append writes a new one."""
    return _EPISODES.fullmatch(name) is not None


def versions() -> dict[str, str]:
    """Return the versions of Python and the packages that the bytes depend on."""
    python = {"python": platform.python_version(), "hindcast": version()}
    return {**python, **package_versions(_PACKAGES)}


def to_json(manifest: Manifest) -> dict[str, Any]:
    """Return the manifest as written; `sealed` is the SHA-256 of all keys before it."""
    value = {
        "kind": KIND,
        "version": VERSION if manifest.spec.closing_rows else WITHOUT_CLOSING_ROWS,
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
    if manifest.appended:
        value["appended"] = [
            {
                "id": s.recipe.id,
                "digest": s.digest,
                "first_part": s.first_part,
                "first_episode": s.first_episode,
                "versions": dict(s.versions),
                "recipe": s.recipe.to_dict(),
            }
            for s in manifest.appended
        ]
    if manifest.caveats:
        value["caveats"] = cv.to_json(manifest.caveats)
    if manifest.lineage is not None:
        value["lineage"] = lineage_to_json(manifest.lineage)
        value["merged"] = [{"id": r.id, "recipe": r.to_dict()} for r in manifest.merged]
    return {**value, "sealed": sha256_text(json.dumps(value, separators=(",", ":")))}


def is_sealed(folder: Path, manifest: Manifest) -> bool:
    """Return whether manifest.json holds, byte for byte, the result of `to_json`: no edits."""
    return (folder / NAME).read_bytes() == json_text(to_json(manifest)).encode()


def spec_to_json(spec: Spec) -> dict[str, Any]:
    """Return a spec as JSON; infinite bounds become null."""

    def feature(f: Feature) -> dict[str, Any]:
        value = {**asdict(f), "scale": float(f.scale)}
        for bound in ("low", "high"):
            value[bound] = float(value[bound]) if math.isfinite(value[bound]) else None
        return value

    return {
        "scenario": spec.scenario,
        "objective": spec.objective,
        "context": [feature(f) for f in spec.context],
        "candidates": [feature(f) for f in spec.candidates],
        "reward_terms": list(spec.reward_terms),
        "outcomes": [asdict(o) for o in spec.outcomes],
        "image_shape": list(spec.image_shape),
        "discount": float(spec.discount),
        "valued": spec.valued,
        **({} if spec.closing_rows else {"closing_rows": False}),
    }


def spec_from_json(value: Mapping[str, Any]) -> Spec:
    """Invert `spec_to_json`; raise KeyError, TypeError, ValueError or RecipeError for damage."""

    def feature(f: Mapping[str, Any]) -> Feature:
        bounds = {
            "low": -math.inf if f["low"] is None else f["low"],
            "high": math.inf if f["high"] is None else f["high"],
        }
        return read_settings(Feature, {**f, **bounds}, "spec: feature")  # type: ignore[no-any-return]

    spec = Spec(
        scenario=a_text(value["scenario"]),
        objective=a_text(value["objective"]),
        context=tuple(map(feature, a_list(value["context"]))),
        candidates=tuple(map(feature, a_list(value["candidates"]))),
        reward_terms=tuple(map(a_text, a_list(value["reward_terms"]))),
        outcomes=tuple(
            read_settings(Outcome, o, "spec: outcome") for o in a_list(value["outcomes"])
        ),
        image_shape=tuple(a_count(n, MOST_PIXELS) for n in a_list(value["image_shape"])),
        discount=float(value["discount"]),
        valued=value["valued"],
        closing_rows=value.get("closing_rows", True),
    )
    if math.prod(spec.image_shape) > MOST_PIXELS or 0 in spec.image_shape:
        raise ValueError(f"image_shape is {spec.image_shape}, expected 1 to {MOST_PIXELS} pixels")
    for name in ("valued", "closing_rows"):
        if type(getattr(spec, name)) is not bool:
            raise TypeError(f"{name} is {getattr(spec, name)!r}, expected true or false")
    for names in (
        [f.name for f in spec.context],
        [f.name for f in spec.candidates],
        [*spec.reward_terms],
        [o.name for o in spec.outcomes],
    ):
        if len(names) > _MOST_FEATURES or len(set(names)) < len(names):
            raise ValueError(
                f"the spec has {len(names)} names {names[:5]}, expected different ones and at most "
                f"{_MOST_FEATURES}"
            )
    return spec


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a dataset folder.

    Raises DatasetError if it is missing or damaged, RecipeError if its recipe is not valid. A
    manifest that is returned names no file outside the folder.
    """
    path, value = folder / NAME, read_manifest_json(folder, KIND, _VERSIONS, "build")
    try:
        claims: dict[str, Any] = {
            "digest": a_sha256(value["digest"]),
            "workload_sha256": a_sha256(value["workload_sha256"]),
            "counts": {k: a_count(v) for k, v in a_table(value["counts"]).items()},
            "versions": {k: a_text(v) for k, v in a_table(value["versions"]).items()},
        }
        recipe = _recipe(value["recipe"], value.get("id"), path, "recipe", value)
        read_provenance(a_table(value["provenance"]))  # raises for damage
        manifest = Manifest(
            **claims,
            recipe=recipe,
            provenance=a_table(value["provenance"]),  # as written, with keys that are not known
            caveats=cv.from_json(value.get("caveats", [])),
            spec=spec_from_json(a_table(value["spec"])),
            parts=tuple(map(file_entry, a_list(value["parts"]))),
            episodes=file_entry(value["episodes"]),
            appended=tuple(_segment(s, path, value) for s in a_list(value.get("appended", []))),
            lineage=lineage_from_json(value["lineage"]) if "lineage" in value else None,
            merged=tuple(
                _recipe(a_table(one)["recipe"], one.get("id"), path, "merged: recipe", value)
                for one in a_list(value.get("merged", []))
            ),
        )
    except KeyError as error:
        raise DatasetError(f"{path}: this manifest is damaged (key {error} is missing)") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DatasetError(
            f"{path}: this manifest is damaged ({type(error).__name__}: {error})"
        ) from error
    _check_claims(manifest, path)
    _check_files(manifest, folder)
    return manifest


def _check_claims(manifest: Manifest, path: Path) -> None:
    """Raise DatasetError for file names that are not the standard's, or absurd counts."""
    for entry in (*manifest.parts, manifest.episodes):
        if entry.rows > _ROWS_PER_BYTE * max(1, entry.bytes):
            raise DatasetError(
                f"{path}: {entry.path} is said to have {entry.rows} rows in {entry.bytes} bytes, "
                f"expected at most {_ROWS_PER_BYTE} rows per byte"
            )
    names = [entry.path for entry in manifest.parts]
    if odd := [name for name in names if not _PART.fullmatch(name)]:
        raise DatasetError(f"{path}: a part is named {odd[0]!r}, expected data/part-NNNNN.parquet")
    if len(set(names)) < len(names):
        raise DatasetError(f"{path}: a part is listed twice, expected every part once")
    if not is_episodes(manifest.episodes.path):
        raise DatasetError(
            f"{path}: the episodes are in {manifest.episodes.path!r}, expected {EPISODES} "
            "or episodes-NNNNN.parquet"
        )
    added = [(s.first_part, s.first_episode) for s in manifest.appended]
    ends = [*added, (len(names), manifest.counts.get("episodes", 0))]
    if any(one[i] >= two[i] for one, two in itertools.pairwise([(0, 0), *ends]) for i in (0, 1)):
        raise DatasetError(
            f"{path}: appended recipes begin at (part, episode) {added}, expected each behind the "
            "one before"
        )
    if missing := {"episodes", "decisions", "windows", "truncated_episodes"} - set(manifest.counts):
        raise DatasetError(f"{path}: the key counts.{min(missing)} is missing")


def _check_files(manifest: Manifest, folder: Path) -> None:
    """Raise DatasetError if a file or folder of the dataset is a symbolic link.

    A link could lead to any file of the machine that reads the dataset.
    """
    inside = ["data", WORKLOAD, *(entry.path for entry in manifest.parts)]
    for name in (*inside, manifest.episodes.path):
        if (folder / name).is_symlink():
            raise DatasetError(
                f"{folder / name}: this is a symbolic link, which is not followed inside a "
                "dataset; copy the files themselves (cp -rL)"
            )


def _recipe(value: Any, written: Any, path: Path, key: str, manifest: Mapping[str, Any]) -> Recipe:
    """Return a recipe of the manifest, with its checkpoints and its workload in the dataset.

    `written` is the id beside the recipe, which has the mark of a changed one.
    """
    recipe, folder = parse_recipe(a_table(value), f"{path}: {key}"), path.parent
    workload = a_sha256(manifest["workload_sha256"])
    return replace(
        recipe.under(written),
        places=checkpoint_places(recipe, folder),
        origin=Origin(
            folder, workload, recipe.trace, recipe.evaluate, made_of_others="lineage" in manifest
        ),
    )


def _segment(value: Any, path: Path, manifest: Mapping[str, Any]) -> Segment:
    """Return an append from JSON; raise KeyError, TypeError or ValueError for damage."""
    table = a_table(value)
    return Segment(
        recipe=_recipe(table["recipe"], table.get("id"), path, "appended: recipe", manifest),
        digest=a_sha256(table["digest"]),
        versions={k: a_text(v) for k, v in a_table(table["versions"]).items()},
        first_part=a_count(table["first_part"]),
        first_episode=a_count(table["first_episode"]),
    )


def file_entry(value: Any) -> FileEntry:
    """Return a file's entry from JSON; raise TypeError, ValueError or RecipeError for damage."""
    entry = read_settings(FileEntry, value, "file")
    assert isinstance(entry, FileEntry)
    a_count(entry.rows)
    a_count(entry.bytes)
    a_sha256(entry.sha256)
    return entry
