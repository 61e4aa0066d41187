"""Scores of one or several evaluation folders, on common windows.

    folder A  scenario binpack, recipe r1 --+-- setting "binpack"       the same windows: paired
    folder B  scenario binpack, recipe r1 --+
    folder C  scenario slots,   recipe r2 ----- setting "slots"

A setting is one scenario of one recipe and split. Policies are compared inside a setting only, and
only on windows on which every one of them was run with all of its seeds.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.evaluation.summary.evaluations import (
    KEY,
    Evaluation,
    Kind,
    Metric,
    PolicyEntry,
    describe_row,
    read_evaluation,
    read_scores,
)
from hindcast.pipeline.statistics.intervals import Array, Stretches
from hindcast.pipeline.storage.provenance import NOT_RECORDED


@dataclass(frozen=True)
class PolicyRuns:
    """Results on common windows of one policy, or of the training seeds of one agent.

    Attributes:
        name: Name of the policy, or of the group.
        kind: Kind of the policy.
        values: Value of every run and window: (runs, windows). Runs are training seeds if the group
            has several, each averaged over its evaluation seeds in a window; else evaluation seeds.
        runs: Label of each run: (runs,); the policy's name for training seeds, else the seed.
        trained: Whether runs are training seeds.
    """

    name: str
    kind: Kind
    values: Array
    runs: tuple[str, ...]
    trained: bool

    @property
    def window_means(self) -> Array:
        """Average over runs on every window: (windows,)."""
        return np.asarray(self.values.mean(axis=0))

    @property
    def each(self) -> list[tuple[str, Array]]:
        """Name and (windows,) values of the policy, and of each of its training seeds."""
        seeds = zip(self.runs, self.values, strict=True) if self.trained else ()
        return [(self.name, self.window_means), *seeds]


@dataclass(frozen=True)
class Pairing:
    """All policies of a setting on one metric, over the windows that they have in common.

    Attributes:
        metric: The metric.
        windows: Indices of the common windows, ascending.
        policies: Results of every policy on these windows.
        left_out: Windows that at least one policy lacks.
        incomplete: Policies that lack windows, with the number of them.
        stretches: Stretches of the log that the windows count, (windows,); None if they share no
            jobs.
    """

    metric: Metric
    windows: tuple[int, ...]
    policies: tuple[PolicyRuns, ...]
    left_out: tuple[int, ...]
    incomplete: tuple[tuple[str, int], ...]
    stretches: Stretches | None = None

    @cached_property
    def ranked(self) -> tuple[PolicyRuns, ...]:
        """The policies by mean, best first, with names deciding ties.

        Policies are sorted by name if the metric has no better direction.
        """
        sign = {"lower": 1.0, "higher": -1.0, "neither": 0.0}[self.metric.better]
        return tuple(sorted(self.policies, key=lambda p: (sign * float(p.values.mean()), p.name)))

    @cached_property
    def by_name(self) -> dict[str, PolicyRuns]:
        """The policies by name."""
        return {policy.name: policy for policy in self.policies}


@dataclass(frozen=True)
class Setting:
    """One scenario of one recipe and split, with its scores.

    Attributes:
        label: Name of the setting in reports: the scenario, with more where several share it.
        key: Scenario, recipe, digest of the recipe, split.
        evaluations: Descriptions of the folders, in the given order.
        scores: Scores of all folders.
    """

    label: str
    key: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]
    scores: pl.DataFrame

    @property
    def first(self) -> Evaluation:
        """Description of the first folder; recipe, digest and headline are common to all."""
        return self.evaluations[0]

    @cached_property
    def entries(self) -> dict[str, PolicyEntry]:
        """Every policy that an evaluation.json lists, by name."""
        return {p.name: p for evaluation in self.evaluations for p in evaluation.policies}

    @cached_property
    def references(self) -> tuple[str, ...]:
        """Reference baselines that the folders name, in order."""
        return _ordered(name for e in self.evaluations for name in e.references)

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """Every scored metric except the bound; the headline comes first."""
        known = {m.name: m for e in reversed(self.evaluations) for m in e.metrics}
        scored = set(self.scores["metric"].unique())
        names = _ordered(
            [self.first.headline, *(m.name for e in self.evaluations for m in e.metrics)]
        )
        names += tuple(sorted(scored - set(names)))
        kept = [name for name in names if name in scored and name != self.first.bound]
        return tuple(known.get(name, Metric(name)) for name in kept)

    @cached_property
    def records(self) -> dict[str, Mapping[str, Any]]:
        """Records of where everything was computed, by key."""
        return {key: record for e in self.evaluations for key, record in e.records.items()}

    @cached_property
    def headline(self) -> Pairing:
        """All policies on the headline metric; DatasetError without a common window."""
        return self.pair(self.first.headline)

    @cached_property
    def pairings(self) -> dict[str, Pairing]:
        """All policies by metric, the headline first; side metrics with common windows only."""
        found = {self.first.headline: self.headline}
        for name in [metric.name for metric in self.metrics if metric.name not in found]:
            with suppress(DatasetError):  # a side metric is no reason to refuse the comparison
                found[name] = self.pair(name)
        return found

    def origin(self, policy: PolicyRuns) -> str:
        """Return the keys of where a policy was scored and, if it was learned, trained."""
        names = policy.runs if policy.trained else (policy.name,)
        entries = [p for p in self.entries.values() if p.name in names or p.group == policy.name]
        keys = [k for e in self.evaluations for k in e.sessions or (NOT_RECORDED,)]
        if policy.kind == "learned":
            keys += [key for entry in entries for key in entry.trained or (NOT_RECORDED,)]
        return " ".join(dict.fromkeys(keys))

    def pair(self, metric: str) -> Pairing:
        """Return all policies on one metric over common windows; NaN counts as not run.

        Raises DatasetError if the policies have no window in common.
        """
        known = next((m for m in self.metrics if m.name == metric), Metric(metric))
        rows = self.scores.filter((pl.col("metric") == metric) & pl.col("value").is_not_nan())
        names = [name for name in self.entries if name in set(rows["policy"].unique())]
        complete = {name: _complete_windows(rows, name) for name in names}
        seen = set(rows["window"].unique())
        common = seen.intersection(*complete.values())
        lacking = {name: len(seen) - len(complete[name]) for name in names}
        if not common:
            worst = max(lacking, key=lambda name: lacking[name], default="")
            raise DatasetError(
                f"{self.first.folder / 'scores.parquet'}: the policies have no common window for "
                f"metric {metric!r} of {self.label!r}"
                + (f"; {worst!r} has {len(complete[worst])} of {len(seen)}" if worst else "")
            )
        windows = tuple(sorted(common))
        rows = rows.filter(pl.col("window").is_in(windows)).sort("policy", "window", "seed")
        return Pairing(
            metric=known,
            windows=windows,
            policies=tuple(self._groups(rows, names, len(windows))),
            left_out=tuple(sorted(seen - common)),
            incomplete=tuple((name, count) for name, count in lacking.items() if count),
            stretches=self._stretches(windows),
        )

    def _stretches(self, windows: Sequence[int]) -> Stretches | None:
        known = {w: s for e in self.evaluations if e.stretches for w, s in e.stretches.items()}
        return tuple(known[w] for w in windows) if known.keys() >= set(windows) else None

    def _groups(self, rows: pl.DataFrame, names: Sequence[str], windows: int) -> list[PolicyRuns]:
        """Return the policies; those of a group are the training seeds of one agent, or one log.

        `rows` are the scores of `names` on a metric, sorted by policy, window and seed; each policy
        has as many seeds on every window.
        """
        tables: dict[str, tuple[Array, tuple[str, ...]]] = {}
        for (name,), part in rows.group_by("policy", maintain_order=True):
            seeds = part["seed"].to_numpy().reshape(windows, -1)  # (W, seeds)
            same = bool((seeds == seeds[0]).all())
            labels = tuple(str(s) if same else f"draw {i}" for i, s in enumerate(seeds[0]))
            tables[str(name)] = (part["value"].to_numpy().reshape(windows, -1).T, labels)
        members: dict[str, list[str]] = {}
        for name in names:
            members.setdefault(self.entries[name].group, []).append(name)
        groups = []
        for group, inside in members.items():
            kind = self.entries[inside[0]].kind
            weights = [self.entries[name].episodes for name in inside]
            if kind == "mixture" and None not in weights:
                # A log is a fixed mixture: windows are resampled, its composition is not.
                each = np.stack([tables[name][0].mean(axis=0) for name in inside])
                mixed = np.average(each, axis=0, weights=np.asarray(weights, np.float64))
                groups.append(PolicyRuns(group, kind, mixed[None], ("log",), trained=False))
            elif len(inside) == 1:
                values, labels = tables[inside[0]]
                groups.append(PolicyRuns(group, kind, values, labels, trained=False))
            else:
                pooled = np.stack([tables[name][0].mean(axis=0) for name in inside])
                groups.append(PolicyRuns(group, kind, pooled, tuple(inside), trained=True))
        return groups


def read_settings(folders: Sequence[Path]) -> list[Setting]:
    """Read evaluation folders and group them into settings, in the given order.

    A policy that several folders of a setting hold with equal values, such as a baseline that each
    evaluation ran, counts once. Raises DatasetError for a folder that is no evaluation, a policy
    that evaluation.json does not describe, and scores that contradict each other.
    """
    if not folders:
        raise DatasetError("no evaluation folder was given; name at least one")
    parts: dict[tuple[str, ...], list[tuple[Evaluation, pl.DataFrame]]] = {}
    for folder in dict.fromkeys(folders):
        evaluation = read_evaluation(folder)
        scores = read_scores(folder)
        _check_policies(evaluation, scores)
        for (scenario,), part in scores.group_by("scenario", maintain_order=True):
            key = (str(scenario), evaluation.recipe, evaluation.digest, evaluation.split)
            parts.setdefault(key, []).append((evaluation, part))
    labels = _labels(list(parts))
    return [
        Setting(label, key, tuple(e for e, _ in group), _merge(group))
        for label, (key, group) in zip(labels, parts.items(), strict=True)
    ]


def _merge(group: list[tuple[Evaluation, pl.DataFrame]]) -> pl.DataFrame:
    """Return the scores of all folders of a setting; DatasetError if they contradict."""
    evaluations = [evaluation for evaluation, _ in group]
    first = evaluations[0]
    described: dict[str, tuple[PolicyEntry, Path]] = {}
    for evaluation in evaluations:
        if (evaluation.headline, evaluation.bound) != (first.headline, first.bound):
            raise DatasetError(
                f"{evaluation.folder}: the headline or bound metric differs from that of "
                f"{first.folder}; report these folders separately"
            )
        for entry in evaluation.policies:
            other, folder = described.setdefault(entry.name, (entry, evaluation.folder))
            if (other.kind, other.group, other.digest) != (entry.kind, entry.group, entry.digest):
                raise DatasetError(
                    f"{evaluation.folder}: policy {entry.name!r} is another one than the policy of "
                    f"that name in {folder}; rename one of them"
                )
    _check_groups(first.folder, [entry for entry, _ in described.values()])
    scores = pl.concat([part for _, part in group]).unique(maintain_order=True)
    twice = scores.filter(pl.struct(KEY).is_duplicated())
    if not twice.is_empty():
        folders = ", ".join(str(evaluation.folder) for evaluation in evaluations)
        raise DatasetError(
            f"{folders}: a score is duplicated with different values "
            f"({describe_row(twice.row(0, named=True))}); rename one of the policies"
        )
    if first.headline not in set(scores["metric"].unique()):
        raise DatasetError(
            f"{first.folder / 'scores.parquet'}: there are no scores of the headline metric "
            f"{first.headline!r}"
        )
    return scores


def _check_policies(evaluation: Evaluation, scores: pl.DataFrame) -> None:
    """Raise DatasetError if a policy has scores that evaluation.json does not list."""
    known = {entry.name for entry in evaluation.policies}
    unknown = sorted(set(scores["policy"].unique()) - known)
    if unknown:
        raise DatasetError(
            f"{evaluation.folder / 'scores.parquet'}: policy {unknown[0]!r} is not listed under "
            "'policies' in evaluation.json"
        )


def _check_groups(folder: Path, entries: list[PolicyEntry]) -> None:
    """Raise DatasetError if policies of a group are of several kinds."""
    kinds: dict[str, Kind] = {}
    for entry in entries:
        if kinds.setdefault(entry.group, entry.kind) != entry.kind:
            raise DatasetError(
                f"{folder / 'evaluation.json'}: group {entry.group!r} pools policies of kinds "
                f"{kinds[entry.group]!r} and {entry.kind!r}"
            )


def _complete_windows(rows: pl.DataFrame, policy: str) -> set[int]:
    """Return the windows on which the policy has as many seeds as on any window."""
    counts = rows.filter(pl.col("policy") == policy).group_by("window").len()
    return set(counts.filter(pl.col("len") == pl.col("len").max())["window"])


def _labels(keys: list[tuple[str, ...]]) -> list[str]:
    """Return the scenario's name for each setting, with more of its key where names repeat."""
    for parts in range(1, len(keys[0]) + 1):
        labels = [" / ".join(part for part in key[:parts] if part) for key in keys]
        if len(set(labels)) == len(labels):
            return labels
    return [f"{' / '.join(key)} ({i})" for i, key in enumerate(keys, start=1)]


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
