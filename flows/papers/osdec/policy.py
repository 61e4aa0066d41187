"""Policy that acts with an OSDEC network (hindcast.flows.papers.osdec.network), without torch.

The scores of a slot depend on the state at its beginning. At a later decision of the slot the
policy undoes the starts made so far (hindcast.flows.papers.osdec.slotwise) and scores
that state again. Decision by decision it therefore starts the same jobs as one action of the paper
would, without any memory between decisions.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.flows.papers.osdec.network import (
    BEYOND,
    HISTORY,
    SlotScoresNetwork,
    SlotScoresSettings,
    slot_scores_network,
)
from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.scenarios.deferrable.features import MOMENT, ROW
from hindcast.pipeline.scenarios.deferrable.layout import LAGS
from hindcast.pipeline.simulation.kernel import Compiled
from hindcast.pipeline.simulation.policy import Reading
from hindcast.policies.networks import Architecture, Features
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import Weights

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
        from hindcast.flows.papers.osdec.forward import slot_arrays, slot_means
        from hindcast.flows.papers.osdec.slotwise import begin_of_slot, waiting_jobs
        from hindcast.pipeline.scenarios.deferrable.slotwise_action import stop_at_misfit

        self._stop: Compiled = stop_at_misfit
        self._begin: Compiled = begin_of_slot
        self._waiting = waiting_jobs
        self._means: Compiled = slot_means
        self._slot = slot_arrays(network, weights)
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
        Jobs beyond those that the network reads get BEYOND.
        """
        most = self.network.settings.rows
        means = np.full(startable, np.float32(BEYOND))
        if startable:
            self._means(moment, rows[:most], history, min(startable, most), self._slot, means)
        return means


ARCHITECTURE: Final = Architecture(SlotScoresPolicy, SlotScoresSettings, slot_scores_network)
