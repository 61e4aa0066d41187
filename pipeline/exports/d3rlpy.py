"""`d3rlpy`: a folder of .npy arrays, one row per decision, ready for an MDPDataset.

    observations.npy        (N, C + K * F + K) float32: context | K candidates in a row | mask
    actions.npy             (N,) int64, index of the chosen candidate
    rewards.npy             (N,) float32
    terminals.npy           (N,) float32, 1 if the episode ended with this decision
    timeouts.npy            (N,) float32, 1 if the episode was cut off there
    propensity.npy          (N,) float32
    probabilities.npy       (N, K) float32, of the behaviour
    elapsed_s.npy           (N,) float64
    episode.npy             (N,) int64, number of the episode in the dataset
    split.npy, behaviour.npy  (N,) text
    window.npy              (N,) int64
    discount.npy            (N,) float32, 0 where the episode ended, otherwise the spec's
    last_observations.npy   (E, C + K * F + K) float32, after each episode's last decision
    images.npy, last_images.npy   uint8, if the scenario has images
    shape.json              C, K, F, the columns of an observation, cut candidates, terms
    README.md               code that loads the arrays

The mask is a part of the observation, since d3rlpy has no other place for it. Arrays can be mapped
into memory (`mmap_mode="r"`) and hold no objects, so nothing is unpickled.
`hindcast.policies.offline.d3rlpy_replay_buffer` reads the folder. The next observation of row t is
row t + 1, or the episode's last observation. MDPDataset has no place for last observations, so its
buffers drop the last decision of an episode that was cut off; mini-batches of
`hindcast.policies.offline.d3rlpy_replay_buffer` keep it.

d3rlpy takes all rows of an array, so the arrays hold the train split unless another is asked for.

What is lost: lists of different lengths (padded to K), columns by name, outcomes, reward terms;
rewards are float32, as d3rlpy's networks have them.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.dataset.documents.terms import terms
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.exports import ExportResult, Progress
from hindcast.pipeline.exports._labels import Labels, labels_of
from hindcast.pipeline.exports._padding import Padding, Rows, choose_padding, described, padded
from hindcast.pipeline.exports._target import new_folder, result
from hindcast.pipeline.scenarios.decisions import NAME
from hindcast.pipeline.storage.files import json_text

SHAPE: Final = "shape.json"


def export(
    dataset: Dataset, out: Path, candidates: int | None, tell: Progress, split: str
) -> ExportResult:
    """Write the folder `out`; raise as `hindcast.pipeline.exports.export`."""
    labels = labels_of(dataset, split)
    with new_folder(out) as temporary:
        padding = choose_padding(dataset, candidates, labels)
        arrays = dict[str, _Array]()
        with ExitStack() as stack:
            for rows in padded(dataset, padding.k, labels, tell):
                for name, values in _columns(rows, dataset, labels).items():
                    if name not in arrays:
                        last = name.startswith("last_")
                        count = labels.episodes.height if last else labels.decisions
                        shape = (count, *values.shape[1:])
                        arrays[name] = _Array(temporary / f"{name}.npy", shape, values.dtype)
                        stack.callback(arrays[name].close)
                    arrays[name].write(values)
        if not all(array.whole for array in arrays.values()):
            raise DatasetError(
                f"{dataset.folder}: the parts and the manifest have different row counts"
            )
        shape_text = json_text(_shape(dataset, padding, labels))
        (temporary / SHAPE).write_text(shape_text, encoding="utf-8")
        readme = _readme(dataset, padding, labels)
        (temporary / "README.md").write_text(readme, encoding="utf-8")
    return result(out, (*padding.notes, *labels.notes))


def _columns(rows: Rows, dataset: Dataset, labels: Labels) -> dict[str, NDArray[Any]]:
    count = len(rows.choice)
    closing = rows.choice == NO_CHOICE
    decided = ~closing
    mask = rows.mask.astype(np.float32)
    flat = np.concatenate([rows.of("context"), rows.candidates.reshape(count, -1), mask], axis=1)
    columns = {
        "observations": flat[decided],
        "last_observations": flat[closing],
        "actions": rows.choice[decided],
        "rewards": rows.of("reward")[decided].astype(np.float32),
        "terminals": rows.of("terminated")[decided].astype(np.float32),
        "timeouts": rows.of("truncated")[decided].astype(np.float32),
        "propensity": rows.of("propensity")[decided],
        "probabilities": rows.probabilities[decided],
        "elapsed_s": rows.of("elapsed_s")[decided],
        "episode": rows.of("episode")[decided],
    }
    for name, values in labels.of(columns["episode"], rows.of("terminated")[decided]).items():
        columns[name] = np.array(labels.names[name])[values] if name in labels.names else values
    if dataset.spec.image_shape:
        image = rows.of("image").reshape(count, *dataset.spec.image_shape)
        columns |= {"images": image[decided], "last_images": image[closing]}
    return columns


class _Array:
    """File of a .npy array of known length that is written some rows at a time."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._rows = shape[0]
        self._handle: BinaryIO = path.open("wb")
        descr = np.lib.format.dtype_to_descr(dtype)
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._handle, header)

    def write(self, values: NDArray[Any]) -> None:
        self._handle.write(np.ascontiguousarray(values).data)
        self._rows -= len(values)

    def close(self) -> None:
        self._handle.close()

    @property
    def whole(self) -> bool:
        return self._rows == 0


def _shape(dataset: Dataset, padding: Padding, labels: Labels) -> dict[str, Any]:
    spec = dataset.spec
    return {
        **described(dataset, padding, labels),
        "context_features": [f.name for f in spec.context],
        "candidate_features": [f.name for f in spec.candidates],
        "image_shape": list(spec.image_shape),
    }


def _readme(dataset: Dataset, padding: Padding, labels: Labels) -> str:
    """Return the README.md of an export."""
    notes = "\n".join(f"- {note}" for note in (*padding.notes, *labels.notes))
    digest = dataset.manifest.digest
    made = "" if dataset.spec.scenario == NAME else " of cluster job schedulers"
    return f"""# {dataset.manifest.name} for d3rlpy

Logged decisions{made}, for offline reinforcement learning with d3rlpy:
{labels.decisions:,} decisions in {labels.episodes.height:,} episodes of the Hindcast scenario
`{dataset.spec.scenario}`, of the split {labels.split}. {dataset.recipe.description.rstrip(".")}.

Written by `hindcast export --to d3rlpy` from the dataset with the recipe digest `{digest}`.
The card of that dataset states its origin and its limits; returns hold for its workload only.

```python
import numpy as np
from d3rlpy import ActionSpace
from d3rlpy.dataset import MDPDataset
names = ("observations", "actions", "rewards", "terminals", "timeouts")
arrays = [np.load(f"{{name}}.npy") for name in names]
dataset = MDPDataset(*arrays, action_space=ActionSpace.DISCRETE, action_size={padding.k})
```

With Hindcast installed, observations come as `[context, candidates, mask]`, and decisions at which
an episode was cut off keep their next observation:

```python
from hindcast.policies.offline.d3rlpy_replay_buffer import mini_batches, replay_buffer
buffer = replay_buffer(".")
batch = next(mini_batches(".", 256, np.random.default_rng(0)))
```

{notes}

d3rlpy applies no mask: its algorithms take the maximum over infeasible and padded candidates too.
`shape.json` names the columns of an observation.

Terms: {terms(dataset.manifest).licence}
"""
