"""Architecture of the OSDEC networks, which score all jobs of a slot of `deferrable` at once.

hindcast.flows.papers.osdec.policy acts with these networks; torch_network learns them.

    row         9 features of a job, 3 of the moment, and the outputs of the auxiliary module; the
                first `rows` rows are read: startable jobs, then running, then future ones by time
    mlp         all rows, padded with zeros, through two layers to one output per row
    pointer     a GRU from the last future job to the first startable one; its last state points at
                the jobs: v' tanh(R e + Q q)
    attention   self-attention with one head, then a layer per row; each with residual and norm
    heads       mean (tanh), deviation (softplus, see torch_network; acting needs the mean only),
                value (mean over the rows)
    auxiliary   a GRU over the last six slots -> 5 shared outputs (low) -> 5 task outputs (high) ->
                the next slot's capacity, mean cores, mean duration and violation; low and high are
                multiplied by their coefficients and appended to every row

Source: Dong, Zhu, Shan et al. (OSDEC), sections 4.1-4.2. Differences from the paper:
- The paper does not state the sizes of layers; those here are ours.
- The auxiliary GRU reads what an observation contains about the last six slots; in the paper it
  reads the past observations and actions of the agent.
- The encoder of the pointer network is a GRU, not an LSTM.
- The paper does not state what its "information coefficients" of 10 multiply. As weights of losses
  with a separate optimiser they would have no effect, and inputs ten times as large as all others
  slowed learning here, so the coefficients are 1.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.scenarios.deferrable import features as deferrable
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.policies.networks import Features
from hindcast.policies.networks.features import unscaled_map
from hindcast.policies.networks.fixed import FixedNetwork, FixedSettings
from hindcast.policies.networks.settings import dense

HISTORY: Final = 6  # numbers per slot in the history (module `slotwise`)
ROW: Final = (
    "cores", "duration", "until_earliest", "until_latest", "since_submission", "remaining",
    "is_running", "is_startable", "is_future",
)  # fmt: skip
MOMENT: Final = ("capacity", "free_cores", "slots_left")
LOW: Final = 5
HIGH: Final = 5
TASKS: Final = 4  # capacity, mean cores and mean duration of what is startable, violation
BEYOND: Final = -2.0  # score of a startable job that is not read; below any mean
NORM_EPSILON: Final = 1e-5
RECURRENT: Final = 16
_AT: Final = tuple(getattr(deferrable.MOMENT, name) for name in MOMENT)
_WIDEST: Final = 1024
_Row = NDArray[np.float32]


@dataclass(frozen=True)
class SlotScoresSettings(FixedSettings):
    """Architecture of the network. Raises RecipeError for a value that is out of range.

    Attributes:
        encoder: Encoder of the jobs: "mlp", "pointer" or "attention".
        auxiliary: Layers of the auxiliary module whose outputs are appended to the rows: "none",
            "high", "low" or "both".
        width: Width of an encoded job, 1 to 1024; the layers of the mlp are four times as wide.
        layers: Layers of the attention encoder, 1 to 8.
        rows: Rows that are read, 1 to 1024: startable, then running, then future jobs. Startable
            jobs beyond them get the lowest score.
        low_coefficient: Factor of the low outputs of the auxiliary module, above 0.
        high_coefficient: Factor of the high outputs of the auxiliary module, above 0.
        kind: Name of the architecture.
    """

    encoder: Literal["mlp", "pointer", "attention"] = "attention"
    auxiliary: Literal["none", "high", "low", "both"] = "none"
    width: int = number(32, "from 1 to 1,024")
    layers: int = number(1, "from 1 to 8")
    rows: int = number(64, "from 1 to 1,024")
    low_coefficient: float = number(1.0, "above 0")
    high_coefficient: float = number(1.0, "above 0")
    kind: Literal["slot_scores"] = "slot_scores"

    def __post_init__(self) -> None:
        check_ranges(self, "network")

    @property
    def information(self) -> int:
        """Number of outputs of the auxiliary module in a row."""
        return LOW * (self.auxiliary in {"low", "both"}) + HIGH * (
            self.auxiliary in {"high", "both"}
        )


@dataclass(frozen=True)
class SlotScoresNetwork(FixedNetwork[SlotScoresSettings]):
    """Network without its weights; implements hindcast.policies.networks.settings.Network."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight."""
        s = self.settings
        shapes: dict[str, tuple[int, ...]] = {}

        def linear(name: str, after: int, before: int) -> None:
            shapes.update(dense(name, after, before))

        def recurrent(name: str, width: int, before: int) -> None:
            linear(f"{name}.input", 3 * width, before)
            linear(f"{name}.state", 3 * width, width)

        if s.auxiliary != "none":
            recurrent("past", RECURRENT, HISTORY)
            linear("shared", LOW, RECURRENT)
            linear("task", HIGH, LOW)
            linear("prediction", TASKS, HIGH)
        moment, width, outputs = len(MOMENT) + s.information, s.width, 1
        if s.encoder == "mlp":
            width, outputs = 4 * width, s.rows
            linear("layer0", width, s.rows * len(ROW) + moment)
            linear("layer1", width, width)
        else:
            linear("embed", width, len(ROW) + moment)
        if s.encoder == "pointer":
            recurrent("jobs", width, width)
            linear("reference", width, width)
            linear("pointer", width, width)
        if s.encoder == "attention":
            for i in range(s.layers):
                for part in ("query", "key", "value", "output"):
                    linear(f"{part}{i}", width, width)
                linear(f"inner{i}", 2 * width, width)
                linear(f"outer{i}", width, 2 * width)
                for part in ("seen", "made"):
                    shapes[f"{part}{i}.weight"] = shapes[f"{part}{i}.bias"] = (width,)
            linear("mean_layer", width, width)
            linear("deviation_layer", width, width)
        for head in ("mean", "deviation"):
            linear(head, outputs, width)
        linear("worth", 1, width)
        return shapes

    def scale_of_history(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what is subtracted from a history (HISTORY,), and the factor of the rest."""
        c, r = self.context, self.candidates
        level = max(float(c.mean[0]), 1.0)
        mean = np.array([c.mean[0], 0.0, 0.0, r.mean[0], r.mean[1], 0.0])
        inverse = np.array(
            [c.inverse[0], 4.0 / level, 0.125, r.inverse[0], r.inverse[1], 4.0 / level]
        )
        return mean, inverse

    def history(self, history: NDArray[np.float64]) -> _Row:
        """Return the input (..., LAGS + 1, HISTORY) of the auxiliary GRU, scaled to order one."""
        mean, inverse = self.scale_of_history()
        scaled: _Row = ((history - mean) * inverse).astype(np.float32)
        return scaled


def slot_scores_network(
    settings: SlotScoresSettings,
    context: Features,
    candidates: Features,
) -> SlotScoresNetwork:
    """Return the network over these features, unscaled.

    Raises DatasetError if the features are not those of `deferrable`, in their order.
    """
    check_deferrable(context, candidates)
    moment = [[f.name for f in context].index(name) for name in MOMENT]
    of_job = unscaled_map(candidates, range(len(ROW)), quadratic=False)
    of_moment = unscaled_map(context, moment, quadratic=False)
    if (of_job.size, of_moment.size) != (len(ROW), len(MOMENT)):
        raise DatasetError("network: a feature of the jobs or the moment is heavy-tailed")
    return SlotScoresNetwork(settings, of_job, of_moment)


def check_deferrable(context: Features, candidates: Features) -> None:
    """Raise DatasetError unless these are the features of `deferrable`, in their order."""
    names = tuple(f.name for f in candidates), tuple(f.name for f in context)
    if (
        names[0] != (*ROW, "closes", "job")
        or len(context) != len(deferrable.MOMENT)
        or [names[1][at] for at in _AT] != [*MOMENT]
    ):
        raise DatasetError("network: these are not the features of deferrable, in their order")
