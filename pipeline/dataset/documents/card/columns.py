"""Groups of the features of a dataset, a line each in the tables of its card."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from hindcast.pipeline.simulation.spec import Feature

_DIGITS: Final = re.compile(r"\d+")
_FEW: Final = 2  # more features that differ only in their numbers share one line


def grouped(features: Sequence[Feature]) -> Iterator[tuple[str, Feature, str]]:
    """Yield names, first feature and meaning of the features that share a line."""
    groups: dict[tuple[object, ...], list[Feature]] = {}
    for f in features:
        key = (
            _DIGITS.sub("#", f.name), _DIGITS.sub("#", f.description),
            f.unit, f.low, f.high, f.heavy_tailed, f.identifier,
        )  # fmt: skip
        groups.setdefault(key, []).append(f)
    for group in groups.values():
        first, last = group[0], group[-1]
        if len(group) > _FEW:
            meanings = dict.fromkeys((first.description, last.description))
            names = f"`{first.name}` ... `{last.name}` ({len(group)})"
            yield names, first, _noted(" ... ".join(meanings), first)
        else:
            yield from ((f"`{f.name}`", f, _noted(f.description, f)) for f in group)


def _noted(meaning: str, feature: Feature) -> str:
    notes = [
        *(["identifier, which learned scorers do not read"] if feature.identifier else []),
        *(["heavy-tailed"] if feature.heavy_tailed else []),
    ]
    return f"{meaning} ({'; '.join(notes)})" if notes else meaning
