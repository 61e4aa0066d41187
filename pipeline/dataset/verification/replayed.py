"""Results of the replay of parts, wherever they are replayed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Replayed:
    """Result of the replay of some parts that match the simulator.

    Attributes:
        recomputed: Number of decisions whose probabilities were recomputed.
        unequal: Number of episodes whose draws cannot be compared.
        reason: Why those of the first of them cannot be.
    """

    recomputed: int = 0
    unequal: int = 0
    reason: str = ""

    def __add__(self, later: "Replayed") -> "Replayed":
        """Return the result of these parts and later ones."""
        return Replayed(
            self.recomputed + later.recomputed, self.unequal + later.unequal,
            self.reason or later.reason,
        )  # fmt: skip


# elsewhere(parts, tell) has parts replayed by other processes, in any order, calls tell(n) whenever
# n more of them are done, and returns what all give together. It raises the error of the first part
# that differs.
Elsewhere = Callable[[Sequence[int], Callable[[int], None]], Replayed]
