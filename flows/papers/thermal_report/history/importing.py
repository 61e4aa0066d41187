"""Dataset folders made from a history file: ingestion and verification.

    OUT/
      data/part-00000.parquet   the records as decisions (module `conversion`)
      episodes.parquet          one row per episode; outcomes are NaN: they were not recorded
      recorded.parquet          the records themselves, in float64: writing them as a history file
                                again gives the same values
      workload/                 empty: the file has transitions, not jobs
      README.md, manifest.json  the provenance says recorded = "elsewhere"

Such decisions cannot be replayed, since the simulator does not know the later jobs. Instead,
`verify` checks that converting `recorded.parquet` gives the parts.
"""

import math
from contextlib import closing
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

import numpy as np
import polars as pl

from hindcast.flows.papers.thermal_report.history import records as h
from hindcast.flows.papers.thermal_report.history.conversion import episodes, to_log
from hindcast.flows.papers.thermal_report.history.records import History, read_history
from hindcast.flows.papers.thermal_report.history.records_table import read_table, to_table
from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.building.part_writer import PartWriter
from hindcast.pipeline.dataset.building.parts import DATA, PLAN
from hindcast.pipeline.dataset.building.recorder import N_ELAPSED, Log
from hindcast.pipeline.dataset.building.results import (
    BuildResult,
    counts_of,
    describe,
    result_of,
    write_episodes,
)
from hindcast.pipeline.dataset.columns import episodes_schema
from hindcast.pipeline.dataset.documents.card.coverage import measure
from hindcast.pipeline.dataset.part import Block, read_blocks
from hindcast.pipeline.errors import DatasetError, StorageError, VerificationFailed
from hindcast.pipeline.recipes.recipe import BehaviourRecipe, Recipe, TraceSource
from hindcast.pipeline.recipes.workload_source import ELSEWHERE, RECORD, RECORDED
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.thermal.config import ThermalConfig
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage import files
from hindcast.pipeline.storage.locks import one_writer
from hindcast.pipeline.storage.run_files import BUILDING
from hindcast.pipeline.traces.first_look import source_file
from hindcast.pipeline.workloads.folder import save_workload
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload

BEHAVIOUR: Final = "recorded"
_NOTES: Final = (
    "Recorded elsewhere: how the decisions were drawn is not known. Propensities are NaN.",
    "Reward terms, outcomes and the calendar's columns are not in a history file: NaN.",
    "The decisions cannot be replayed; `verify` converts the recorded file again instead.",
)
_LEAK: Final = (
    "The states hold FINISH_TIME: they were written after the decision and reveal it. A policy "
    "learned from them will not do in the simulator what it does in this file."
)
_UNKNOWN: Final = "Keys that were left out: "


def history_recipe(identifier: str, name: str, n_episodes: int) -> Recipe:
    """Return the recipe of a dataset made from the history file `name`."""
    return Recipe(
        id=identifier,
        scenario="thermal",
        config=ThermalConfig(features="history"),
        objective="difference",
        trace=TraceSource(RECORDED, name),
        split={"train": range(n_episodes)},
        seed=0,
        behaviours=(BehaviourRecipe(BEHAVIOUR),),
        description=f"Decisions of a data centre of six servers, read from {name}",
        dataset_splits=("train",),
    )


@one_writer
def ingest(path: Path, out: Path) -> BuildResult:
    """Make the dataset `out` from the history file at `path`; its id is the name of `out`.

    Raises InputError for the file, StorageError if `out` is not empty or cannot be written.
    """
    history = read_history(path)
    _refuse_foreign(path, out)
    runs = episodes(history)
    recipe = history_recipe(out.name, path.name, len(runs))
    scenario = load_scenario("thermal")
    spec = scenario.spec(recipe.config, recipe.objective)
    log = to_log(history, spec, recipe.config)
    _begin(path, out)
    part = f"{DATA}/part-00000.parquet"
    stored = files.write_atomically(out / part, partial(_write_part, log, spec))
    parts = (mf.FileEntry(part, log.rows, stored.bytes, stored.sha256),)
    table = _episode_table(history, log, spec)
    files.write_parquet(out / RECORD, to_table(history))
    provenance = _provenance(history, path, out)
    save_workload(Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), provenance), out / mf.WORKLOAD)
    manifest = mf.Manifest(
        recipe=recipe,
        digest=recipe.digest,
        spec=spec,
        parts=parts,
        episodes=write_episodes(out, mf.EPISODES, table),
        workload_sha256=files.sha256_file(out / mf.WORKLOAD / mf.NAME),
        provenance={**asdict(provenance), "recorded": ELSEWHERE},
        counts=counts_of(parts, table, spec),
        versions=mf.versions(),
    )
    describe(out, manifest, scenario, table, measure(out, manifest, table))
    files.write_json(out / mf.NAME, mf.to_json(manifest))
    files.remove_folder(out / BUILDING)
    return result_of(out, manifest)


def _refuse_foreign(path: Path, out: Path) -> None:
    """Raise StorageError if `out` holds anything but an interrupted ingestion of this file."""
    there = {p.name for p in out.iterdir()} if out.is_dir() else set()
    record = out / BUILDING / PLAN
    begun = all(files.is_partial(name) or name == BUILDING for name in there)
    if not out.exists() or (out.is_dir() and begun and not record.exists()):
        return  # at most the folders of an ingestion that wrote nothing, as on a full disk
    finished = not out.is_dir() or (out / mf.NAME).exists()
    if finished or not record.exists() or files.read_json(record) != _claim(path):
        raise StorageError(
            f"{out}: this path exists and is not an empty folder; choose another --out"
        )


def _begin(path: Path, out: Path) -> None:
    """Make the folders, and say which file they are for: an interrupted ingestion is repeated."""
    files.make_folder(out)
    files.write_json(files.make_folder(out / BUILDING) / PLAN, _claim(path))
    for folder in (out, out / BUILDING, files.make_folder(out / DATA)):
        files.remove_partials(folder)


def _claim(path: Path) -> dict[str, str]:
    return {"history": files.sha256_file(path)}


def _write_part(log: Log, spec: Spec, path: Path) -> None:
    with closing(PartWriter(path, spec)) as writer:
        writer.write(log)


def _episode_table(history: History, log: Log, spec: Spec) -> pl.DataFrame:
    """Return the table of episodes."""
    outcomes = [o.name for o in spec.outcomes]
    rows = []
    for number, run in enumerate(episodes(history)):
        first = run.start + number  # in the log, where every episode before has a closing row
        rows.append(
            {
                "episode": number,
                "split": "train",
                "behaviour": BEHAVIOUR,
                "seed": 0,
                "window": number,
                "steps": len(run),
                "return": float(history.reward[run.start : run.stop].sum()),
                "elapsed_s": float(log.numbers[N_ELAPSED, first : first + len(run)].sum()),
                "truncated": True,
                "behaviour_parameters": [],
                **dict.fromkeys(outcomes, math.nan),
                "first_part": 0,
                "last_part": 0,
            }
        )
    return pl.DataFrame(rows, schema=episodes_schema(spec))


def _provenance(history: History, path: Path, out: Path) -> Provenance:
    notes = _notes(history)
    if history.unknown_keys:
        notes.append(f"{_UNKNOWN}{', '.join(history.unknown_keys)}")
    return Provenance(
        format=RECORDED,
        files=(source_file(path), source_file(out / RECORD)),
        counts={"records": len(history)},
        notes=tuple(notes),
    )


def _notes(history: History) -> list[str]:
    """Return the notes that follow from the records."""
    leaks = not np.isnan(history.state.job[:, h.FINISH_TIME]).all()
    return [*_NOTES, *([_LEAK] if leaks else [])]


def check(dataset: Dataset) -> tuple[str, str]:
    """Convert recorded.parquet again and compare every value of every row and episode.

    This replaces the replay of `verify` for such a dataset. NaN equals NaN. Returns the name and
    result of the check; raises VerificationFailed if anything differs.
    """
    folder, spec, recipe = dataset.folder, dataset.spec, dataset.recipe
    if recipe != history_recipe(recipe.id, recipe.trace.path, dataset.episodes().height):
        raise VerificationFailed(
            f"{folder / mf.NAME}: the recipe differs from that of decisions recorded elsewhere"
        )
    claims = {f["name"]: f for f in dataset.manifest.provenance["files"]}
    claim = claims.get(RECORD, {})
    try:
        if files.sha256_file(folder / RECORD) != claim.get("sha256"):
            raise VerificationFailed(
                f"{folder / RECORD}: the SHA-256 of this file differs from the manifest's"
            )
        if (size := (folder / RECORD).stat().st_size) != claim.get("bytes"):
            raise VerificationFailed(
                f"{folder / RECORD}: this file has {size} bytes, the manifest says "
                f"{claim.get('bytes')}"
            )
    except OSError as error:
        raise VerificationFailed(
            f"{folder / RECORD}: this file cannot be read ({error.strerror})"
        ) from error
    try:
        history = read_table(folder / RECORD)
        log = to_log(history, spec, dataset.recipe.config)
        found = list(dataset.blocks(0))
    except DatasetError as error:
        raise VerificationFailed(str(error)) from error
    with files.storage_errors(Path(gettempdir())), TemporaryDirectory() as scratch:
        _write_part(log, spec, Path(scratch) / "part.parquet")
        [expected] = read_blocks(Path(scratch) / "part.parquet", spec)
    if len(found) != 1 or not _same(found[0], expected):
        raise VerificationFailed(
            f"{folder / DATA}: the decisions differ from those that {RECORD} gives"
        )
    _check_provenance(dataset, history)
    if not _episode_table(history, log, spec).equals(dataset.episodes()):
        raise VerificationFailed(
            f"{folder / mf.EPISODES}: the episodes differ from those that {RECORD} gives"
        )
    return "decisions", f"{len(history):,} converted again; decisions of others cannot be replayed"


def _check_provenance(dataset: Dataset, history: History) -> None:
    """Raise VerificationFailed for a provenance that no ingestion of these records writes."""
    found = dataset.manifest.provenance
    names, notes = [f["name"] for f in found["files"]], _notes(history)
    if (
        names != [dataset.recipe.trace.path, RECORD]
        or dict(found["counts"]) != {"records": len(history)}
        or found["left_out"]
        or found["notes"][: len(notes)] != notes
        or any(not note.startswith(_UNKNOWN) for note in found["notes"][len(notes) :])
    ):
        raise VerificationFailed(
            f"{dataset.folder / mf.NAME}: the provenance differs from the one that {RECORD} gives"
        )


def _same(one: Block, other: Block) -> bool:
    pairs = ((getattr(one, f.name), getattr(other, f.name)) for f in fields(Block))
    return all(
        a is b if a is None or b is None else np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for a, b in pairs
    )
