"""`csv`: three tables for spreadsheets and pandas, joined by `episode` and `step`.

    episodes.csv     one row per episode, as episodes.parquet
    decisions.csv    one row per decision and closing row: times, choice, propensity, reward, ends,
                     number of candidates, split, window, behaviour, discount (0 where the episode
                     ended, otherwise the spec's), reward_terms.NAME, context.NAME
    candidates.csv   one row per candidate: episode, step, candidate (0, 1, ...), feasible, chosen,
                     probability, candidates.NAME

The features of the chosen candidate are in the rows of candidates.csv with a true `chosen`. Numbers
are written with the fewest digits that identify them, so reading them into the types of the dataset
gives the same bits. A null of the dataset is an empty cell; NaN is written as NaN.

What is lost: images; types of columns; in readers that treat both as missing, NaN apart from null.
`behaviour_parameters` are one cell, separated by spaces.
"""

from pathlib import Path
from typing import IO

import numpy as np
import polars as pl

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.dataset.part import Block
from hindcast.pipeline.exports import ExportResult, Progress
from hindcast.pipeline.exports._labels import Labels, labels_of
from hindcast.pipeline.exports._target import new_folder, result
from hindcast.pipeline.simulation.spec import Spec


def export(
    dataset: Dataset, out: Path, candidates: int | None, tell: Progress, split: str
) -> ExportResult:
    """Write the folder `out`; raise as `hindcast.pipeline.exports.export`."""
    del candidates
    spec, parts, labels = dataset.spec, len(dataset.manifest.parts), labels_of(dataset, split)
    with new_folder(out) as temporary:
        episodes = labels.episodes.with_columns(
            pl.col("behaviour_parameters").list.eval(pl.element().cast(pl.String)).list.join(" ")
        )
        episodes.write_csv(temporary / "episodes.csv")
        with (
            (temporary / "decisions.csv").open("wb") as decisions,
            (temporary / "candidates.csv").open("wb") as rows,
        ):
            for part in range(parts):
                for block in dataset.blocks(part):
                    written = pl.Series(labels.writes(block.episode))
                    listed = pl.Series(np.repeat(written, np.diff(block.offsets)))
                    _append(decisions, decision_table(block, spec, labels).filter(written))
                    _append(rows, candidate_table(block, spec).filter(listed))
                tell(part + 1, parts)
    images = ("the tables hold no images",) if spec.image_shape else ()
    return result(out, (*images, *labels.notes))


def _append(handle: IO[bytes], table: pl.DataFrame) -> None:
    table.write_csv(handle, include_header=handle.tell() == 0)


def decision_table(block: Block, spec: Spec, labels: Labels) -> pl.DataFrame:
    """Return rows of decisions.csv."""
    of_rows = labels.of(block.episode, block.terminated)
    texts = {name: np.array(known)[of_rows[name]] for name, known in labels.names.items()}
    closing = pl.Series(block.choice == NO_CHOICE)
    names = [("context", f.name, i) for i, f in enumerate(spec.context)]
    columns = {f"{kind}.{name}": block.context[:, i] for kind, name, i in names}
    terms = {f"reward_terms.{name}": block.terms[:, i] for i, name in enumerate(spec.reward_terms)}
    value = {} if block.value is None else {"monte_carlo_value": block.value}
    decided = {
        "choice": block.choice,
        "propensity": block.propensity,
        **value,
        "reward": block.reward,
        "elapsed_s": block.elapsed_s,
        "terminated": block.terminated,
        "truncated": block.truncated,
        "discount": of_rows.pop("discount"),
        **terms,
    }
    table = pl.DataFrame(
        {
            "episode": block.episode,
            "step": block.step,
            "time_s": block.time_s,
            "candidates": np.diff(block.offsets),
            **of_rows,
            **texts,
            **decided,
            **columns,
        }
    )
    return table.with_columns(pl.when(~closing).then(pl.col(name)).alias(name) for name in decided)


def candidate_table(block: Block, spec: Spec) -> pl.DataFrame:
    """Return rows of candidates.csv."""
    sizes = np.diff(block.offsets)
    first = np.repeat(block.offsets[:-1], sizes)
    index = np.arange(len(first)) - first
    features = {f"candidates.{f.name}": i for i, f in enumerate(spec.candidates)}
    table = pl.DataFrame(
        {
            "episode": np.repeat(block.episode, sizes),
            "step": np.repeat(block.step, sizes),
            "candidate": index,
            "feasible": block.feasible,
            "chosen": index == np.repeat(block.choice, sizes),
            "probability": block.probabilities,
            **{name: block.candidates[:, i] for name, i in features.items()},
        }
    )
    closing = pl.Series(np.repeat(block.choice == NO_CHOICE, sizes))
    hidden = ("chosen", "probability")
    return table.with_columns(pl.when(~closing).then(pl.col(name)).alias(name) for name in hidden)
