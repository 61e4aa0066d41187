"""`d4rl`: one HDF5 file of transitions, under the names that D4RL's readers expect.

    observations, next_observations   (N, C + K * F) float32: context, then K candidates in a row
    actions                           (N,) int64, index of the chosen candidate
    rewards                           (N,) float64
    terminals, timeouts               (N,) bool: the episode ended here; it was cut off here
    infos/action_mask                 (N, K) bool, feasible and not padding
    infos/next_action_mask            (N, K) bool; all False after the end of an episode
    infos/behaviour_prob              (N, K) float32, probability of every candidate
    infos/propensity                  (N,) float32, probability of the chosen candidate
    infos/episode, step, time_s, elapsed_s, reward_terms/NAME, and monte_carlo_value
    infos/split, behaviour            (N,) text, as bytes: infos/split[:] == b"train"
    infos/window                      (N,) int64
    infos/discount                    (N,) float32, 0 after an end, otherwise the spec's
    images, next_images               (N, *shape) uint8, if the scenario has images

D4RL's own readers drop the last transition of an episode that was cut off, since their files lack
its next observation; this file has it. Files are compressed (gzip), as D4RL's are.

Attributes of the file hold K, the number of cut decisions, the licence, the citation and the digest
of the recipe. Readers of D4RL take all transitions of a file, so it holds the train split unless
another is asked for. The string `metadata/observation` has the names and units of the columns of an
observation, as JSON. The arrays of the group `episodes` have one row per written episode: split,
behaviour, seed, window, return.

What is lost: lists of different lengths (padded to K), and the outcomes of episodes.

Source of the layout: Fu et al., "D4RL: Datasets for Deep Data-Driven Reinforcement Learning", 2020.
"""

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.documents.terms import terms
from hindcast.pipeline.exports import ExportResult, Progress
from hindcast.pipeline.exports._hdf5 import append, load_h5py, new_hdf5
from hindcast.pipeline.exports._labels import Labels, labels_of
from hindcast.pipeline.exports._padding import choose_padding, described
from hindcast.pipeline.exports._target import new_file, result
from hindcast.pipeline.exports._transitions import transitions
from hindcast.pipeline.simulation.spec import Spec

_NAMES: Final = {
    "observation": "observations",
    "choice": "actions",
    "reward": "rewards",
    "terminated": "terminals",
    "truncated": "timeouts",
    "next_observation": "next_observations",
    "image": "images",
    "next_image": "next_images",
    "mask": "infos/action_mask",
    "next_mask": "infos/next_action_mask",
    "probabilities": "infos/behaviour_prob",
    "value": "infos/monte_carlo_value",
}
_EPISODES: Final = ("episode", "split", "behaviour", "seed", "window", "steps", "return")
_FILTERS: Final = {"compression": "gzip", "compression_opts": 4, "shuffle": True}


def export(
    dataset: Dataset, out: Path, candidates: int | None, tell: Progress, split: str
) -> ExportResult:
    """Write the file `out`; raise as `hindcast.pipeline.exports.export`."""
    h5py = load_h5py()
    labels = labels_of(dataset, split)
    with new_file(out) as temporary:
        padding = choose_padding(dataset, candidates, labels)
        with new_hdf5(temporary) as (file, check):
            spec, url = dataset.spec, terms(dataset.manifest).url
            file.attrs.update({
                **described(dataset, padding, labels), "url": url,
                "candidate_features": len(spec.candidates), "context_features": len(spec.context),
            })  # fmt: skip
            features = json.dumps(_features(dataset.spec))  # may be too long for an attribute
            file.create_dataset("metadata/observation", data=features, dtype=h5py.string_dtype())
            for columns in transitions(dataset, padding.k, labels, tell):
                _write(file, columns, dataset.spec.reward_terms)
                _label(file, columns, labels)
                check()
            for name in _EPISODES:
                values = labels.episodes[name].to_list()
                kind = h5py.string_dtype() if isinstance(values[0], str) else None
                file.create_dataset(f"episodes/{name}", data=values, dtype=kind)
    return result(out, (*padding.notes, *labels.notes))


def _write(file: Any, columns: dict[str, NDArray[Any]], terms_of: tuple[str, ...]) -> None:
    for name, values in columns.items():
        if name == "terms":
            for column, term in enumerate(terms_of):
                append(file, f"infos/reward_terms/{term}", values[:, column], **_FILTERS)
        else:
            append(file, _NAMES.get(name, f"infos/{name}"), np.asarray(values), **_FILTERS)


def _label(file: Any, columns: dict[str, NDArray[Any]], labels: Labels) -> None:
    """Append the labels of decisions; names are texts of one length, which compress well."""
    for name, values in labels.of(columns["episode"], columns["terminated"]).items():
        names = labels.names.get(name)
        written = values if names is None else np.array([n.encode() for n in names])[values]
        append(file, f"infos/{name}", written, **_FILTERS)


def _features(spec: Spec) -> dict[str, list[dict[str, str]]]:
    return {
        kind: [{"name": f.name, "unit": f.unit, "description": f.description} for f in listed]
        for kind, listed in (("context", spec.context), ("candidates", spec.candidates))
    }
