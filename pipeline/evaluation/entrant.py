"""Entrants of evaluations: policies with the facts that reports and plans need about them."""

from dataclasses import dataclass

from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.storage.provenance import Record


@dataclass(frozen=True)
class Entrant:
    """A policy to be scored, with the facts that the report needs about it.

    Attributes:
        behaviour: The policy, with its epsilon and temperature.
        kind: "heuristic", "random", "learned", "mixture", "knows run times" or "recorded".
        group: Name of the agent without its seed; training seeds of one agent are pooled under it.
        checkpoint: Folder of a learned policy.
        digest: SHA-256 of the weights of a learned policy, or of the source of an own policy.
        code: File and name of a policy of the user's own; None for any other.
        episodes: Episodes per window of a behaviour of the log, its weight in the mean of the log.
        trained: Sessions of the training of a learned policy, see
            `hindcast.pipeline.storage.provenance`.
        learned_from: Digest of the recipe whose windows a learned policy was trained on.
        delivered: "agent" or "rule": what the gate of its training delivered; "" for any other.
        word: Word that named the policy, such as a folder; "" for an object of a program.
    """

    behaviour: Behaviour
    kind: str
    group: str
    checkpoint: str | None = None
    digest: str | None = None
    episodes: int | None = None
    trained: tuple[Record, ...] = ()
    code: str | None = None
    learned_from: str = ""
    delivered: str = ""
    word: str = ""

    @property
    def is_agent(self) -> bool:
        """True if the policy learned or is of the user's own, so that looks at it count."""
        return self.digest is not None and (self.kind == "learned" or self.code is not None)
