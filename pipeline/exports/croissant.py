"""`croissant`: metadata of Croissant 1.1 for the Parquet files of a dataset, as JSON-LD.

Every built dataset has a croissant.json. The exported folder holds only the files that it
describes, so that they can be published on their own:

    croissant.json   README.md   episodes.parquet   data/part-NNNNN.parquet

Every file is a FileObject with its SHA-256 and size; a FileSet joins the parts. There are two
record sets:

    episodes    from episodes.parquet
    decisions   from the parts: context and reward_terms are fields with sub-fields, candidates a
                repeated one, other lists are arrays of one dimension

    import mlcroissant
    dataset = mlcroissant.Dataset("OUT/croissant.json")
    for record in dataset.records("decisions"): ...

mlcroissant compares checksums of files that a record set names one by one (episodes.parquet), but
not of files that it finds in a FileSet; `hindcast verify` compares all of them. mlcroissant holds a
whole record set in memory. Its values are named decisions/COLUMN; text is bytes; null and NaN are
None.

What is lost: the manifest and the workload: `verify` needs the dataset itself.

Source: MLCommons, "Croissant Format Specification", version 1.1.
"""

from pathlib import Path

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.documents.croissant import NAME, croissant
from hindcast.pipeline.exports import ExportResult, Progress
from hindcast.pipeline.exports._copying import card_of, copy_checked
from hindcast.pipeline.exports._target import new_folder, result
from hindcast.pipeline.storage.files import write_json


def export(dataset: Dataset, out: Path, candidates: int | None, tell: Progress) -> ExportResult:
    """Write the folder `out`; raise as `hindcast.pipeline.exports.export`."""
    del candidates
    manifest = dataset.manifest
    with new_folder(out) as temporary:
        files = (*manifest.parts, manifest.episodes)
        for done, entry in enumerate(files, start=1):
            (temporary / entry.path).parent.mkdir(parents=True, exist_ok=True)
            copy_checked(dataset.folder, entry, temporary / entry.path)
            tell(done, len(files))
        (temporary / mf.CARD).write_text(card_of(dataset.folder), encoding="utf-8", newline="")
        write_json(temporary / NAME, croissant(manifest))
    return result(out)
