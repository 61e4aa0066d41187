"""From a dataset folder to a checkpoint folder: what `hindcast train` does."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from pipeline.dataset import open_dataset, sample_decisions
from pipeline.seeds import generator
from pipeline.storage import make_folder, write_atomically
from policies.checkpoint import save
from policies.offline import agent as find_agent
from policies.offline import read_config, train_agent

Progress = Callable[[int, int], None]

LIMIT = 400_000  # decisions held in memory; padded to 32 candidates about 1 kB each
CURVES = "metrics.parquet"


def train(
    dataset: Path,
    agent: str,
    *,
    steps: int,
    seed: int,
    out: Path,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Train an agent on the dataset's train split and write its checkpoint to `out`.

    The validation split, where there is one, only adds points to the curves. Curves are written
    beside the checkpoint as metrics.parquet (step, metric, value). Raises UnknownName,
    DatasetError, StorageError.
    """
    wanted = find_agent(agent)
    opened = open_dataset(dataset)
    read_config(agent, settings)  # before anything is written or takes time
    make_folder(out)

    def sample(split: str, limit: int) -> Any:
        return sample_decisions(
            opened,
            split,
            generator(seed, f"sample {agent} {split}"),
            k=wanted.candidates,
            per_episode=wanted.per_episode,
            limit=limit,
            transitions=wanted.transitions,
        )

    decisions = sample("train", LIMIT)
    validation = (
        sample("validation", LIMIT // 10) if "validation" in opened.recipe.dataset_splits else None
    )
    trained = train_agent(
        agent, decisions, opened.spec, steps=steps, seed=seed, settings=settings or {},
        validation=validation, progress=progress,
    )  # fmt: skip
    curves = pl.DataFrame(
        [(m.step, m.metric, m.value) for m in trained.metrics],
        schema={"step": pl.Int64, "metric": pl.String, "value": pl.Float64},
        orient="row",
    )
    write_atomically(out / CURVES, curves.write_parquet)
    provenance = {
        "dataset": {
            "recipe": opened.recipe.id,
            "digest": opened.manifest.digest,
            "episodes_sha256": opened.manifest.episodes.sha256,
            "decisions": len(decisions),
        }
    }
    return save(trained, out, provenance)
