"""Writing a part: each log becomes a row group of one Parquet file."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hindcast.pipeline.dataset.building import recorder
from hindcast.pipeline.dataset.building.part_file import part_file
from hindcast.pipeline.dataset.building.recorder import Log
from hindcast.pipeline.dataset.columns import NO_CHOICE, part_schema
from hindcast.pipeline.simulation.kernel import TERMINATED, TRUNCATED
from hindcast.pipeline.simulation.spec import Spec


class PartWriter:
    """Writer of logs as row groups of one Parquet file."""

    def __init__(self, path: Path, spec: Spec) -> None:
        self._spec = spec
        self._schema = part_schema(spec)
        self._writer = part_file(path, spec)
        self.rows = 0

    def write(self, log: Log) -> None:
        """Write one row group of all rows of the log."""
        table = _to_arrow(log, self._spec, self._schema)
        self._writer.write_table(table, row_group_size=max(1, log.rows))
        self.rows += log.rows

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


def _to_arrow(log: Log, spec: Spec, schema: pa.Schema) -> pa.Table:
    """Return the recorded rows of a log as a table with the schema of a part."""
    n = log.rows
    offsets = log.labels[recorder.L_OFFSET, : n + 1].astype(np.int32)
    v = int(offsets[-1])
    closing = log.labels[recorder.L_CHOICE, :n] == NO_CHOICE

    def lists(values: pa.Array) -> pa.Array:
        return pa.ListArray.from_arrays(pa.array(offsets), values)

    def decided(values: NDArray[Any], kind: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, type=kind, mask=closing)

    columns = {
        "episode": pa.array(log.labels[recorder.L_EPISODE, :n]),
        "step": pa.array(log.labels[recorder.L_STEP, :n].astype(np.int32)),
        "time_s": pa.array(log.numbers[recorder.N_TIME, :n]),
        "context": pa.StructArray.from_arrays(
            [pa.array(log.context[c, :n]) for c in range(len(spec.context))],
            names=[f.name for f in spec.context],
        ),
        "candidates": lists(
            pa.StructArray.from_arrays(
                [pa.array(log.candidates[f, :v]) for f in range(len(spec.candidates))],
                names=[f.name for f in spec.candidates],
            )
        ),
        "feasible": lists(pa.array(log.feasible[:v])),
        "choice": decided(log.labels[recorder.L_CHOICE, :n].astype(np.int32)),
        "propensity": decided(log.propensity[:n]),
        "behaviour_probabilities": pa.ListArray.from_arrays(
            pa.array(offsets), pa.array(log.probabilities[:v]), mask=pa.array(closing)
        ),
        "reward": decided(log.numbers[recorder.N_REWARD, :n]),
        "reward_terms": pa.StructArray.from_arrays(
            [
                pa.array(log.numbers[recorder.N_TERMS + k, :n])
                for k in range(len(spec.reward_terms))
            ],
            names=list(spec.reward_terms),
            mask=pa.array(closing),
        ),
        "elapsed_s": decided(log.numbers[recorder.N_ELAPSED, :n]),
        "terminated": decided(log.labels[recorder.L_STATUS, :n] == TERMINATED),
        "truncated": decided(log.labels[recorder.L_STATUS, :n] == TRUNCATED),
    }
    if spec.valued:
        columns["monte_carlo_value"] = decided(log.values[:n])
    if spec.image_shape:
        pixels = log.image.shape[1]
        flat = pa.array(log.image[:n].reshape(-1))
        columns["image"] = pa.FixedSizeListArray.from_arrays(flat, pixels)
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
