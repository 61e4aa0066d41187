"""Sentences about the policies of an evaluation: a rule's description, an agent's checkpoint."""

from collections.abc import Iterable
from typing import Final

from hindcast.pipeline.evaluation.summary.evaluations import Kind, PolicyEntry

_KINDS: Final[dict[Kind, str]] = {
    "heuristic": "a rule that this evaluation does not describe",
    "random": "a policy that draws, which this evaluation does not describe",
    "learned": "learned",
    "mixture": "the log: its behaviours, each with its share of the episodes",
    "knows run times": "a rule that is given the true run times, which no scheduler has",
    "recorded": "the decisions of the log's scheduler, played in the simulator",
}
_CHECKPOINTS: Final = {  # ending of a group -> which of a training's checkpoints it is
    "-delivered": "the checkpoint that was delivered",
    "-best": "the checkpoint that was best on validation windows",
}


def described(entries: Iterable[PolicyEntry]) -> dict[str, str]:
    """Return a sentence about every policy by name, and by group about agents of several seeds."""
    found: dict[str, str] = {}
    members: dict[str, list[PolicyEntry]] = {}
    for entry in entries:
        found[entry.name] = entry.description or _sentence([entry])
        members.setdefault(entry.group, []).append(entry)
    for group, inside in members.items():
        found.setdefault(group, _sentence(inside))
    return found


def _sentence(entries: list[PolicyEntry]) -> str:
    first = entries[0]
    endings = (text for ending, text in _CHECKPOINTS.items() if first.group.endswith(ending))
    which = next(endings, None) if first.kind == "learned" else None
    weights = ", ".join(
        f"{entry.checkpoint} (weights {entry.digest[:12]})" if entry.digest else entry.checkpoint
        for entry in entries
        if entry.checkpoint
    )
    return "; ".join(filter(None, (_KINDS[first.kind], which, weights)))
