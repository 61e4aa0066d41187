"""Transitions of flat vectors, for D4RL: padded rows joined with the next observation.

    rows          o0 o1 o2 | o3 o4 ... oT     two pieces; oT is the closing row
    transitions   (o0, o1) (o1, o2)           and, with the next piece, (o2, o3) ...

An observation is one vector: the context, then the K candidates one after the other. If candidates
are cut, the remaining set is drawn once per row, so that the next observation of a decision is
the observation of the decision after it.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.exports import Progress
from hindcast.pipeline.exports._labels import Labels
from hindcast.pipeline.exports._padding import Rows, padded
from hindcast.pipeline.simulation.spec import Spec

_PLAIN: Final = (
    "episode", "step", "time_s", "propensity", "reward", "terms", "elapsed_s", "terminated",
    "truncated",
)  # fmt: skip


def transitions(
    dataset: Dataset, k: int, labels: Labels, tell: Progress
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the decisions of all written episodes, in order, some at a time.

    Columns are observation (D, C + K * F) float32, mask (D, K) bool, probabilities (D, K) float32,
    choice (D,) int64, `next_observation`, `next_mask` (all False once terminated), the columns
    episode, step, time_s, propensity, reward, terms (D, T), elapsed_s, terminated, truncated, and
    value, image and next_image if the dataset has them.
    """
    pending: dict[str, NDArray[Any]] | None = None  # a last row that waits for the next one
    for rows in padded(dataset, k, labels, tell):
        columns = _flat(rows, dataset.spec)
        if pending is not None:
            columns = {n: np.concatenate([pending[n], values]) for n, values in columns.items()}
        last = len(columns["choice"]) - 1
        pending = None
        if columns["choice"][last] != NO_CHOICE:
            pending = {name: values[last:] for name, values in columns.items()}
        decisions = np.flatnonzero(columns["choice"][:last] != NO_CHOICE)
        if len(decisions):
            yield _joined(columns, decisions)


def _flat(rows: Rows, spec: Spec) -> dict[str, NDArray[Any]]:
    count = len(rows.choice)
    columns = {name: rows.of(name) for name in _PLAIN}
    columns["observation"] = np.concatenate(
        [rows.of("context"), rows.candidates.reshape(count, -1)], axis=1
    ).astype(np.float32, copy=False)
    columns["mask"], columns["choice"] = rows.mask, rows.choice
    columns["probabilities"] = rows.probabilities
    if spec.valued:
        columns["value"] = rows.of("value")
    if spec.image_shape:
        columns["image"] = rows.of("image").reshape(count, *spec.image_shape)
    return columns


def _joined(columns: dict[str, NDArray[Any]], rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    current = {name: values[rows] for name, values in columns.items()}
    after = {
        f"next_{n}": columns[n][rows + 1] for n in ("observation", "mask", "image") if n in columns
    }
    after["next_mask"][current["terminated"]] = False
    return {**current, **after}
