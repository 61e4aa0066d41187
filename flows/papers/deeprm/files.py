"""Files of the stages of DeepRM: scores and training curves, and the names of the agents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.flows.papers.cells import pairing
from hindcast.flows.papers.deeprm.commands import (
    PAPER_RATE,
    RATES,
    RECIPE_RATE,
    few,
    folder_of,
    iterations_at,
    seeds_at,
    seeds_of,
)
from hindcast.flows.protocols import Setting
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.evaluation.summary.pairing import Pairing
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.statistics.intervals import Array, Interval, mean_interval
from hindcast.pipeline.storage.files import read_parquet

AGENT: Final = "reinforce-best"
DRAWING: Final = "reinforce-best@1"
NATURAL: Final = "natural_gradient-best"
ONLINE: Final = "counterfactual-best"
OFFLINE: Final = "advantage_cloning"
SJF: Final = "sjf_now"
PACKER: Final = "packer_now"
HOLD: Final = "hold_8"
# Group of an evaluation -> name in tables and figures, the same in all of them
NAMES: Final = {
    AGENT: "reinforce", DRAWING: "reinforce, drawing", NATURAL: "natural_gradient",
    ONLINE: "counterfactual", OFFLINE: "advantage_cloning",
}  # fmt: skip
IMAGE: Final = "reinforce, image alone"

SLOWDOWN: Final = "mean_slowdown"
COMPLETION: Final = "mean_completion_s"
UTILISATION: Final = "utilisation"
RETURN: Final = "return"
UNITS: Final = {
    SLOWDOWN: "1", COMPLETION: "steps", UTILISATION: "fraction", "unfinished": "jobs",
}  # fmt: skip
COLUMNS: Final = {
    SLOWDOWN: "slowdown", COMPLETION: "completion time", UTILISATION: "utilisation",
    "unfinished": "unfinished",
}  # fmt: skip

FIGURE_3: Final = "Fig. 3 of the report"
FIGURE_4: Final = "Fig. 4 of the report"
OBJECTIVES_PLACE: Final = "Section III of the report"
PARTS: Final = 10  # tenths of a training
NETWORK: Final = (
    "A network scores the row of each candidate job; the papers' network reads an image of the "
    "cluster. An infeasible choice cannot be made. Selected on validation windows."
)


@dataclass(frozen=True)
class Curve:
    """A metric during the trainings of an agent with several seeds.

    Attributes:
        iterations: Iterations after which the metric was written, (P,).
        values: Its means since the iteration before, (seeds, P).
    """

    iterations: NDArray[np.int64]
    values: Array


@dataclass(frozen=True)
class Measured:
    """Results that the stages wrote.

    Attributes:
        place: Folder of the reproduction.
        setting: Its setting.
        scores: Slowdowns on the test windows, by arrival rate.
        training: Slowdowns of rules on the train windows of PAPER_RATE.
        image: Slowdowns at RECIPE_RATE, with the network over the image.
        report: Slowdowns at the report's sizes.
        curve: Training at PAPER_RATE, by metric.
        curves: Slowdowns in training at RECIPE_RATE, by name of the agent.
    """

    place: Path
    setting: Setting
    scores: Mapping[float, Pairing]
    training: Pairing
    image: Pairing
    report: Pairing
    curve: Mapping[str, Curve]
    curves: Mapping[str, Curve]

    @property
    def paper(self) -> Pairing:
        """Slowdowns at the papers' load."""
        return self.scores[PAPER_RATE]

    @property
    def recipe(self) -> Pairing:
        """Slowdowns at the rate of the recipes."""
        return self.scores[RECIPE_RATE]

    def scored(self, folder: str, metric: str = SLOWDOWN) -> Pairing:
        """Return the scores of an evaluation of the protocol on a metric."""
        return pairing(self.place / folder, metric)

    def objective(self, name: str, metric: str) -> Pairing:
        """Return the scores of an objective at PAPER_RATE on a metric."""
        at = folder_of(PAPER_RATE) if name == "slowdown" else name
        return self.scored(f"{at}/scores", metric)


def read(place: Path, setting: Setting) -> Measured:
    """Read what the stages wrote below `place`.

    Raises DatasetError if a file is missing or is not valid.
    """

    def curves(folder: str, seeds: Sequence[int], metric: str = SLOWDOWN) -> Curve:
        return read_curve([place / f"{folder}-seed{seed}" for seed in seeds], metric)

    at, recipe = folder_of(PAPER_RATE), folder_of(RECIPE_RATE)
    return Measured(
        place=place,
        setting=setting,
        scores={rate: pairing(place / folder_of(rate) / "scores", SLOWDOWN) for rate in RATES},
        training=pairing(place / at / "training", SLOWDOWN),
        image=pairing(place / "image" / "scores", SLOWDOWN),
        report=pairing(place / "report" / "scores", SLOWDOWN),
        curve={
            metric: curves(f"{at}/reinforce", seeds_at(setting, PAPER_RATE), metric)
            for metric in (SLOWDOWN, RETURN)
        },
        curves={
            NAMES[AGENT]: curves(f"{recipe}/reinforce", seeds_at(setting, RECIPE_RATE)),
            IMAGE: curves("image/reinforce", setting.seeds[:1]),
            NAMES[NATURAL]: curves(f"{recipe}/natural", seeds_of(setting)),
        },
    )


def read_curve(folders: Sequence[Path], metric: str) -> Curve:
    """Return a metric of trainings, one folder per seed.

    Raises DatasetError if a training lacks the metric, or has it after other iterations than the
    first.
    """
    rows: list[Array] = []
    iterations = np.empty(0, np.int64)
    for folder in folders:
        table = read_parquet(folder / "metrics.parquet").filter(metric=metric).sort("step")
        steps = table["step"].to_numpy()
        if not len(steps) or (rows and not np.array_equal(steps, iterations)):
            wanted = f"those of {folders[0]}" if rows else "some"
            raise DatasetError(
                f"{folder / 'metrics.parquet'}: {len(steps)} rows of {metric!r}, expected {wanted}"
            )
        iterations = steps
        rows.append(table["value"].to_numpy())
    return Curve(iterations, np.stack(rows))


def name_of(policy: str) -> str:
    """Return the name of a policy or agent in tables and figures."""
    return NAMES.get(policy, policy)


def trained_text(measured: Measured) -> str:
    """Return how the papers' agent was trained at all rates."""
    setting = measured.setting
    main, other = iterations_at(setting, PAPER_RATE), iterations_at(setting, RATES[0])
    seeds, fewer = (count_of(len(each), "seed") for each in (seeds_of(setting), few(setting)))
    elsewhere = f", {other} at other rates" * (other != main)
    text = (
        f"reinforce: {main} iterations{elsewhere}; {seeds} at rates {PAPER_RATE} and "
        f"{RECIPE_RATE}, {fewer} elsewhere."
    )
    if setting.quick:
        text += (
            " An iteration of this quick run has 5 x 10 trajectories, not 10 x 20, and a learning "
            "rate of 0.005."
        )
    return text


def size_text(measured: Measured, rate: float) -> str:
    """Return iterations and seeds of the papers' agent at a rate."""
    seeds = count_of(len(seeds_at(measured.setting, rate)), "seed")
    quick = ", of fewer trajectories than in the paper" * measured.setting.quick
    return f"{iterations_at(measured.setting, rate)} iterations{quick}; {seeds}."


def over_seeds(values: Array) -> Interval:
    """Return the mean over training seeds with an interval over them."""
    return mean_interval(values)


def tenths(curve: Curve) -> Array:
    """Return means of the tenths of a training: (seeds, tenths)."""
    parts = np.array_split(curve.values, PARTS, axis=1)
    return np.stack([part.mean(axis=1) for part in parts], axis=1)
