"""Decisions of a block of rows as columns of Decisions: the step that all samples share."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.dataset.padding import Padded, pad

# Fields of Decisions with an element per row that are copied as they are, and their names in a
# Block.
COPIED: Final[Mapping[str, str]] = {
    **{
        name: name
        for name in (
            "propensity", "reward", "elapsed_s", "terminated", "episode", "step", "value",
            "truncated", "time_s",
        )
    },
    "reward_terms": "terms",
}  # fmt: skip


class Observations(NamedTuple):
    """Observations of R rows, with the shapes of hindcast.pipeline.dataset.part.Block."""

    context: NDArray[np.float32]
    image: NDArray[np.uint8] | None
    offsets: NDArray[np.int64]
    candidates: NDArray[np.float32]
    feasible: NDArray[np.bool_]
    probabilities: NDArray[np.float32]

    def write(
        self,
        rows: NDArray[np.int64],
        rng: np.random.Generator,
        out: Mapping[str, NDArray[Any]],
        choice: NDArray[np.int64] | None = None,
    ) -> None:
        """Fill the columns of Decisions `out`, (B, ...), with the observations of rows (B,).

        With the choices (B,) made there, also `choice` and `drawn` are filled. Without, columns
        next_* are filled, and the mask after a terminal decision is all false. Candidate sets are
        cut or padded to the K of `out`.
        """
        of = "next_" if choice is None else ""
        none = np.full(len(rows), NO_CHOICE, np.int64)
        np.take(self.context, rows, axis=0, out=out[f"{of}context"])
        if self.image is not None and f"{of}image" in out:
            np.take(self.image, rows, axis=0, out=out[f"{of}image"])
        filled = (out["choice"], out["drawn"], out.get("probabilities"))
        padded = Padded(
            out[f"{of}candidates"], out[f"{of}mask"],
            *(filled if choice is not None else (none.copy(), none.copy())),
        )  # fmt: skip
        pad(
            self.offsets, self.candidates, self.feasible, rows,
            none if choice is None else choice, rng, padded, self.probabilities,
        )  # fmt: skip
        if choice is None:
            out["next_mask"][out["terminated"]] = False
