"""Listing of the datasets, workloads, evaluations, checkpoints and runs below some folders.

Each is recognised by the file that is written last. Manifests are read and compared with the sizes
of files; nothing else is opened, so a listing is cheap. `hindcast verify` checks the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.errors import DatasetError, InputError, StorageError
from hindcast.pipeline.evaluation.summary.evaluations import read_evaluation
from hindcast.pipeline.inspection.columns import aligned, size
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.shipped import known_recipes
from hindcast.pipeline.storage.files import read_json
from hindcast.pipeline.storage.run_files import (
    BUILDING,
    DESCRIPTION,
    EVALUATING,
    EVALUATION,
    LEDGER,
    SCORES,
    WEIGHTS,
)
from hindcast.pipeline.workloads import folder as ingest

_DEEPEST: Final = 32  # nested folders; a loop of mounts would have no end


@dataclass(frozen=True)
class Entry:
    """One thing that was found.

    Attributes:
        folder: Its folder.
        kind: dataset, workload, evaluation, checkpoint, run, or "unfinished ...".
        name: Id of the recipe, name of the agent, or format of the trace.
        bytes: Size of the files that its manifest names; None if it names none.
        digest: SHA-256 of the recipe or of the weights; empty if it has neither.
        facts: Other facts of its kind: level, episodes, decisions, split, policies, ...
        damage: Reason why it cannot be used; empty if no damage was found.
    """

    folder: Path
    kind: str
    name: str = ""
    bytes: int | None = None
    digest: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    damage: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return one flat object, with `damage` only if there is any."""
        value: dict[str, Any] = {"kind": self.kind, "folder": str(self.folder)}
        value |= {"name": self.name, "bytes": self.bytes, "digest": self.digest, **self.facts}
        return {**value, "damage": self.damage} if self.damage else value


def find(folders: Sequence[Path]) -> Iterator[Entry]:
    """Yield everything below the folders, in order of their names, including damaged entries.

    Raises DatasetError for a folder that does not exist.
    """
    for folder in folders:
        if not folder.is_dir():
            what = "is a file" if folder.exists() else "no such folder"
            raise DatasetError(f"{folder}: {what}, expected a folder to search")
        yield from _below(folder, 0)


def entry_of(folder: Path) -> Entry | None:
    """Return the entry of the folder itself; None if Hindcast did not write it."""
    for marker, read in _READERS.items():
        if (folder / marker).exists():
            try:
                return read(folder)
            except StorageError:
                raise  # a store that does not answer is no damage of the folder
            except (InputError, OSError) as error:
                return Entry(folder, _kind(folder, marker), damage=_reason(error, folder))
    return None


def recipes() -> list[dict[str, Any]]:
    """Return the recipes that come with Hindcast, as JSON values.

    A recipe of a scenario that is not installed has no more than its name and the reason.
    """
    found: list[dict[str, Any]] = []
    for name in known_recipes():
        try:
            recipe = load_recipe(name)
        except InputError as error:
            empty = {"scenario": "", "level": "", "episodes": ""}
            found.append({"kind": "recipe", "name": name, **empty, "description": str(error)})
            continue
        windows = sum(len(recipe.windows(s)) for s in recipe.dataset_splits)
        found.append(
            {
                "kind": "recipe",
                "name": recipe.id,
                "scenario": recipe.scenario,
                "objective": recipe.objective,
                "level": recipe.level,
                "trace": recipe.trace.format,
                "episodes": windows * sum(b.episodes for b in recipe.behaviours),
                "digest": recipe.digest,
                "description": " ".join(recipe.description.split()),
            }
        )
    return found


def listing(entries: Sequence[Entry]) -> list[str]:
    """Return entries as lines with columns, each followed by its damage."""
    titles = ("kind", "name", "level", "episodes", "decisions", "size", "digest", "folder")
    header, *lines = aligned([titles, *map(_row, entries)], right=(3, 4, 5))
    shown = [header]
    for entry, line in zip(entries, lines, strict=True):
        shown.append(line)
        if entry.damage:
            shown.append(f"  DAMAGED: {entry.damage}")
    return shown


def _row(entry: Entry) -> tuple[str, ...]:
    numbers = (entry.facts.get(key) for key in ("episodes", "decisions"))
    return (
        entry.kind,
        entry.name or "-",
        str(entry.facts.get("level") or "-"),
        *("-" if number is None else f"{number:,}" for number in numbers),
        size(entry.bytes),
        entry.digest[:12] or "-",
        str(entry.folder),
    )


def _below(folder: Path, depth: int) -> Iterator[Entry]:
    entry = entry_of(folder)
    if entry is not None:
        yield entry
        if entry.kind != "run":
            return  # everything inside belongs to the entry
    if depth >= _DEEPEST:
        return
    try:
        inside = sorted(folder.iterdir(), key=lambda path: path.name)
    except PermissionError as error:
        yield Entry(folder, "folder", damage=f"cannot be read ({error.strerror})")
        return
    for path in inside:
        if not path.name.startswith(".") and not path.is_symlink() and path.is_dir():
            yield from _below(path, depth + 1)


def _reason(error: InputError | OSError, folder: Path) -> str:
    text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    return " ".join(text.removeprefix(f"{folder}: ").split())


def _kind(folder: Path, marker: str) -> str:
    """Return the kind of a damaged folder, as far as its files show it."""
    if marker != mf.NAME:
        return _KINDS[marker]
    return "dataset" if (folder / mf.EPISODES).exists() else "workload or dataset"


def _manifest(folder: Path) -> Entry:
    manifest = read_json(folder / mf.NAME)
    if isinstance(manifest, dict) and manifest.get("kind") == ingest.KIND:
        return _workload(folder, manifest)
    return _dataset(folder)


def _dataset(folder: Path) -> Entry:
    manifest = mf.read_manifest(folder)
    files = (*manifest.parts, manifest.episodes)
    return Entry(
        folder,
        "dataset",
        manifest.name,
        sum(f.bytes for f in files),
        manifest.digest,
        {
            "scenario": manifest.recipe.scenario,
            "objective": manifest.recipe.objective,
            "level": manifest.recipe.level,
            "episodes": manifest.counts["episodes"],
            "decisions": manifest.counts["decisions"],
            "parts": len(manifest.parts),
        },
        damage=_missing(folder, [(f.path, f.bytes) for f in files]),
    )


def _workload(folder: Path, manifest: Mapping[str, Any]) -> Entry:
    """Return the entry of a folder of a workload, from its manifest; missing files are damage."""
    files, provenance = manifest.get("files"), manifest.get("provenance")
    if not isinstance(files, list) or not isinstance(provenance, dict):
        raise DatasetError(f"{folder / mf.NAME}: lacks the list 'files' or the table 'provenance'")
    rows = {
        f["name"]: f.get("rows")
        for f in files
        if isinstance(f, dict) and isinstance(f.get("name"), str)
    }
    paths = [folder / name for name in rows if name == Path(name).name]
    here = [path for path in paths if path.is_file()]
    lost = [path.name for path in paths if path not in here]
    return Entry(
        folder,
        "workload",
        str(provenance.get("format", "")),
        sum(path.stat().st_size for path in here),
        facts={"tasks": rows.get("tasks.parquet"), "left_out": provenance.get("left_out")},
        damage=f"{lost[0]}: is missing" if lost else "",
    )


def _evaluation(folder: Path) -> Entry:
    found = read_evaluation(folder)
    scores = folder / SCORES
    return Entry(
        folder,
        "evaluation",
        found.recipe,
        scores.stat().st_size if scores.is_file() else None,
        found.digest,
        {
            "scenario": found.scenario,
            "split": found.split,
            "headline": found.headline,
            "policies": len(found.policies),
        },
        damage="" if scores.is_file() else f"{SCORES}: is missing",
    )


def _checkpoint(folder: Path) -> Entry:
    value = _object(folder / DESCRIPTION)
    weights, training = value.get("weights"), value.get("training")
    if not isinstance(weights, dict) or not isinstance(training, dict):
        raise DatasetError(f"{DESCRIPTION}: lacks the table 'weights' or 'training'")
    claimed = weights.get("bytes")
    known = claimed if isinstance(claimed, int) else None
    return Entry(
        folder,
        "checkpoint",
        str(value.get("agent", "")),
        known,
        str(weights.get("sha256", "")),
        {
            "scenario": value.get("scenario"),
            "objective": value.get("objective"),
            "steps": training.get("steps"),
            "seed": training.get("seed"),
        },
        damage=_missing(folder, [(WEIGHTS, known)] if known is not None else []),
    )


def _run(folder: Path) -> Entry:
    value = _object(folder / LEDGER)
    stages = value.get("stages")
    if not isinstance(stages, dict):
        raise DatasetError(f"{LEDGER}: is not the ledger of a run; it lacks the table 'stages'")
    facts = {"stages": list(stages), "reported": (folder / "report.html").is_file()}
    return Entry(
        folder, "run", str(value.get("recipe", "")), None, str(value.get("digest", "")), facts
    )


def _unfinished(kind: str) -> Callable[[Path], Entry]:
    return lambda folder: Entry(folder, f"unfinished {kind}")


def _object(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise DatasetError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value


def _missing(folder: Path, files: Iterable[tuple[str, int | None]]) -> str:
    """Return the damage of the first file that is missing or has another size than claimed."""
    for name, claimed in files:
        path = folder / name
        if not path.is_file():
            return f"{name}: is missing"
        if path.stat().st_size != claimed:
            return f"{name}: has {path.stat().st_size} bytes, the manifest says {claimed}"
    return ""


# File that marks each kind, and its reader; finished kinds come before unfinished ones.
_READERS: Final[Mapping[str, Callable[[Path], Entry]]] = {
    mf.NAME: _manifest,
    EVALUATION: _evaluation,
    DESCRIPTION: _checkpoint,
    LEDGER: _run,
    BUILDING: _unfinished("dataset"),
    EVALUATING: _unfinished("evaluation"),
}
_KINDS: Final[Mapping[str, str]] = {
    EVALUATION: "evaluation",
    DESCRIPTION: "checkpoint",
    LEDGER: "run",
}
