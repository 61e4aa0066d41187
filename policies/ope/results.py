"""The files of `hindcast ope`: a row per policy and estimator, and a description."""

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.manifest import versions
from hindcast.pipeline.errors import DatasetError, StorageError
from hindcast.pipeline.estimators import Estimate
from hindcast.pipeline.estimators.selection import best_of_first
from hindcast.pipeline.estimators.verdicts import BESIDE, CANNOT, Held
from hindcast.pipeline.evaluation.entrant import Entrant
from hindcast.pipeline.statistics.intervals import Interval
from hindcast.pipeline.storage import files
from hindcast.pipeline.storage.locks import writing
from hindcast.policies.ope.left_out import verdict_of

ESTIMATES: Final = "estimates.parquet"
TRIALS: Final = "trials.parquet"
DESCRIPTION: Final = "ope.json"
WORKING: Final = ".estimating"
TRUTH: Final = "truth"

SCHEMA: Final[Mapping[str, Any]] = {
    "policy": pl.String, "kind": pl.String, "group": pl.String, "logged": pl.Boolean,
    "epsilon": pl.Float64,
    "temperature": pl.Float64, "estimator": pl.String, "value": pl.Float64, "low": pl.Float64,
    "high": pl.Float64, "difference": pl.Float64, "difference_low": pl.Float64,
    "difference_high": pl.Float64, "hoeffding_low": pl.Float64, "hoeffding_high": pl.Float64,
    "bernstein_low": pl.Float64, "bernstein_high": pl.Float64, "range_low": pl.Float64,
    "range_high": pl.Float64, "range_source": pl.String, "episodes": pl.Int64,
    "windows": pl.Int64, "ess": pl.Float64, "coverage": pl.Float64, "nonzero": pl.Float64,
    "mean_weight": pl.Float64, "max_weight": pl.Float64, "largest_share": pl.Float64,
    "verdict": pl.String, "left_out": pl.Int64, "left_out_held": pl.Int64,
    "resampled_low": pl.Float64, "resampled_high": pl.Float64,
    "truth": pl.Float64, "truth_low": pl.Float64, "truth_high": pl.Float64,
    "warnings": pl.List(pl.String),
}  # fmt: skip

TRIALS_SCHEMA: Final[Mapping[str, Any]] = {
    "estimator": pl.String, "trials": pl.Int64, "policy": pl.String, "best": pl.String,
    **dict.fromkeys(("value", "low", "high", "regret"), pl.Float64),
}  # fmt: skip


_INTERVALS: Final = tuple(
    f"{name}_{end}" for name in ("difference", "hoeffding", "bernstein") for end in ("low", "high")
)
_VALUES: Final = ("value", "difference", "resampled_low", "resampled_high")


def rows_of(
    candidate: Entrant, estimates: Mapping[str, Estimate], held: Mapping[str, Held],
    truth: Interval | None, *, logged: bool, refusal: str = "",
) -> pl.DataFrame:  # fmt: skip
    """Return one row per estimator; null where a number is not known.

    An estimate that is beside the answers or cannot answer has no interval, but for resampled_low
    and resampled_high, which are the percentiles whatever the verdict.

    Args:
        candidate: The policy.
        estimates: Its estimates by estimator.
        held: How often intervals held on policies that were left out, by estimator.
        truth: Its true return; None if it is not known.
        logged: True if the policy is one of the log's behaviours.
        refusal: Why the log has no answer for the policy; "" if it may have one.
    """
    behaviour, simulated = candidate.behaviour, truth or Interval(math.nan, math.nan, math.nan)
    rows = []
    for name, e in estimates.items():
        row: dict[str, Any] = {
            "policy": behaviour.name, "kind": candidate.kind, "group": candidate.group,
            "logged": logged,
            "epsilon": behaviour.epsilon, "temperature": behaviour.temperature,
            "estimator": name, "value": e.value, "low": e.bootstrap[0], "high": e.bootstrap[1],
            "difference": e.difference, "difference_low": e.difference_bootstrap[0],
            "difference_high": e.difference_bootstrap[1],
            "hoeffding_low": e.hoeffding.low, "hoeffding_high": e.hoeffding.high,
            "bernstein_low": e.bernstein.low, "bernstein_high": e.bernstein.high,
            "range_low": e.hoeffding.range[0], "range_high": e.hoeffding.range[1],
            "range_source": e.hoeffding.source, "episodes": e.episodes, "windows": e.units,
            "ess": e.ess, "coverage": e.coverage, "nonzero": e.nonzero,
            "mean_weight": e.mean_weight, "max_weight": e.max_weight,
            "largest_share": e.largest_share, "verdict": verdict_of(e, held[name]),
            "left_out": held[name].policies, "left_out_held": held[name].held,
            "resampled_low": e.bootstrap[0], "resampled_high": e.bootstrap[1],
            "truth": simulated.value, "truth_low": simulated.low, "truth_high": simulated.high,
            "warnings": list(e.warnings),
        }  # fmt: skip
        if refusal or row["verdict"] in (BESIDE, CANNOT):
            row |= dict.fromkeys(("low", "high", *_INTERVALS))
        if refusal:
            row |= dict.fromkeys(_VALUES) | {"verdict": CANNOT, "warnings": [refusal]}
        rows.append({k: _known(v) for k, v in row.items()})
    return pl.DataFrame(rows, schema=dict(SCHEMA))


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


@dataclass(frozen=True)
class Folder:
    """The folder of one call; without --out a temporary one, which is removed."""

    path: Path

    @staticmethod
    @contextmanager
    def open(
        out: Path | None, dataset: Dataset, settings: Any, policies: Sequence[Entrant]
    ) -> Iterator["Folder"]:
        """Open the folder for writing.

        Raises StorageError if the folder holds other files, and DatasetError if it holds an
        unfinished call with another dataset or other settings.
        """
        names = [p.behaviour.name for p in policies]
        if out is not None and len(set(names)) < len(names):
            raise DatasetError(f"two policies have the same name: {sorted(names)}")
        with ExitStack() as stack:
            if out is None:
                temporary = tempfile.TemporaryDirectory(prefix="hindcast-ope-")
                out = Path(stack.enter_context(temporary))
            stack.enter_context(writing(out))
            folder = Folder(out)
            folder._begin(dataset, settings)
            yield folder

    @property
    def truth(self) -> Path:
        """Folder of the simulator's evaluation."""
        return self.path / TRUTH

    def _begin(self, dataset: Dataset, settings: Any) -> None:
        """Claim the folder for a dataset and settings, or go on with an interrupted call of them.

        Raises as `open` does.
        """
        names = {ESTIMATES, TRIALS, DESCRIPTION, WORKING, TRUTH}
        if self.path.exists() and not self.path.is_dir():
            raise StorageError(f"{self.path} is a file, expected a folder")
        present = sorted(p.name for p in self.path.iterdir()) if self.path.is_dir() else []
        if foreign := [name for name in present if name not in names and not name.startswith(".")]:
            raise StorageError(
                f"{self.path} holds {foreign[0]!r}, which no off-policy evaluation wrote; choose "
                "another folder"
            )
        claim = {
            "digest": dataset.manifest.digest,
            "settings": {k: v for k, v in asdict(settings).items() if k != "estimators"},
            "estimators": list(settings.estimators),
            "versions": versions(),
        }
        plan = files.make_folder(self.path / WORKING) / "plan.json"
        files.remove_partials(self.path)
        files.remove_partials(plan.parent)
        if plan.exists() and files.read_json(plan) != claim:
            raise DatasetError(
                f"{self.path} holds an unfinished call with another dataset or other settings; "
                "delete it or choose another --out"
            )
        files.write_json(plan, claim)

    def _file(self, candidate: Entrant) -> Path:
        b = candidate.behaviour
        identity = f"{b.name}|{b.epsilon}|{b.temperature}|{candidate.digest}"
        return self.path / WORKING / f"{files.sha256_text(identity)[:16]}.parquet"

    def finished(self, candidate: Entrant) -> pl.DataFrame | None:
        """Return the rows of a policy that an earlier call finished, or None."""
        path = self._file(candidate)
        return files.read_parquet(path) if path.exists() else None

    def keep(self, candidate: Entrant, rows: pl.DataFrame) -> None:
        """Write the rows of a finished policy."""
        files.write_atomically(self._file(candidate), files.table_writer(rows))

    def finish(self, rows: pl.DataFrame, description: Mapping[str, Any]) -> None:
        """Write all rows and the description, and remove the rows of single policies."""
        files.write_atomically(self.path / ESTIMATES, files.table_writer(rows))
        files.write_atomically(self.path / TRIALS, files.table_writer(trials_of(rows)))
        files.write_json(self.path / DESCRIPTION, dict(description))
        files.remove_folder(self.path / WORKING)


def trials_of(rows: pl.DataFrame) -> pl.DataFrame:
    """Return what is found by trying the first k policies of each estimator in the simulator.

    A row per estimator and k: the k-th policy, the best of the first k by its true return, that
    return with its interval, and the gap to the best of all. No row without truths.
    """
    found: list[dict[str, Any]] = []
    known = rows.filter(pl.col("truth").is_not_null())
    for (name,), table in known.group_by("estimator", maintain_order=True):
        truth, policies = table["truth"].to_numpy(), table["policy"].to_list()
        order, best = best_of_first(table["value"].fill_null(-math.inf).to_numpy(), truth)
        pairs = zip(order.tolist(), best.tolist(), strict=True)
        found += [{
            "estimator": name, "trials": k, "policy": policies[tried], "best": policies[at],
            "value": truth[at], "low": table["truth_low"][at], "high": table["truth_high"][at],
            "regret": truth.max() - truth[at],
        } for k, (tried, at) in enumerate(pairs, start=1)]  # fmt: skip
    return pl.DataFrame(found, schema=TRIALS_SCHEMA)


def finite(value: Any) -> Any:
    """Return the value with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
