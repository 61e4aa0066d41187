"""Lineage of a dataset that `hindcast filter`, `merge` or `split` made of other datasets.

The manifest keeps what was done with which arguments, and for each parent its name, the digests of
its recipes and of its data, its size, the versions that wrote it, and its own lineage.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from shlex import quote
from typing import Any, Final

from hindcast.pipeline.storage.json_values import a_count, a_list, a_sha256, a_table, a_text
from hindcast.pipeline.workloads.caveats import Caveat

FILTER: Final = "filter"
MERGE: Final = "merge"
SPLIT: Final = "split"
OPERATIONS: Final = (FILTER, MERGE, SPLIT)
SELECTED: Final = "selected"  # code of the caveat of episodes that outcomes may have selected
# Arguments that may select by what came of the decisions. A window, a split or a behaviour is known
# before them.
_BY_OUTCOME: Final = ("where", "episodes", "drop_episodes")


@dataclass(frozen=True)
class Parent:
    """A dataset that another one was made of.

    Attributes:
        name: Its name in its manifest.
        digest: Digest of its recipes and its lineage.
        data_sha256: SHA-256 of the digests of its parts and its episodes.
        episodes: Number of its episodes.
        decisions: Number of its decisions.
        versions: Versions of packages that its rows depend on, of each build and append.
        lineage: Operation that made the parent, or None if it was built or ingested.
    """

    name: str
    digest: str
    data_sha256: str
    episodes: int
    decisions: int
    versions: tuple[Mapping[str, str], ...]
    lineage: "Lineage | None" = None


@dataclass(frozen=True)
class Lineage:
    """Operation that made a dataset of others.

    Attributes:
        operation: One of OPERATIONS.
        arguments: The arguments of the operation, without places of this machine.
        parents: The datasets that it was applied to, in order.
    """

    operation: str
    arguments: Mapping[str, Any]
    parents: tuple[Parent, ...]

    @property
    def versions(self) -> tuple[Mapping[str, str], ...]:
        """Versions that made the decisions: those of all parents that were built or ingested."""
        return tuple(
            versions
            for parent in self.parents
            for versions in (parent.lineage.versions if parent.lineage else parent.versions)
        )

    @property
    def digests(self) -> tuple[str, ...]:
        """Digests of all datasets above this one."""
        above = (parent.lineage.digests if parent.lineage else () for parent in self.parents)
        return (*(parent.digest for parent in self.parents), *chain.from_iterable(above))

    @property
    def divides(self) -> bool:
        """True if the operation moves windows of the train split to other splits."""
        return self.operation == SPLIT and len(self.arguments) > 1

    @property
    def divided(self) -> bool:
        """True if this operation or one above it moved windows of the train split to others."""
        above = (parent.lineage for parent in self.parents)
        return self.divides or any(lineage is not None and lineage.divided for lineage in above)

    def divided_since(self, digest: str) -> bool:
        """Return whether such windows were moved after an ancestor, named by its digest."""
        for parent in self.parents:
            higher = parent.lineage
            below = higher is not None and digest in higher.digests
            if self.divides and (below or parent.digest == digest):
                return True
            if higher is not None and higher.divided_since(digest):
                return True
        return False

    @property
    def words(self) -> str:
        """The operation with its arguments as they are written on the command line."""
        options = (
            f"--{name.replace('_', '-')} {_word(value)}" for name, value in self.arguments.items()
        )
        return " ".join([self.operation, *options])


def _word(value: Any) -> str:
    return " ".join(map(_word, value)) if isinstance(value, list) else quote(str(value))


def lineage_to_json(lineage: Lineage) -> dict[str, Any]:
    """Return a lineage as JSON."""
    return {
        "operation": lineage.operation,
        "arguments": dict(lineage.arguments),
        "parents": [
            {
                "name": parent.name,
                "digest": parent.digest,
                "data_sha256": parent.data_sha256,
                "episodes": parent.episodes,
                "decisions": parent.decisions,
                "versions": [dict(versions) for versions in parent.versions],
                **({"lineage": lineage_to_json(parent.lineage)} if parent.lineage else {}),
            }
            for parent in lineage.parents
        ],
    }


def lineage_from_json(value: Any) -> Lineage:
    """Invert `lineage_to_json`; raise KeyError, TypeError or ValueError for damage."""
    table = a_table(value)
    operation, parents = a_text(table["operation"]), a_list(table["parents"])
    if operation not in OPERATIONS or not parents:
        raise ValueError(f"lineage: {operation!r} of {len(parents)} parents")
    return Lineage(operation, a_table(table["arguments"]), tuple(map(_parent, parents)))


def _parent(value: Any) -> Parent:
    """Return a parent from JSON; raise KeyError, TypeError or ValueError for damage."""
    table = a_table(value)
    return Parent(
        name=a_text(table["name"]),
        digest=a_sha256(table["digest"]),
        data_sha256=a_sha256(table["data_sha256"]),
        episodes=a_count(table["episodes"]),
        decisions=a_count(table["decisions"]),
        versions=tuple(
            {k: a_text(v) for k, v in a_table(one).items()} for one in a_list(table["versions"])
        ),
        lineage=lineage_from_json(table["lineage"]) if "lineage" in table else None,
    )


def lineage_lines(lineage: Lineage | None, depth: int = 0) -> Iterator[str]:
    """Yield a line for the operation and for each parent, with the parents' own below them."""
    if lineage is None:
        return
    indent = "  " * depth
    yield f"{indent}{lineage.words}"
    for parent in lineage.parents:
        yield (
            f"{indent}  of {parent.name}: {parent.episodes:,} episodes, {parent.decisions:,} "
            f"decisions, digest {parent.digest[:12]}, data {parent.data_sha256[:12]}"
        )
        yield from lineage_lines(parent.lineage, depth + 2)


def selection_caveats(lineage: Lineage | None) -> tuple[Caveat, ...]:
    """Return a caveat if episodes may have been selected by their outcomes, anywhere above."""
    if not (found := list(dict.fromkeys(_selections(lineage)))):
        return ()
    text = (
        "the episodes were selected by conditions that may depend on their outcomes "
        f"({'; '.join(found)}): they are no sample of what the behaviours do. Propensities are "
        "right for each decision, but means, estimates of returns and agents learned from these "
        "episodes are biased by the selection"
    )
    return (Caveat(SELECTED, text, {}),)


def _selections(lineage: Lineage | None) -> Iterator[str]:
    """Yield the words of every operation that chose episodes by what is known of them."""
    if lineage is None:
        return
    arguments = {k: v for k, v in lineage.arguments.items() if k in _BY_OUTCOME}
    if arguments:
        yield Lineage(lineage.operation, arguments, ()).words
    for parent in lineage.parents:
        yield from _selections(parent.lineage)
