"""Datasets made of datasets that recipes built: their rows as they are, with new numbers.

Workload and checkpoints are copies. A part has the kept rows of one part of one parent, so it still
has whole windows of one split.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.building.part_file import part_file
from hindcast.pipeline.dataset.building.parts import DATA, GROUP_ROWS, LOG_CANDIDATES
from hindcast.pipeline.dataset.building.results import counts_of, describe, write_episodes
from hindcast.pipeline.dataset.columns import episodes_schema, row_count
from hindcast.pipeline.dataset.documents.card.coverage import measure
from hindcast.pipeline.dataset.lineage import SELECTED, Lineage, selection_caveats
from hindcast.pipeline.dataset.part import open_part, part_errors
from hindcast.pipeline.errors import VerificationFailed
from hindcast.pipeline.recipes.checkpoints import copy_policies
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.selection.operations import selected
from hindcast.pipeline.storage import files
from hindcast.pipeline.workloads import caveats as cv

_MEASURED: Final = ("forced", "unfinished")  # codes of caveats of the rows themselves


def write(parents: Sequence[Dataset], lineage: Lineage, out: Path) -> None:
    """Write the dataset that an operation makes of its parents into an empty folder."""
    table = selected(lineage.operation, lineage.arguments, parents)
    first, spec = parents[0], parents[0].spec
    files.make_folder(out / DATA)
    for path in sorted((first.folder / mf.WORKLOAD).glob("[!.]*")):
        with files.local_copy(path) as copy:
            files.make_folder(out / mf.WORKLOAD)
            shutil.copyfile(copy, out / mf.WORKLOAD / path.name)
    by_digest: dict[str, Recipe] = {}
    for recipe in (recipe for parent in parents for recipe in parent.manifest.recipes):
        by_digest.setdefault(recipe.digest, recipe)
        copy_policies(recipe, out)
    recipe, *others = by_digest.values()
    parts = []
    for number, rows in enumerate(_parts(table)):
        name = f"{DATA}/part-{number:05}.parquet"

        def fill(temporary: Path, rows: pl.DataFrame = rows) -> None:
            with part_file(temporary, spec) as file:
                for group in groups(parents, rows):
                    file.write_table(group, row_group_size=len(group))

        stored = files.write_atomically(out / name, fill)
        count = row_count(rows, spec)
        parts.append(mf.FileEntry(name, count, stored.bytes, stored.sha256))
    episodes = table.select(episodes_schema(spec).keys())
    manifest = mf.Manifest(
        recipe=recipe,
        digest=mf.digest_of([*by_digest.values()], lineage),
        spec=spec,
        parts=tuple(parts),
        episodes=write_episodes(out, mf.EPISODES, episodes),
        workload_sha256=first.manifest.workload_sha256,
        provenance=first.manifest.provenance,
        counts=counts_of(parts, episodes, spec),
        versions=mf.versions(),
        lineage=lineage,
        merged=tuple(others),
    )
    coverage = measure(out, manifest, episodes)
    means: list[Any] = [
        (row["behaviour"], row)
        for row in episodes.group_by("behaviour", maintain_order=True)
        .agg(pl.col(*(o.name for o in spec.outcomes), "truncated").cast(pl.Float64).mean())
        .to_dicts()
    ]
    inherited = [c for p in parents for c in p.manifest.caveats if c.code not in _MEASURED]
    found = [*inherited, *cv.forced(coverage.decisions, coverage.forced), *cv.unfinished(means)]
    manifest = replace(manifest, caveats=_distinct([*found, *selection_caveats(lineage)]))
    describe(out, manifest, load_scenario(recipe.scenario), episodes, coverage)
    files.write_json(out / mf.NAME, mf.to_json(manifest))


def _distinct(caveats: Sequence[cv.Caveat]) -> tuple[cv.Caveat, ...]:
    """Return each caveat once; of the selection the last one, which names all conditions."""
    by_text = {(c.code, "" if c.code == SELECTED else c.text): c for c in caveats}
    return tuple(by_text.values())


def _parts(table: pl.DataFrame) -> list[pl.DataFrame]:
    return table.partition_by("first_part", maintain_order=True)


def groups(parents: Sequence[Dataset], rows: pl.DataFrame) -> Iterator[pa.Table]:
    """Yield the row groups of a part with these rows of the table of episodes.

    A row group has whole row groups of the parent, until there are enough rows.
    """
    parent = parents[rows["parent"][0]]
    path = parent.part(rows["part_of_parent"][0])
    origins, numbers = rows["origin"].to_numpy(), rows["episode"].to_numpy()
    waiting: list[pa.Table] = []
    candidates = 0
    file = open_part(path, parent.spec)
    for group in range(file.num_row_groups):
        with part_errors(path):
            found = file.read_row_group(group)
        there = found["episode"].to_numpy()
        at = np.searchsorted(origins, there).clip(max=len(origins) - 1)
        kept = origins[at] == there
        if kept.any():
            place = found.schema.get_field_index("episode")
            own = pa.array(numbers[at], type=pa.int64())
            found = found.set_column(place, found.schema.field(place), own)
            waiting.append(found if kept.all() else found.filter(pl.Series(kept).to_arrow()))
            candidates += len(waiting[-1]["candidates"].combine_chunks().flatten())
        if sum(map(len, waiting)) >= GROUP_ROWS or candidates >= LOG_CANDIDATES:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, candidates = [], 0
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def check(dataset: Dataset, parents: Sequence[Dataset], lineage: Lineage) -> str:
    """Select the episodes again and compare every row; raise VerificationFailed for a difference.

    Returns what was compared, in words.
    """
    table = selected(lineage.operation, lineage.arguments, parents)
    expected = table.select(episodes_schema(dataset.spec).keys())
    if not expected.equals(dataset.episodes(), null_equal=True):
        raise VerificationFailed(
            f"{dataset.folder / dataset.manifest.episodes.path}: the episodes are not those that "
            f"{lineage.words} selects from the parents"
        )
    rows = 0
    for number, part in enumerate(_parts(table)):
        path = dataset.part(number)
        file = open_part(path, dataset.spec)
        for group, wanted in enumerate(groups(parents, part)):
            with part_errors(path):
                found = file.read_row_group(group)
            if not pl.DataFrame(found).equals(pl.DataFrame(wanted), null_equal=True):
                raise VerificationFailed(f"{path}: row group {group} differs from the parents'")
            rows += len(wanted)
    return f"{rows:,} rows (decisions and closing rows) are those of the parents"
