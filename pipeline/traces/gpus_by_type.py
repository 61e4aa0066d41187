"""GPUs of jobs by type: from texts to a column for each type."""

from typing import Final

import polars as pl

_MOST_TYPES: Final = 32  # a log with more gives something else for types


def gpus_by_type(rows: pl.DataFrame, gpus: pl.Expr) -> dict[str, pl.Expr]:
    """Return the GPUs of each type that the log names, a column `gpus:TYPE` by type.

    `rows` has `gpu_types`, such as "a100:2,v100:4"; `gpus` are the GPUs of the jobs.
    """
    texts = rows["gpu_types"].drop_nulls().unique().sort()
    counts = {text: _counts_of(text) for text in texts}
    types = sorted({kind for of_text in counts.values() for kind in of_text})
    if len(types) > _MOST_TYPES:
        return {}
    named = pl.col("gpu_types").replace_strict(
        texts, [sum(counts[text].values()) for text in texts], default=0.0, return_dtype=pl.Float64
    )
    # A list that names more GPUs than the job has says nothing about the types of these.
    sound = pl.when(gpus.is_not_null() & (named <= gpus))
    return {
        f"gpus:{kind}": sound.then(
            pl.col("gpu_types").replace_strict(
                texts,
                [counts[text].get(kind, 0.0) for text in texts],
                default=0.0,
                return_dtype=pl.Float64,
            )
        ).otherwise(pl.when(gpus.is_not_null()).then(0.0))
        for kind in types
    }


def _counts_of(text: str) -> dict[str, float]:
    """Return the numbers of GPUs by type of a text such as "a100:2,v100:4"."""
    counts: dict[str, float] = {}
    for part in text.split(","):
        kind, _, number = part.rpartition(":")
        counts[kind] = counts.get(kind, 0.0) + float(number)
    return counts
