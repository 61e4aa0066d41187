"""Usage, efficiency and distance of the servers that a network chooses, and of the others.

    hindcast calibrate thermal-choices DATASET RUN --split train

DATASET is a log of `thermal`, RUN a training with --checkpoint-every. Every checkpoint chooses
greedily among the feasible servers of the same minibatches of logged decisions; nothing is played.
The table has a row for every checkpoint and minibatch, with means over its decisions:

    chosen_usage, chosen_efficiency, chosen_distance    of the server that the network chooses
    others_usage, others_efficiency, others_distance    of the five other servers

Efficiency is usage per energy, 1 for a server that is off. All are those before the decision.
Source: L. Dong, "Solution on Data Center Job Scheduling Problem", 2018, Figures 7 and 8.

Difference from the report: its states contain the logged decision, see
`hindcast.flows.papers.thermal_report.agent`.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.flows.commands.report import rows_of
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.decisions import Columns, Decisions
from hindcast.pipeline.dataset.sampling import sample_decisions
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.scenarios.thermal.features import ROW
from hindcast.pipeline.scenarios.thermal.instances import POSITIONS, efficiency
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.storage.run_files import CHECKPOINTS
from hindcast.policies.networks.checkpoint import load_policy
from hindcast.policies.networks.policy import LearnedPolicy

SCENARIO: Final = "thermal"
QUANTITIES: Final = ("usage", "efficiency", "distance")
WHICH: Final = ("chosen", "others")
COLUMNS: Final = (
    "step", "minibatch", *(f"{which}_{what}" for which in WHICH for what in QUANTITIES),
)  # fmt: skip
SIZE: Final = 500  # decisions of a minibatch, as in the report's code
COUNT: Final = 20  # minibatches


def choices(dataset: Dataset, run: Path, split: str, rng: np.random.Generator) -> pl.DataFrame:
    """Return the table of a training on a split of a log, see the module.

    Raises InputError if the log is of another scenario, and DatasetError if it has too few
    decisions, if the run kept no checkpoints, or if these read other features.
    """
    if dataset.recipe.scenario != SCENARIO:
        raise InputError(
            f"{dataset.folder}: is a log of {dataset.recipe.scenario}, expected {SCENARIO}"
        )
    steps = _checkpoints(run)
    drawn = sample_decisions(dataset, split, rng, Columns(len(POSITIONS)), limit=SIZE * COUNT)
    count = len(drawn) // SIZE
    if not count:
        raise DatasetError(
            f"{dataset.folder}: split {split!r} has {len(drawn)} decisions, expected at least "
            f"{SIZE}"
        )
    rows = rng.permutation(len(drawn))[: count * SIZE].reshape(count, SIZE)
    shown = drawn.candidates.astype(np.float64)  # (D, servers, F)
    seen = np.stack([
        shown[..., ROW.usage], efficiency(shown[..., ROW.usage], shown[..., ROW.energy]),
        shown[..., ROW.distance],
    ], axis=-1)  # (D, servers, 3)  # fmt: skip
    table = []
    for step, folder in steps.items():
        policy = load_policy(folder)
        policy.check(dataset.spec)
        chosen = np.take_along_axis(seen, greedy(policy, drawn)[:, None, None], axis=1)[:, 0]
        others = (seen.sum(axis=1) - chosen) / (seen.shape[1] - 1)
        means = np.concatenate([chosen, others], axis=1)[rows].mean(axis=1)  # (minibatches, 6)
        table += [(step, number, *each) for number, each in enumerate(means.tolist())]
    return pl.DataFrame(table, schema=list(COLUMNS), orient="row")


def greedy(policy: LearnedPolicy, decisions: Decisions) -> NDArray[np.int64]:
    """Return the best feasible server of every decision, (D,)."""
    count, servers = decisions.mask.shape
    scores = policy.batch_scores(
        decisions.context.astype(np.float64),
        decisions.candidates.reshape(count * servers, -1).astype(np.float64),
        np.arange(count + 1, dtype=np.int64) * servers,
        feasible=decisions.mask.ravel(),
    )
    best: NDArray[np.int64] = np.where(
        decisions.mask, scores.reshape(count, servers), -np.inf
    ).argmax(axis=1)
    return best


def _checkpoints(run: Path) -> dict[int, Path]:
    """Return the checkpoints of a training by their steps, ascending."""
    folder = run / CHECKPOINTS
    found = sorted(folder.glob("step-*")) if folder.is_dir() else []
    if not found:
        raise DatasetError(f"{run}: holds no checkpoints of steps; train with --checkpoint-every")
    return {int(each.name.removeprefix("step-")): each for each in found}


def table(request: Any) -> dict[str, Any]:
    """Return the lines and rows of `hindcast calibrate thermal-choices`."""
    log, run = request.folders
    rng = np.random.default_rng(request.seed)
    return rows_of(choices(ds.open(log), location(run), request.split, rng))
