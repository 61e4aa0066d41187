"""Columns of a dataset as Markdown tables: names, types, units, ranges, meanings."""

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from hindcast.pipeline.simulation.spec import Feature, Spec

_DIGITS: Final = re.compile(r"\d+")
_FEW: Final = 2  # more features that differ only in their numbers share one line


_Row: TypeAlias = tuple[str, str, str, str]  # names, type, unit, meaning


def columns(spec: Spec) -> list[str]:
    """Return tables of every column of the parts and of episodes.parquet."""
    return [
        "`data/*.parquet` has one row per decision and one closing row per episode:",
        "",
        *_table(_decision_columns(spec)),
        "",
        "`context` describes the situation in which the decision is taken:",
        "",
        *_features(spec.context),
        "",
        "`candidates` describes each thing that can be chosen:",
        "",
        *_features(spec.candidates),
        "",
        "`episodes.parquet` has one row per episode:",
        "",
        *_table(_episode_columns(spec)),
    ]


def _table(rows: Iterable[_Row]) -> list[str]:
    return [
        "| column | type | unit | meaning |",
        "|---|---|---|---|",
        *(
            f"| `{names.replace(', ', '`, `')}` | {kind} | {unit} | {_cell(meaning)} |"
            for names, kind, unit, meaning in rows
        ),
    ]


def _cell(text: str) -> str:
    """Return text that cannot end a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _decision_columns(spec: Spec) -> list[_Row]:
    rows = [
        ("episode", "int64", "", "number of the episode, a row of `episodes.parquet`"),
        ("step", "int32", "", "number of the decision in its episode: 0, 1, 2, ..."),
        ("time_s", "double", "s", "simulated time since the start of the episode"),
        ("context", f"struct of {len(spec.context)} float", "see below", "the situation"),
        (
            "candidates", f"list of struct of {len(spec.candidates)} float", "see below",
            "one element per candidate",
        ),
        ("feasible", "list of bool", "", "whether each candidate may be chosen"),
        ("choice", "int32", "index", "the chosen candidate; null in closing rows"),
        ("propensity", "float", "probability", "with which the behaviour chose it"),
        (
            "behaviour_probabilities", "list of float", "probability",
            "of every candidate; the sum over the feasible ones is 1",
        ),
        (
            "reward", "double", "",
            f"under the objective `{spec.objective}`; discount {spec.discount:g}",
        ),
        ("reward_terms", f"struct of {len(spec.reward_terms)} double", "", _terms(spec)),
        ("elapsed_s", "double", "s", "simulated time from this decision to the next"),
        (
            "terminated, truncated", "bool", "",
            "whether the episode ended, or was cut off, with this decision",
        ),
    ]  # fmt: skip
    if spec.valued:
        value = (
            "monte_carlo_value",
            "double",
            "",
            "value of the decision, computed at the end of the episode",
        )
        rows.insert(9, value)
    if spec.image_shape:
        shape = " x ".join(map(str, spec.image_shape))
        rows.insert(
            4, ("image", "fixed-size list of uint8", "grey", f"image of {shape} pixels, row by row")
        )
    return rows


def _terms(spec: Spec) -> str:
    return "quantities booked in addition to the reward: " + ", ".join(
        f"`{name}`" for name in spec.reward_terms
    )


def _episode_columns(spec: Spec) -> list[_Row]:
    return [
        ("episode", "int64", "", "0, 1, 2, ..."),
        ("split", "string", "", "split of its window"),
        ("behaviour", "string", "", "name of the policy that took the decisions"),
        ("seed", "int64", "", "repetition of the behaviour on the window"),
        ("window", "int64", "", "problem instance: the same for every behaviour"),
        ("steps", "int64", "decisions", "number of decisions"),
        ("return", "double", "", "sum of rewards, undiscounted"),
        ("elapsed_s", "double", "s", "simulated time over all decisions"),
        ("truncated", "bool", "", "whether it was cut off before its end"),
        *((o.name, "double", o.unit, _outcome(o.description, o.better)) for o in spec.outcomes),
        (
            "behaviour_parameters",
            "list of double",
            "",
            "parameters that the behaviour drew, if any",
        ),
        (
            "first_part, last_part",
            "int64",
            "",
            "numbers of the first and last file that hold its rows",
        ),
    ]


def _outcome(description: str, better: str) -> str:
    return description if better == "neither" else f"{description} ({better} is better)"


def _features(features: Sequence[Feature]) -> list[str]:
    lines = ["| feature | unit | range | meaning |", "|---|---|---|---|"]
    for group in _groups(features):
        first, last = group[0], group[-1]
        if len(group) > _FEW:
            names = f"`{first.name}` ... `{last.name}` ({len(group)})"
            meaning = f"{first.description} ... {last.description}"
            if first.description == last.description:
                meaning = first.description
            lines.append(_feature(names, first, meaning))
        else:
            lines += [_feature(f"`{f.name}`", f, f.description) for f in group]
    return lines


def _feature(names: str, feature: Feature, meaning: str) -> str:
    notes = [
        *(["identifier, which learned scorers do not read"] if feature.identifier else []),
        *(["heavy-tailed"] if feature.heavy_tailed else []),
    ]
    shown = f"{meaning} ({'; '.join(notes)})" if notes else meaning
    bounds = f"{feature.low:g} .. {feature.high:g}"
    return f"| {names} | {feature.unit} | {bounds} | {_cell(shown)} |"


def _groups(features: Sequence[Feature]) -> list[list[Feature]]:
    """Group features whose names differ only in their numbers, in order of the first."""
    groups: dict[tuple[object, ...], list[Feature]] = {}
    for f in features:
        key = (
            _DIGITS.sub("#", f.name), _DIGITS.sub("#", f.description),
            f.unit, f.low, f.high, f.heavy_tailed, f.identifier,
        )  # fmt: skip
        groups.setdefault(key, []).append(f)
    return list(groups.values())
