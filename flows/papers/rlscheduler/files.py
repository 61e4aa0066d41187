"""Files of the stages of RLScheduler: scores, the table of calibrate, training curves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.flows.papers.cells import pairing
from hindcast.flows.papers.published import published
from hindcast.flows.papers.rlscheduler.commands import LOGS, evaluation_of, seeds_of
from hindcast.flows.papers.rlscheduler.published_tables import PAPER, SETTINGS, TRACES
from hindcast.flows.protocols import Setting
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.evaluation.summary.pairing import Pairing
from hindcast.pipeline.storage.files import read_parquet

AGENT: Final = "ppo-best"
ONLINE: Final = "evolution-best"
OFFLINE: Final = "trajectory_preference"
PAPER_AGENT: Final = "paper_agent"
HEADLINE: Final = "average_bounded_slowdown"
VALIDATION: Final = f"validation_{HEADLINE}"
_CSV: Final = ("setting", "policy", "metric", "ours", "standard_error", "paper")


@dataclass(frozen=True)
class Measured:
    """Results that the stages wrote.

    Attributes:
        calibrated: Table of `hindcast calibrate rlscheduler`.
        sequences: Bounded slowdowns on the ten sequences, by setting of the tables.
        used: Utilisation on the ten sequences.
        unseen: Bounded slowdowns on the unseen windows.
        curves: Validation of each log's agent: step, seed, value.
        printed: Published numbers.
        seeds: Number of training seeds.
    """

    calibrated: pl.DataFrame
    sequences: Mapping[str, Pairing]
    used: Mapping[str, Pairing]
    unseen: Mapping[str, Pairing]
    curves: Mapping[str, pl.DataFrame]
    printed: pl.DataFrame
    seeds: int


def read(place: Path, setting: Setting) -> Measured:
    """Read the files of the stages below `place`.

    Raises DatasetError or InputError if one is missing or is not valid.
    """
    folders = {
        kind: {
            name: place / evaluation_of(trace, kind, backfill=backfill)
            for (trace, backfill), name in SETTINGS.items()
        }
        for kind in ("sequences", "unseen")
    }
    return Measured(
        calibrated=read_calibration(place / "tables.csv"),
        sequences={name: pairing(at, HEADLINE) for name, at in folders["sequences"].items()},
        used={name: pairing(at, "utilisation") for name, at in folders["sequences"].items()},
        unseen={name: pairing(at, HEADLINE) for name, at in folders["unseen"].items()},
        curves={
            TRACES[trace]: read_curves(place / folder, seeds_of(setting))
            for trace, (folder, _) in LOGS.items()
        },
        printed=published(PAPER),
        seeds=len(seeds_of(setting)),
    )


def read_calibration(path: Path) -> pl.DataFrame:
    """Return the table that `hindcast calibrate rlscheduler --out` wrote.

    Raises InputError if the file is missing, lacks a column or has text for a number.
    """
    if not path.is_file():
        raise InputError(
            f"{path}: there is no such file; `hindcast calibrate rlscheduler --out` writes it"
        )
    try:
        table = pl.read_csv(path, infer_schema=False)
        lacking = [name for name in _CSV if name not in table.columns]
        if lacking:
            raise InputError(f"{path}: there is no column {lacking[0]!r}, expected {_CSV}")
        return table.select(_CSV).with_columns(pl.col(_CSV[3:]).cast(pl.Float64))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path}: expected the table of calibrate ({error})") from error


def read_curves(folder: Path, seeds: Sequence[int]) -> pl.DataFrame:
    """Return the validation curve of the agent of a log: step, seed and value."""
    parts = [
        read_parquet(folder / f"ppo-seed{seed}" / "metrics.parquet")
        .filter(metric=VALIDATION)
        .select("step", pl.lit(seed).alias("seed"), "value")
        for seed in seeds
    ]
    return pl.concat(parts).sort("step", "seed")
