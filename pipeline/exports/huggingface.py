"""`huggingface`: a folder that `datasets.load_dataset` reads, on this machine or on the Hub.

    README.md                                the card, with the header that names the configs
    data/SPLIT-00000-of-00003.parquet        config `decisions` (the default): the standard's
                                             columns and rows
    episodes/SPLIT-00000-of-00001.parquet    config `episodes`: one row per episode

    from datasets import load_dataset
    train = load_dataset("OUT", split="train")                     # or streaming=True
    episodes = load_dataset("OUT", "episodes", split="train")

Parts of one split are copied byte for byte; a part with windows of several splits is divided. In
`datasets`, a struct is a dict and a list of structs a list of dicts; an image is a list of bytes.

What is lost: the manifest with its checksums, and the workload: `hindcast verify` needs the
dataset itself.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from hindcast.pipeline.building.part_writer import part_file
from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.documents.card.coverage import row_groups
from hindcast.pipeline.documents.card.header import config_lines, size_category
from hindcast.pipeline.documents.terms import terms
from hindcast.pipeline.exports import ExportResult, Progress
from hindcast.pipeline.exports._copying import card_of, copy_checked
from hindcast.pipeline.exports._target import new_folder, result
from hindcast.pipeline.pages.markdown import quoted
from hindcast.pipeline.storage.files import table_writer


def export(dataset: Dataset, out: Path, candidates: int | None, tell: Progress) -> ExportResult:
    """Write the folder `out`; raise as `hindcast.pipeline.exports.export`."""
    del candidates
    splits = list(dict.fromkeys(dataset.episodes()["split"]))
    with new_folder(out) as temporary:
        _write_decisions(dataset, temporary, tell)
        (temporary / "episodes").mkdir()
        for split in splits:
            write = table_writer(dataset.episodes(split), compression_level=3)
            write(temporary / "episodes" / f"{split}-00000-of-00001.parquet")
        (temporary / "README.md").write_text(_readme(dataset, splits), encoding="utf-8")
    return result(out)


def _write_decisions(dataset: Dataset, folder: Path, tell: Progress) -> None:
    """Write every part to its split, or its rows to each of its splits."""
    (folder / "data").mkdir()
    of_parts = (
        dataset.episodes()
        .group_by("first_part", maintain_order=True)
        .agg(pl.col("split").unique(maintain_order=True), pl.col("split").alias("of_episodes"),
             pl.col("episode"))
    )  # fmt: skip
    shards = of_parts.explode("split")["split"].value_counts()
    total = dict(shards.select("split", "count").iter_rows())
    written = dict.fromkeys(total, 0)
    for number, row in enumerate(of_parts.iter_rows(named=True), start=1):
        part, names = int(row["first_part"]), {}
        for split in row["split"]:
            name = f"{split}-{written[split]:05d}-of-{total[split]:05d}.parquet"
            names[split] = folder / "data" / name
            written[split] += 1
        if len(names) == 1:
            [target] = names.values()
            copy_checked(dataset.folder, dataset.manifest.parts[part], target)
        else:
            split_of = dict(zip(row["episode"], row["of_episodes"], strict=True))
            _divide(dataset, part, names, split_of)
        tell(number, of_parts.height)


def _divide(
    dataset: Dataset, part: int, names: Mapping[str, Path], split_of: Mapping[int, str]
) -> None:
    """Write the rows of a part into one file per split."""
    writers = {split: part_file(path, dataset.spec) for split, path in names.items()}
    try:
        path = dataset.folder / dataset.manifest.parts[part].path
        for table in row_groups(path, dataset.spec):
            for split, writer in writers.items():
                episodes = [episode for episode, s in split_of.items() if s == split]
                rows = table.filter(pc.is_in(table["episode"], pa.array(episodes, pa.int64())))
                if rows.num_rows:
                    writer.write_table(rows.combine_chunks(), row_group_size=rows.num_rows)
    finally:
        for writer in writers.values():
            writer.close()


def _readme(dataset: Dataset, splits: Sequence[str]) -> str:
    """Return the card of the dataset under the header that Hugging Face reads."""
    card = card_of(dataset.folder) or f"# {dataset.manifest.name}\n"
    return (
        "\n".join(_header(dataset, splits))
        + f"""
> Written by `hindcast export --to huggingface` from the Hindcast dataset with the recipe digest
> `{dataset.manifest.digest}`. `load_dataset(PATH)` loads the decisions from `data/`, including
> closing rows, whose `choice` is null; `load_dataset(PATH, "episodes")` loads the episodes from
> `episodes/`. The card below describes the original dataset. This folder lacks its manifest and
> workload, and has `episodes/SPLIT-*.parquet` in place of its `episodes.parquet` with the split
> `all_splits`.

"""
        + without_header(card)
    )


def without_header(text: str) -> str:
    """Return Markdown without the YAML header that it may begin with."""
    if text.startswith("---\n"):
        _header_lines, end, body = text[4:].partition("\n---\n")
        if end:
            return body.lstrip("\n")
    return text


def _header(dataset: Dataset, splits: Sequence[str]) -> list[str]:
    rows = dataset.manifest.counts["rows"]
    trace_terms = terms(dataset.manifest)
    licence = [f"license: {trace_terms.identifier}"]
    if trace_terms.identifier == "other":
        name = f"{dataset.manifest.provenance['format']}-trace-terms"
        licence += [f"license_name: {quoted(name)}", f"license_link: {quoted(trace_terms.url)}"]
    configs = {"decisions": "data", "episodes": "episodes"}
    lines = [
        "---",
        *licence,
        f"pretty_name: {quoted(dataset.manifest.name)}",
        "task_categories:",
        "- reinforcement-learning",
        "tags:",
        *(f"- {tag}" for tag in ("offline-rl", "scheduling", "hindcast", dataset.spec.scenario)),
        "size_categories:",
        f"- {size_category(rows)}",
        "configs:",
    ]
    for name, folder in configs.items():
        lines += config_lines(name, dataset.manifest)
        lines += ["  default: true"] if name == "decisions" else []
        lines.append("  data_files:")
        for split in splits:
            lines += [f"  - split: {split}", f"    path: {folder}/{split}-*.parquet"]
    return [*lines, "---", ""]
