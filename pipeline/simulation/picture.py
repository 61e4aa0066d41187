"""Pictures of a state, as data: which numbers of an observation are drawn, and how.

A scenario declares the panels of its picture as `Scenario.picture`. A panel names features, and
what draws it needs nothing else, so that a picture shows only what an observation holds.

    bars    a bar for each of `features`, or for each candidate
    line    the features of the moment in `features`, in their order, as a line
    points  a point for each candidate
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.simulation.spec import Feature, Spec

# Roles of the columns of candidates, by mark; a `key` names what a candidate belongs to, such as
# a machine: the first candidate of each key is drawn, and none with a key below 0.
_ROLES: Final = {
    "bars": ("to", "since", "thick", "taken", "key"),
    "points": ("x", "y", "size", "shade"),
    "line": (),
}


@dataclass(frozen=True)
class Panel:
    """One drawing of a picture.

    Attributes:
        title: What it shows.
        mark: "bars", "line" or "points".
        features: Features of the moment that are drawn; empty if candidates are.
        of: Columns of the candidates by their roles. Bars go from `since`, or 0, to `to`, are as
            thick as `thick`, and have the last `taken` of the chosen candidate in another colour.
            Points lie at `x` and `y`, with `size` and `shade`.
        full: Feature of the candidates or the moment that is the whole length of a bar; without
            it, the upper bound of what is drawn, or the largest value of the episode.
    """

    title: str
    mark: Literal["bars", "line", "points"]
    features: tuple[str, ...] = ()
    of: Mapping[str, str] = field(default_factory=dict)
    full: str = ""


def resolved(panel: Panel, spec: Spec) -> dict[str, Any]:
    """Return a panel with the positions of its features, and their names as `columns`.

    Raises:
        InputError: The panel has no such mark or role, or draws nothing.
        UnknownName: A feature is none of the spec, with the nearest one.
    """
    told = f"picture of {spec.scenario}, {panel.title!r}"
    if panel.mark not in _ROLES or set(panel.of) - set(_ROLES[panel.mark]):
        raise InputError(
            f"{told}: {panel.mark} with {', '.join(panel.of) or 'features'}; expected "
            + ", ".join(f"{mark} with {' '.join(roles)}" for mark, roles in _ROLES.items())
        )
    if bool(panel.features) == bool(panel.of):
        raise InputError(f"{told}: expected either features of the moment or roles of candidates")
    context, candidates = spec.context, spec.candidates
    full = None
    if panel.full:
        names = [one.name for one in candidates] if panel.of else []
        full = (
            ["candidates", names.index(panel.full)]
            if panel.full in names
            else ["context", _place(panel.full, context, told)]
        )
    return {
        "title": panel.title,
        "mark": panel.mark,
        "features": [_place(name, context, told) for name in panel.features],
        "of": {role: _place(name, candidates, told) for role, name in panel.of.items()},
        "full": full,
        "columns": list(dict.fromkeys(_columns(panel))),
    }


def _columns(panel: Panel) -> Iterator[str]:
    """Yield the names of what is drawn; of many features in a row, the first and the last."""
    few = len(panel.features) <= 8
    yield from panel.features if few else (f"{panel.features[0]} ... {panel.features[-1]}",)
    yield from panel.of.values()
    if panel.full:
        yield panel.full


def _place(name: str, features: tuple[Feature, ...], told: str) -> int:
    names = [feature.name for feature in features]
    if name not in names:
        raise unknown_name(f"{told}: feature", name, names)
    return names.index(name)
