"""`huggingface`: a folder that `datasets.load_dataset` reads, on this machine or on the Hub.

    README.md                                the card, with the header that names the configs
    data/SPLIT-00000-of-00003.parquet        config `decisions` (the default): the standard's
                                             columns and rows, then split, window, behaviour,
                                             discount
    episodes/SPLIT-00000-of-00001.parquet    config `episodes`: one row per episode

    from datasets import load_dataset
    train = load_dataset("OUT", split="train")                     # or streaming=True
    episodes = load_dataset("OUT", "episodes", split="train")

A part becomes a file per split, with the row groups of the part. `discount` is 0 where an episode
ended, otherwise the spec's, and null in a closing row. In `datasets`, a struct is a dict and a list
of structs a list of dicts; an image is a list of bytes.

What is lost: the manifest with its checksums, and the workload: `hindcast verify` needs the
dataset itself.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.building.part_file import part_file
from hindcast.pipeline.dataset.documents.card.coverage import row_groups
from hindcast.pipeline.dataset.documents.card.header import config_lines, size_category
from hindcast.pipeline.dataset.documents.terms import licence_lines
from hindcast.pipeline.exports import ExportResult, Progress
from hindcast.pipeline.exports._copying import card_of, check_digest
from hindcast.pipeline.exports._labels import Labels, labels_of
from hindcast.pipeline.exports._target import new_folder, result
from hindcast.pipeline.pages.markdown import quoted
from hindcast.pipeline.storage.files import table_writer

_LABELS: Final = (
    pa.field("split", pa.string()), pa.field("window", pa.int64()),
    pa.field("behaviour", pa.string()), pa.field("discount", pa.float32()),
)  # fmt: skip


def export(
    dataset: Dataset, out: Path, candidates: int | None, tell: Progress, split: str
) -> ExportResult:
    """Write the folder `out`; raise as `hindcast.pipeline.exports.export`."""
    del candidates
    labels = labels_of(dataset, split)
    with new_folder(out) as temporary:
        _write_decisions(dataset, temporary, labels, tell)
        (temporary / "episodes").mkdir()
        for name in dict.fromkeys(labels.episodes["split"]):
            write = table_writer(dataset.episodes(name), compression_level=3)
            write(temporary / "episodes" / f"{name}-00000-of-00001.parquet")
        (temporary / "README.md").write_text(_readme(dataset, labels), encoding="utf-8")
    return result(out, labels.notes)


def _write_decisions(dataset: Dataset, folder: Path, labels: Labels, tell: Progress) -> None:
    """Write the rows of every part into one file for each of its splits."""
    (folder / "data").mkdir()
    of_parts = labels.episodes.select("first_part", "split").unique(maintain_order=True)
    total = dict(of_parts["split"].value_counts().iter_rows())
    written = dict.fromkeys(total, 0)
    parts = of_parts.group_by("first_part", maintain_order=True).agg("split")
    for number, (part, splits) in enumerate(parts.iter_rows(), start=1):
        paths = {}
        for split in splits:
            name = f"{split}-{written[split]:05d}-of-{total[split]:05d}.parquet"
            paths[split] = folder / "data" / name
            written[split] += 1
        _divide(dataset, part, paths, labels)
        tell(number, parts.height)


def _divide(dataset: Dataset, part: int, paths: Mapping[str, Path], labels: Labels) -> None:
    """Write the rows of a part, with their labels, into one file per split."""
    check_digest(dataset.folder, dataset.manifest.parts[part])
    writers: dict[str, pq.ParquetWriter] = {}
    with ExitStack() as stack:
        for table in row_groups(dataset.part(part), dataset.spec):
            rows = _labelled(table, labels)
            for split, path in paths.items():
                mine = rows.filter(pc.equal(rows["split"], split))
                if not mine.num_rows:
                    continue
                if split not in writers:
                    writers[split] = part_file(path, dataset.spec, _LABELS)
                    stack.callback(writers[split].close)
                writers[split].write_table(mine.combine_chunks(), row_group_size=mine.num_rows)


def _labelled(table: pa.Table, labels: Labels) -> pa.Table:
    """Return the rows with their labels as further columns."""
    episode = table["episode"].to_numpy()
    labels.writes(episode)  # raises for an episode that is not known
    of_rows = labels.of(episode, table["terminated"].fill_null(False).to_numpy())  # noqa: FBT003 - of Arrow
    columns = {name: pa.array(values) for name, values in of_rows.items()}
    for name, names in labels.names.items():
        columns[name] = pa.array(names, pa.string()).take(columns[name])
    columns["discount"] = pc.if_else(table["choice"].is_valid(), columns["discount"], None)
    for label in _LABELS:
        table = table.append_column(label, columns[label.name])
    return table


def _readme(dataset: Dataset, labels: Labels) -> str:
    """Return the card of the dataset under the header that Hugging Face reads."""
    card = card_of(dataset.folder) or f"# {dataset.manifest.name}\n"
    notes = "".join(f"> {note[0].upper()}{note[1:]}.\n" for note in labels.notes)
    return (
        "\n".join(_header(dataset, labels))
        + f"""
> Written by `hindcast export --to huggingface` from the Hindcast dataset with the recipe digest
> `{dataset.manifest.digest}`. `load_dataset(PATH)` loads the decisions from `data/`, including
> closing rows, whose `choice` is null; `load_dataset(PATH, "episodes")` loads the episodes from
> `episodes/`. The card below describes the original dataset. This folder lacks its manifest and
> workload, and has `episodes/SPLIT-*.parquet` in place of its `episodes.parquet` with the split
> `all_splits`.
{notes}
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


def _header(dataset: Dataset, labels: Labels) -> list[str]:
    """Return the lines of YAML at the top of the card, with a config for each of two tables."""
    rows = labels.decisions + labels.episodes.height
    configs = {"decisions": "data", "episodes": "episodes"}
    lines = [
        "---",
        *licence_lines(dataset.manifest.provenance),
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
        for split in dict.fromkeys(labels.episodes["split"]):
            lines += [f"  - split: {split}", f"    path: {folder}/{split}-*.parquet"]
    return [*lines, "---", ""]
