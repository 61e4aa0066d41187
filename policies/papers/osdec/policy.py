"""Policy that acts with an OSDEC network (policies.papers.osdec.network), without torch.

The scores of a slot depend on the state at its beginning. At a later decision of the slot the
policy undoes the starts made so far (pipeline.scenarios.deferrable.slotwise) and scores that state
again. Decision by decision it therefore starts the same jobs as one action of the paper would,
without any memory between decisions.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import HindcastError
from pipeline.scenarios.deferrable.features import MOMENT, ROW
from pipeline.scenarios.deferrable.layout import HISTORY, LAGS
from pipeline.simulation.kernel import Compiled
from pipeline.simulation.policy import Reading
from policies.networks import Architecture, Features
from policies.networks.policy import LearnedPolicy
from policies.networks.settings import Weights
from policies.papers.osdec.network import (
    BEYOND,
    NORM_EPSILON,
    SlotScoresNetwork,
    SlotScoresSettings,
    slot_scores_network,
)

_Row = NDArray[np.float32]


class SlotScoresPolicy(LearnedPolicy):
    """BatchPolicy of the network with its weights; acts with the mean scores."""

    network: SlotScoresNetwork  # type: ignore[assignment]
    reads: tuple[Reading, ...] = ("feasible",)

    def __init__(
        self,
        name: str,
        network: SlotScoresNetwork,
        weights: Weights,
        features_context: Features,
        features_candidates: Features,
    ) -> None:
        # Compiled when a policy is made, not when checkpoints are only inspected.
        from pipeline.scenarios.deferrable.slotwise import begin_of_slot, waiting_jobs
        from pipeline.scenarios.deferrable.slotwise_action import stop_at_misfit

        self._stop: Compiled = stop_at_misfit
        self._begin: Compiled = begin_of_slot
        self._waiting = waiting_jobs
        super().__init__(name, network, weights, features_context, features_candidates)
        # Scores of the slots of the last call: most of its observations come again with one more
        # job started, and have the same slot state, hence the same scores.
        self._known: dict[bytes, NDArray[np.float64]] = {}

    def batch_scores(
        self,
        context: NDArray[np.float64],
        candidates: NDArray[np.float64],
        offsets: NDArray[np.int64],
        *,
        feasible: NDArray[np.bool_] | None = None,
        image: NDArray[np.uint8] | None = None,  # noqa: ARG002 - the protocol's
    ) -> NDArray[np.float64]:
        """Return scores (sum of N,) of B observations, whose last row closes the slot.

        Raises HindcastError if the shapes of the arrays do not match.
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
                (rows[:, ROW.is_startable] == 1.0)
                & (rows[:, ROW.cores] <= context[b, MOMENT.free_cores])
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
        """Return mean scores (K,) of the K startable jobs of one slot.

        moment (C,), rows (J, F) and history (LAGS + 1, HISTORY) describe the beginning of the slot.
        Slots are scored one at a time, since sums of BLAS depend on the number of rows of a call,
        and a score must not.
        """
        settings = self.network.settings
        means = np.full(startable, np.float32(BEYOND))
        startable = min(startable, settings.rows)
        if startable == 0:
            return means
        seen = self.network.candidates.expand(rows[: settings.rows])
        more = self.network.context.expand(moment[None])[0]
        more = np.concatenate([more, self._information(self.network.history(history))])
        hidden = self._encoded(seen, more, startable)
        means[:startable] = np.tanh(self._linear(hidden, "mean")).ravel()[:startable]
        return means

    def _encoded(self, rows: _Row, more: _Row, startable: int) -> _Row:
        """Return the inputs of the mean head: one row per startable job, or one vector (mlp)."""
        settings = self.network.settings
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
        """Return the outputs (I,) of the auxiliary module."""
        settings = self.network.settings
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
        """Return x after one layer of self-attention."""
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
        """Return the states (T, W) of a GRU that reads x (T, E), from state zero."""
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


ARCHITECTURE: Final = Architecture(SlotScoresPolicy, SlotScoresSettings, slot_scores_network)
