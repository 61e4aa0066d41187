"""Networks that score the jobs of a whole slot of `deferrable` at once: the OSDEC family.

    row      9 numbers of a job, 3 of the moment, and what the auxiliary module says; the first
             `rows` rows are read: startable jobs, then running ones, then future ones by their time
    mlp        all rows, padded with zeros, through two layers to an output per row
    pointer    a GRU from the last future job to the first startable one; its last state points at
               the jobs: v' tanh(R e + Q q)
    attention  self-attention with one head, then a layer per row; each with residual and norm
    heads    mean tanh, deviation softplus (policies.online.slot_network; acting needs the mean),
             value the average over rows
    auxiliary   a GRU over the last six slots -> 5 shared numbers (low) -> 5 of the tasks (high) ->
             the next slot's capacity, mean cores, mean duration and violation; low and high are
             multiplied by their coefficients and join every row

The scores of a slot are those of how it began. Asked within a slot the policy undoes the slot's
starts (pipeline.scenarios.deferrable_slots), so that decision by decision it starts exactly the
prefix that its scores of the slot mean, without remembering anything.

Source: Dong, Zhu, Shan et al. (OSDEC), sections 4.1-4.2. Differences: sizes of layers are not told;
the auxiliary GRU reads what an observation tells of the last six slots, where the paper's is fed
what the agent has seen and done; the pointer network's encoder is a GRU, not an LSTM. What the
published "information coefficients" of 10 multiply is not told: as weights of losses that have an
optimiser of their own they would change nothing, and inputs ten times as large as all others made
learning slower here, so that they are 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import DatasetError, HindcastError, RecipeError
from pipeline.kernel import Compiled
from pipeline.policy import Reading
from pipeline.recipe import read_settings
from pipeline.scenarios.deferrable_memory import HISTORY, LAGS, LOOKAHEAD
from pipeline.schema import Feature
from policies.features import FeatureMap, unscaled_map
from policies.learned import LearnedPolicy
from policies.scorer import Weights

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
_RECURRENT: Final = 16
_FREE: Final = LAGS + 2  # where free cores stand in the context
_AT: Final = (0, _FREE, LAGS + LOOKAHEAD + 9)  # where MOMENT stands
_STARTABLE: Final = ROW.index("is_startable")
_WIDEST: Final = 1024
_Row = NDArray[np.float32]


@dataclass(frozen=True)
class SlotScoresSettings:
    """The shape of the network. Raises RecipeError for settings that make none.

    encoder            what reads the jobs
    auxiliary          which layers of the auxiliary module join the rows
    width              of an encoded job; the mlp has four times as many in its layers
    layers             of the attention encoder
    rows               that are read at most: startable, then running, then future jobs; startable
                       ones after them come last
    low_coefficient, high_coefficient   multiply what joins the rows
    """

    encoder: Literal["mlp", "pointer", "attention"] = "attention"
    auxiliary: Literal["none", "high", "low", "both"] = "none"
    width: int = 32
    layers: int = 1
    rows: int = 64
    low_coefficient: float = 1.0
    high_coefficient: float = 1.0
    kind: Literal["slot_scores"] = "slot_scores"

    def __post_init__(self) -> None:
        for name, most in (("width", _WIDEST), ("layers", 8), ("rows", _WIDEST)):
            if not 1 <= getattr(self, name) <= most:
                raise RecipeError(f"network.{name} is {getattr(self, name)}, expected 1 to {most}")

        for name in ("low_coefficient", "high_coefficient"):
            if not 0.0 < getattr(self, name) < np.inf:
                raise RecipeError(f"network.{name} is {getattr(self, name)}, expected above 0")

    @property
    def context(self) -> bool:
        """Whether the context is read."""
        return True

    @property
    def image(self) -> int:
        """Width of what an image becomes: none is read."""
        return 0

    @property
    def information(self) -> int:
        """Numbers that the auxiliary module adds to a row."""
        return LOW * (self.auxiliary in {"low", "both"}) + HIGH * (
            self.auxiliary in {"high", "both"}
        )


@dataclass(frozen=True)
class SlotScoresNetwork:
    """The network without its weights, in the terms of policies.scorer.Network."""

    settings: SlotScoresSettings
    candidates: FeatureMap
    context: FeatureMap
    pixels: int = 0
    threshold: float = 0.0

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight."""
        s = self.settings
        shapes: dict[str, tuple[int, ...]] = {}

        def linear(name: str, after: int, before: int) -> None:
            shapes[f"{name}.weight"] = (after, before)
            shapes[f"{name}.bias"] = (after,)

        def recurrent(name: str, width: int, before: int) -> None:
            linear(f"{name}.input", 3 * width, before)
            linear(f"{name}.state", 3 * width, width)

        if s.auxiliary != "none":
            recurrent("past", _RECURRENT, HISTORY)
            linear("shared", LOW, _RECURRENT)
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

    def history(self, history: NDArray[np.float64]) -> _Row:
        """What the auxiliary GRU reads (..., LAGS + 1, HISTORY), in sizes of order one."""
        c, r = self.context, self.candidates
        level = max(float(c.mean[0]), 1.0)
        mean = np.array([c.mean[0], 0.0, 0.0, r.mean[0], r.mean[1], 0.0])
        inverse = np.array(
            [c.inverse[0], 4.0 / level, 0.125, r.inverse[0], r.inverse[1], 4.0 / level]
        )
        scaled: _Row = ((history - mean) * inverse).astype(np.float32)
        return scaled


def slot_scores_network(
    settings: SlotScoresSettings,
    context: tuple[Feature, ...],
    candidates: tuple[Feature, ...],
) -> SlotScoresNetwork:
    """The network over these features, unscaled; DatasetError where one is missing or elsewhere."""
    check_deferrable(context, candidates)
    moment = [[f.name for f in context].index(name) for name in MOMENT]
    of_job = unscaled_map(candidates, range(len(ROW)), quadratic=False)
    of_moment = unscaled_map(context, moment, quadratic=False)
    if (of_job.size, of_moment.size) != (len(ROW), len(MOMENT)):
        raise DatasetError("network: a feature of the jobs or the moment is heavy-tailed")
    return SlotScoresNetwork(settings, of_job, of_moment)


def read_slot_scores_network(
    value: Mapping[str, Any], context: tuple[Feature, ...], candidates: tuple[Feature, ...]
) -> SlotScoresNetwork:
    """The network of a checkpoint's description; RecipeError, DatasetError for another thing."""
    settings = read_settings(SlotScoresSettings, value, "network")
    return slot_scores_network(settings, context, candidates)


def check_deferrable(context: tuple[Feature, ...], candidates: tuple[Feature, ...]) -> None:
    """DatasetError unless these are the features of the scenario, in its order."""
    names = tuple(f.name for f in candidates), tuple(f.name for f in context)
    if (
        names[0] != (*ROW, "closes", "job")
        or len(context) != len(MOMENT) + 2 + LAGS + LOOKAHEAD + 6
        or [names[1][at] for at in _AT] != [*MOMENT]
    ):
        raise DatasetError("network: these are not the features of deferrable, in their order")


class SlotScoresPolicy(LearnedPolicy):
    """The network with weights, as a pipeline.policy.BatchPolicy; it acts with the mean scores."""

    def __init__(
        self,
        name: str,
        network: SlotScoresNetwork,
        weights: Weights,
        features_context: tuple[Feature, ...],
        features_candidates: tuple[Feature, ...],
    ) -> None:
        # Compiled when there is something to act with, not when checkpoints are looked into.
        from pipeline.scenarios.deferrable_action import stop_at_misfit
        from pipeline.scenarios.deferrable_slots import begin_of_slot, waiting_jobs

        self._stop: Compiled = stop_at_misfit
        self._begin: Compiled = begin_of_slot
        self._waiting = waiting_jobs
        self._hold(name, network, weights, features_context, features_candidates)
        self.slots = network
        # Scores of the slots of the last call: most of its observations are asked for again, with
        # one more job started. What is found here is what would be computed.
        self._known: dict[bytes, NDArray[np.float64]] = {}

    @property
    def reads(self) -> tuple[Reading, ...]:
        """What it needs besides context and candidates."""
        return ("feasible",)

    def batch_scores(
        self,
        context: NDArray[np.float64],
        candidates: NDArray[np.float64],
        offsets: NDArray[np.int64],
        *,
        feasible: NDArray[np.bool_] | None = None,
        image: NDArray[np.uint8] | None = None,  # noqa: ARG002 - the protocol's
    ) -> NDArray[np.float64]:
        """Scores (sum of N,) of B observations, whose last row closes the slot.

        Raises HindcastError where arrays do not fit each other.
        """
        if (
            context.shape != (len(offsets) - 1, len(self.features_context))
            or candidates.shape != (int(offsets[-1]), len(self.features_candidates))
            or (feasible is not None and feasible.shape != (len(candidates),))
        ):
            raise HindcastError(
                f"{self.name}: context {context.shape} and candidates {candidates.shape} with "
                f"{len(offsets)} offsets up to {offsets[-1]} are not observations of deferrable"
            )
        scores = np.zeros(len(candidates))
        known: dict[bytes, NDArray[np.float64]] = {}
        for b in range(len(context)):
            rows = np.array(candidates[offsets[b] : offsets[b + 1]], np.float64)
            fits = (
                (rows[:, _STARTABLE] == 1.0) & (rows[:, 0] <= context[b, _FREE])
                if feasible is None
                else np.array(feasible[offsets[b] : offsets[b + 1]])
            )
            own = scores[offsets[b] : offsets[b + 1]]
            self._score(np.array(context[b], np.float64), rows, own, known)
            self._stop(rows, fits, own)
        self._known = known
        return scores

    def _score(
        self,
        context: NDArray[np.float64],
        candidates: NDArray[np.float64],
        scores: NDArray[np.float64],
        known: dict[bytes, NDArray[np.float64]],
    ) -> None:
        """Fill the scores of the startable rows of one observation."""
        moment, rows = np.empty_like(context), np.zeros_like(candidates)
        history, counts = np.empty((LAGS + 1, HISTORY)), np.empty(3, np.int64)
        self._begin(context, candidates, moment, rows, history, counts)
        rows = rows[: counts.sum()]
        key = moment.tobytes() + rows.tobytes()
        found = self._known.get(key)
        if found is None:
            found = self.means(moment, rows, history, int(counts[0])).astype(np.float64)
        known[key] = found
        waiting, places = self._waiting(candidates, rows[: counts[0]])
        scores[waiting] = found[places]

    def means(
        self,
        moment: NDArray[np.float64],
        rows: NDArray[np.float64],
        history: NDArray[np.float64],
        startable: int,
    ) -> _Row:
        """Mean scores (K,) of the K startable jobs of one slot.

        moment (C,), rows (J, F), history (LAGS + 1, HISTORY) as the slot began. One slot at a time:
        sums of BLAS depend on how many rows it is given at once, and a score must not.
        """
        settings = self.slots.settings
        means = np.full(startable, np.float32(BEYOND))
        startable = min(startable, settings.rows)
        if startable == 0:
            return means
        seen = self.slots.candidates.expand(rows[: settings.rows])
        more = self.slots.context.expand(moment[None])[0]
        more = np.concatenate([more, self._information(self.slots.history(history))])
        hidden = self._encoded(seen, more, startable)
        means[:startable] = np.tanh(self._linear(hidden, "mean")).ravel()[:startable]
        return means

    def _encoded(self, rows: _Row, more: _Row, startable: int) -> _Row:
        """What the head of the means reads: of each startable job, or of all rows at once."""
        settings = self.slots.settings
        if settings.encoder == "mlp":
            read = np.zeros((settings.rows, rows.shape[1]), np.float32)
            read[: len(rows)] = rows
            hidden = np.concatenate([read.ravel(), more])
            for layer in ("layer0", "layer1"):
                hidden = np.maximum(self._linear(hidden, layer), np.float32(0.0))
            return hidden
        joined = np.concatenate([rows, np.broadcast_to(more, (len(rows), len(more)))], axis=1)
        hidden = self._linear(joined, "embed")
        if settings.encoder == "pointer":
            states = self._recurrent(hidden[::-1], "jobs")[::-1]
            pointing: _Row = np.tanh(
                self._linear(states[:startable], "reference") + self._linear(states[0], "pointer")
            )
            return pointing
        for i in range(settings.layers):
            hidden = self._attend(hidden, i)
        return np.maximum(self._linear(hidden[:startable], "mean_layer"), np.float32(0.0))

    def _information(self, history: _Row) -> _Row:
        """What the auxiliary module says, (I,)."""
        settings = self.slots.settings
        if settings.auxiliary == "none":
            return np.zeros(0, np.float32)
        low = np.tanh(self._linear(self._recurrent(history, "past")[-1], "shared"))
        high = np.tanh(self._linear(low, "task"))
        said = []
        if settings.auxiliary in {"low", "both"}:
            said.append(low * np.float32(settings.low_coefficient))
        if settings.auxiliary in {"high", "both"}:
            said.append(high * np.float32(settings.high_coefficient))
        return np.concatenate(said)

    def _attend(self, x: _Row, layer: int) -> _Row:
        """One layer of the encoder: every job sees every job."""
        query, key, value = (self._linear(x, f"{p}{layer}") for p in ("query", "key", "value"))
        logits = query @ key.T / np.float32(np.sqrt(query.shape[1]))
        share = np.exp(logits - logits.max(axis=1, keepdims=True))
        found = (share / share.sum(axis=1, keepdims=True)) @ value
        x = self._normed(x + self._linear(found, f"output{layer}"), f"seen{layer}")
        inner = np.maximum(self._linear(x, f"inner{layer}"), np.float32(0.0))
        return self._normed(x + self._linear(inner, f"outer{layer}"), f"made{layer}")

    def _normed(self, x: _Row, layer: str) -> _Row:
        centred = x - x.mean(axis=1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + np.float32(NORM_EPSILON))
        normed: _Row = (
            centred / deviation * self.weights[f"{layer}.weight"] + self.weights[f"{layer}.bias"]
        )
        return normed

    def _recurrent(self, x: _Row, layer: str) -> _Row:
        """States (T, W) of a GRU that reads x (T, E), from zero."""
        inputs = self._linear(x, f"{layer}.input")
        width = inputs.shape[1] // 3
        weight = np.ascontiguousarray(self.weights[f"{layer}.state.weight"].T)
        bias = self.weights[f"{layer}.state.bias"]
        states, state = np.empty((len(x), width), np.float32), np.zeros(width, np.float32)
        for t, given in enumerate(inputs):
            kept = state @ weight + bias
            gates = 1.0 / (1.0 + np.exp(-(given[: 2 * width] + kept[: 2 * width])))
            reset, update = gates[:width], gates[width:]
            new = np.tanh(given[2 * width :] + reset * kept[2 * width :])
            state = states[t] = (1.0 - update) * new + update * state
        return states

    def _linear(self, x: _Row, layer: str) -> _Row:
        y: _Row = x @ self.weights[f"{layer}.weight"].T + self.weights[f"{layer}.bias"]
        return y
