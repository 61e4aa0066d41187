"""`minari`: a folder that MINARI_DATASETS_PATH can name, with one dataset, in Minari's HDF5 layout.

    OUT/ID/data/metadata.json     spaces, id, counts; ID is the dataset's, ending in a version
    OUT/ID/data/main_data.hdf5    a group per episode
      episode_0
        observations/context      (T + 1, C) float32
        observations/candidates   (T + 1, K, F) float32
        observations/mask         (T + 1, K) uint8, in a Box of 0 and 1
        observations/image        (T + 1, *shape) uint8, if the scenario has images
        actions                   (T,) int64
        rewards                   (T,) float64
        terminations, truncations (T,) bool
        infos/NAME                (T + 1, ...), of the observation in that row: propensity,
                                  behaviour_probabilities (K,), elapsed_s, time_s,
                                  reward_terms/NAME, monte_carlo_value, discount (0 after the end
                                  of an episode); NaN in the last row
        infos/split, behaviour    (T + 1,) int64, index in the lists `splits` and `behaviours` of
                                  metadata.json; the first splits are train, validation, test
        infos/window              (T + 1,) int64

The last observation is the closing row. Readers of Minari take every episode, so the train split is
written unless another is asked for. With `--split all`, `filter_episodes` chooses:

    train = dataset.filter_episodes(lambda episode: episode.infos["split"][0] == 0)

Attributes of a group describe its episode: split, behaviour, seed (the repetition), window, return,
outcomes, and its number in the dataset (`episode`). Arrays are compressed with gzip, which every
HDF5 library reads: most of a padded list is zeros. Minari's Parquet storage is not used, as version
0.5.4 cuts long episodes there.

The environment of a recipe that comes with Hindcast, also of one with changed settings (`--set`),
can be recovered where Hindcast is installed.
For `minari.get_normalized_score`, `ref_min_score` and `ref_max_score` are the mean returns of
`random` and of the best policy without learning on the test windows, where Hindcast has anchors of
them (hindcast.pipeline.evaluation.anchors). Else, if the dataset has episodes of `random`, they are
their mean return and the highest mean return of a behaviour.

    import minari                     # needs minari[hdf5] and pillow; MINARI_DATASETS_PATH=OUT
    dataset = minari.load_dataset("binpack-synthetic-v1")

What is lost: lists of different lengths (padded to K), names and units of features (they are in
the description), licence, citation and checksums, for which Minari has no fields.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.evaluation.anchors import anchor_of
from hindcast.pipeline.exports import ExportResult, Progress
from hindcast.pipeline.exports._hdf5 import append, load_h5py, new_hdf5
from hindcast.pipeline.exports._labels import Labels, labels_of
from hindcast.pipeline.exports._padding import Padding, Rows, choose_padding, padded
from hindcast.pipeline.exports._target import new_folder, result
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.shipped import known_recipes
from hindcast.pipeline.recipes.toml import value_toml
from hindcast.pipeline.simulation.spec import Feature, Spec

LAYOUT: Final = "0.5.4"  # the version of Minari whose layout this is
_COMPRESSION: Final = {"compression": "gzip", "compression_opts": 1}  # a 30th of the size; quicker
_FLOATS: Final = ("propensity", "elapsed_s", "time_s")
_OF_ALL_ROWS: Final = ("infos/time_s", "infos/split", "infos/window", "infos/behaviour")
_PLAYED: Final = ("objective", "config", "trace", "split", "seed")  # keys of an environment


def export(
    dataset: Dataset, out: Path, candidates: int | None, tell: Progress, split: str
) -> ExportResult:
    """Write the folder `out`; raise as `hindcast.pipeline.exports.export`."""
    load_h5py()  # before a folder is made
    labels = labels_of(dataset, split)
    with new_folder(out) as temporary:
        data = temporary / dataset_id(dataset.manifest.name) / "data"
        data.mkdir(parents=True)
        padding = choose_padding(dataset, candidates, labels)
        file_path = data / "main_data.hdf5"
        with new_hdf5(file_path, track_order=True) as (file, check):
            for rows in padded(dataset, padding.k, labels, tell):
                for episode in rows.by_episode():
                    number = labels.number[episode.of("episode")[0]]
                    group = file.require_group(f"episode_{number}")
                    _write(group, episode, dataset.spec, labels)
                    check()
            _label(file, labels)
        size = round(file_path.stat().st_size / 1e6, 1)
        text = json.dumps(_metadata(dataset, padding, labels, size), indent=2)
        (data / "metadata.json").write_text(text + "\n", encoding="utf-8")
    note = f"MINARI_DATASETS_PATH={out}; minari.load_dataset({dataset_id(dataset.manifest.name)!r})"
    return result(out, (*padding.notes, *labels.notes, note))


def dataset_id(name: str) -> str:
    """Return a dataset's name in Minari's form: word characters and "-", with a final version.

    The mark of a changed recipe goes before the version: `binpack-synthetic-3f9a1c-v1`.
    """
    match = re.fullmatch(r"(.*?)(-v\d+)?(\+.*)?", name, re.DOTALL)
    assert match is not None
    base, version, mark = match.groups(default="")
    return re.sub(r"[^-\w]", "-", base + mark) + (version or "-v1")


def _write(group: Any, rows: Rows, spec: Spec, labels: Labels) -> None:
    """Append some rows of one episode to its group."""
    observations = {
        "context": rows.of("context"),
        "candidates": rows.candidates,
        "mask": rows.mask.astype(np.uint8),
    }
    if spec.image_shape:
        observations["image"] = rows.of("image").reshape(-1, *spec.image_shape)
    for name, values in observations.items():
        append(group, f"observations/{name}", values, **_COMPRESSION)
    closing = rows.choice == NO_CHOICE
    infos = {f"infos/{name}": rows.of(name) for name in _FLOATS}
    infos["infos/behaviour_probabilities"] = rows.probabilities
    for column, term in enumerate(spec.reward_terms):
        infos[f"infos/reward_terms/{term}"] = rows.of("terms")[:, column]
    if spec.valued:
        infos["infos/monte_carlo_value"] = rows.of("value")
    of_rows = labels.of(rows.of("episode"), rows.of("terminated"))
    infos |= {f"infos/{name}": values for name, values in of_rows.items()}
    for name, values in infos.items():
        known_values = values.copy()
        if name not in _OF_ALL_ROWS:
            known_values[closing] = np.nan
        append(group, name, known_values, **_COMPRESSION)
    decided = ~closing
    columns: dict[str, NDArray[Any]] = {
        "actions": rows.choice,
        "rewards": rows.of("reward"),
        "terminations": rows.of("terminated"),
        "truncations": rows.of("truncated"),
    }
    for name, values in columns.items():
        append(group, name, values[decided], **_COMPRESSION)


def _label(file: Any, labels: Labels) -> None:
    """Set the attributes of every episode: id, steps, and its columns in the episode table."""
    left_out = {"steps", "first_part", "last_part", "behaviour_parameters"}
    for number, row in enumerate(labels.episodes.iter_rows(named=True)):
        values = {name: value for name, value in row.items() if name not in left_out}
        group = file[f"episode_{number}"]
        group.attrs.update({"id": number, "total_steps": row["steps"], **values})


def _metadata(dataset: Dataset, padding: Padding, labels: Labels, size: float) -> dict[str, Any]:
    """Return the metadata of a Minari dataset; `size` is in MB."""
    spec, episodes = dataset.spec, labels.episodes
    spaces: dict[str, Any] = {
        "context": _box(spec.context, ()),
        "candidates": _box(spec.candidates, (padding.k,)),
        # TorchRL's loader knows no MultiBinary
        "mask": _bytes_box((padding.k,), 1),
    }
    if spec.image_shape:
        spaces["image"] = _bytes_box(spec.image_shape, 255)
    actions = {"type": "Discrete", "dtype": "int64", "start": 0, "n": padding.k}
    return {
        "total_episodes": episodes.height,
        "total_steps": labels.decisions,
        "data_format": "hdf5",
        "jpeg_encoding": False,
        "observation_space": json.dumps({"type": "Dict", "subspaces": spaces}),
        "action_space": json.dumps(actions),
        "dataset_id": dataset_id(dataset.manifest.name),
        "algorithm_name": ", ".join(episodes["behaviour"].unique(maintain_order=True)),
        "description": _description(dataset, (*padding.notes, *labels.notes)),
        "minari_version": LAYOUT,
        "dataset_size": size,
        "cut_decisions": padding.cut,
        "split": labels.split,
        "splits": labels.splits,
        "behaviours": labels.behaviours,
        "discount": labels.discount,
        **_environment(dataset.recipe, padding.k),
        **_reference_scores(dataset.recipe, episodes),
    }


def _environment(recipe: Recipe, candidates: int) -> dict[str, str]:
    """Return the specification of the environment, for `recover_environment`.

    The dictionary is empty for a recipe that does not come with Hindcast, or with another trace:
    its settings or its trace may not be at hand where the export is read.
    """
    table = recipe.to_dict()
    if table["id"] not in known_recipes():
        return {}
    shipped = load_recipe(table["id"])
    if recipe.trace.path != shipped.trace.path:
        return {}
    before = shipped.to_dict()
    changed = [f"{k}={value_toml(table[k])}" for k in _PLAYED if table[k] != before[k]]
    spec: dict[str, Any] = {
        "id": "hindcast/Recipe-v0",
        "entry_point": "hindcast.pipeline.gymnasium_env.single:SchedulingEnv",
        "reward_threshold": None,
        "nondeterministic": False,
        "max_episode_steps": None,
        "order_enforce": True,
        "disable_env_checker": False,
        "kwargs": {"recipe": table["id"], "overrides": changed, "candidates": candidates},
        "additional_wrappers": [],
        "vector_entry_point": None,
    }
    return {"env_spec": json.dumps(spec)}


def _reference_scores(recipe: Recipe, episodes: pl.DataFrame) -> dict[str, float | int]:
    """Return the mean returns that Minari calls reference scores, see the module.

    The dictionary is empty if there is no episode of `random`, or no behaviour is better.
    """
    anchor = anchor_of(recipe) if "test" in recipe.split else None
    if anchor is not None and anchor.objective == recipe.objective:
        low, high = anchor.random_return, anchor.best_return
        if low is not None and high is not None and high > low:
            return _scores(low, high, anchor.count)
    means = episodes.group_by("behaviour").agg(pl.col("return").mean(), pl.len())
    of_behaviour = {name: (value, count) for name, value, count in means.iter_rows()}
    if "random" not in of_behaviour:
        return {}
    low, low_count = of_behaviour["random"]
    high, high_count = max(of_behaviour.values())
    if not high > low:
        return {}
    return _scores(low, high, min(low_count, high_count))


def _scores(low: float, high: float, episodes: int) -> dict[str, float | int]:
    return {"ref_min_score": low, "ref_max_score": high, "num_episodes_average_score": episodes}


def _description(dataset: Dataset, notes: Sequence[str]) -> str:
    spec = dataset.spec
    about = dataset.recipe.description or "A Hindcast dataset"
    digest = dataset.manifest.digest
    lines = [
        f"{about}. Hindcast scenario {spec.scenario}, objective {spec.objective}, recipe {digest}.",
        *(f"{note[0].upper()}{note[1:]}." for note in notes),
    ]
    for kind, features in (("context", spec.context), ("candidates", spec.candidates)):
        lines.append(f"{kind}: " + ", ".join(f"{f.name} ({f.unit})" for f in features) + ".")
    return " ".join(lines)


def _bytes_box(shape: Sequence[int], high: int) -> dict[str, Any]:
    """Return a Box of bytes from 0 to `high`."""
    low = np.zeros(shape, np.uint8)
    return {
        "type": "Box", "dtype": "uint8", "shape": list(shape), "low": low.tolist(),
        "high": (low + high).tolist(),
    }  # fmt: skip


def _box(features: tuple[Feature, ...], leading: tuple[int, ...]) -> dict[str, Any]:
    """Return a Box with the features' ranges, widened to the zeros of padding."""
    shape = (*leading, len(features))
    low = np.broadcast_to([min(0.0, f.low) for f in features], shape).astype(np.float32)
    high = np.broadcast_to([max(0.0, f.high) for f in features], shape).astype(np.float32)
    return {
        "type": "Box", "dtype": "float32", "shape": list(shape), "low": low.tolist(),
        "high": high.tolist(),
    }  # fmt: skip
