"""`history`: a dataset of `thermal` in the JSON of the 2018 report, see module `exporting`.

The file holds information that an agent could have: states before the placement, and rewards of
the recipe.

What is lost: propensities, reward terms, how episodes ended, the calendar's columns. Episodes
follow one another; at the end of an episode, NEXT_STATE is not the STATE of the next record.
"""

from collections.abc import Iterator
from pathlib import Path

from hindcast.flows.papers.thermal_report.history.exporting import to_history
from hindcast.flows.papers.thermal_report.history.records import write_records
from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.dataset.part import Block
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.exports import ExportResult, Progress
from hindcast.pipeline.exports._target import new_file, result


def export(dataset: Dataset, out: Path, candidates: int | None, tell: Progress) -> ExportResult:
    """Write the file `out`; raise as `pipeline.exports.export`, InputError for other scenarios."""
    del candidates
    if dataset.spec.scenario != "thermal":
        raise InputError(
            f"{dataset.folder}: a dataset of {dataset.spec.scenario} cannot be written as a "
            "history file, which has the six servers of thermal; use --to csv"
        )
    with new_file(out) as temporary:
        write_records(temporary, (to_history(blocks) for blocks in _episodes(dataset, tell)))
    return result(out)


def _episodes(dataset: Dataset, tell: Progress) -> Iterator[list[Block]]:
    """Yield blocks that together end with an episode's closing row; usually one block."""
    parts = len(dataset.manifest.parts)
    waiting: list[Block] = []
    for part in range(parts):
        for block in dataset.blocks(part):
            waiting.append(block)
            if len(block) and block.choice[-1] == NO_CHOICE:
                yield waiting
                waiting = []
        tell(part + 1, parts)
