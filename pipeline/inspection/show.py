"""Details of one folder: a dataset, a workload, an evaluation, a checkpoint or a run."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.documents.card.coverage import Coverage, measure
from hindcast.pipeline.dataset.documents.card.page import split_sizes, warnings
from hindcast.pipeline.dataset.documents.card.returns import behaviour_returns
from hindcast.pipeline.dataset.lineage import lineage_lines, lineage_to_json
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.evaluation.summary.evaluations import read_evaluation, read_scores
from hindcast.pipeline.inspection import list as catalogue
from hindcast.pipeline.inspection.columns import aligned, size
from hindcast.pipeline.pages.numbers import decimals_for, write_estimate
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.statistics.intervals import Interval
from hindcast.pipeline.storage.files import read_json
from hindcast.pipeline.storage.run_files import DESCRIPTION, LEDGER
from hindcast.pipeline.workloads.caveats import Caveat, of_provenance, to_json
from hindcast.pipeline.workloads.folder import load_workload
from hindcast.pipeline.workloads.schema import read_provenance


@dataclass(frozen=True)
class Details:
    """Details of a folder, as one JSON object and as lines of text."""

    facts: dict[str, Any]
    lines: list[str]


def details(folder: Path) -> Details:
    """Return the details of a folder; DatasetError if it is damaged or not of a known kind."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise DatasetError(f"{folder}: {what}, expected a dataset, a checkpoint or an evaluation")
    entry = catalogue.entry_of(folder)
    if entry is None:
        raise DatasetError(
            f"{folder}: holds no dataset, workload, evaluation, checkpoint or run; "
            f"`hindcast list {folder}` searches the folders below it"
        )
    if entry.damage:
        raise DatasetError(f"{folder}: {entry.damage}")
    tell = _TELLERS.get(entry.kind)
    told = Details({}, []) if tell is None else tell(folder)
    head = [f"{folder}: {entry.kind} {entry.name}".rstrip()]
    if entry.digest:
        head.append(f"  digest    {entry.digest}")
    if entry.bytes is not None:
        head.append(f"  size      {size(entry.bytes)}")
    return Details({**entry.to_json(), **told.facts}, [*head, *told.lines])


def _dataset(folder: Path) -> Details:
    """Return the details of a dataset's folder."""
    dataset = ds.open(folder)
    manifest, episodes = dataset.manifest, dataset.episodes()
    coverage = measure(folder, manifest, episodes)
    headline = manifest.spec.outcomes[0]
    scenario, config = load_scenario(manifest.recipe.scenario), manifest.recipe.config
    behaviours = behaviour_returns(episodes, headline, scenario, config)
    splits = split_sizes(episodes).to_dicts()
    degenerate = [text.replace("**", "") for text in warnings(coverage, episodes)]
    # a dataset of version 0.1 has no caveats, but the notes of its trace
    caveats = manifest.caveats or of_provenance(read_provenance(manifest.provenance))
    facts = {
        "description": " ".join(manifest.recipe.description.split()),
        "counts": dict(manifest.counts),
        "appended": [segment.recipe.id for segment in manifest.appended],
        "lineage": lineage_to_json(manifest.lineage) if manifest.lineage else None,
        "splits": splits,
        "behaviours": [
            {
                "behaviour": b.behaviour,
                "episodes": b.episodes,
                "decisions": b.decisions,
                "return": _interval(b.returns),
                headline.name: _interval(b.headline),
            }
            for b in behaviours
        ],
        "coverage": _coverage(coverage),
        "warnings": degenerate,
        "caveats": to_json(caveats),
        "provenance": dict(manifest.provenance),
        "versions": dict(manifest.versions),
    }
    places = decimals_for([b.returns.value for b in behaviours])
    scores = decimals_for([b.headline.value for b in behaviours])
    table = [
        ("behaviour", "episodes", "decisions", "mean return (95 %)", headline.name),
        *(
            (
                b.behaviour, f"{b.episodes:,}", f"{b.decisions:,}",
                write_estimate(*b.returns, places), write_estimate(*b.headline, scores),
            )
            for b in behaviours
        ),
    ]  # fmt: skip
    recipe, counts = manifest.recipe, manifest.counts
    lines = [
        *(f"  WARNING   {text}" for text in degenerate),
        *_caveat_lines(caveats),
        (
            f"  scenario  {recipe.scenario}, objective {recipe.objective}, "
            f"level {recipe.level or 'not given'}"
        ),
        (
            f"  counts    {counts['decisions']:,} decisions, {counts['episodes']:,} episodes "
            f"({counts['truncated_episodes']:,} cut off), {counts['windows']:,} windows, "
            f"{len(manifest.parts)} parts"
        ),
        *(f"  lineage   {line}" for line in lineage_lines(manifest.lineage)),
        *(
            f"  {s['split']:<12}{s['windows']:,} windows, {s['episodes']:,} episodes, "
            f"{s['decisions']:,} decisions"
            for s in splits
        ),
        *(f"  {line}" for line in aligned(table, right=(1, 2, 3, 4))),
        *_coverage_lines(coverage),
        *_provenance_lines(manifest.provenance),
        "  versions  " + ", ".join(f"{k} {v}" for k, v in manifest.versions.items()),
    ]
    return Details(facts, lines)


def _caveat_lines(caveats: Iterable[Caveat]) -> list[str]:
    return [f"  caveat    {caveat.text}" for caveat in caveats]


def _interval(interval: Interval) -> dict[str, float | None]:
    """Return an interval as a JSON object, with null for NaN."""
    named = {"mean": interval.value, "low": interval.low, "high": interval.high}
    return {name: value if math.isfinite(value) else None for name, value in named.items()}


def _coverage(coverage: Coverage) -> dict[str, Any]:
    total = max(1, coverage.decisions)
    return {
        "candidates_per_decision": coverage.candidates / total,
        "feasible_per_decision": coverage.feasible / total,
        "forced_share": coverage.forced / total,
        "certain_share": coverage.certain / total,
        "positions_chosen": coverage.positions,
        "effective_positions": coverage.effective_positions if coverage.decisions else None,
        "mean_support": coverage.support,
        "mean_entropy_nats": coverage.spread,
        "smallest_propensity": coverage.smallest,
        "effective_behaviours": coverage.distinct,
    }


def _coverage_lines(coverage: Coverage) -> list[str]:
    total = max(1, coverage.decisions)
    lines = [
        (
            f"  coverage  {coverage.feasible / total:.1f} of {coverage.candidates / total:.1f} "
            f"candidates feasible, {coverage.positions:,} positions chosen, effectively "
            f"{coverage.effective_positions:.1f}"
        )
    ]
    if coverage.support is None or coverage.smallest is None:
        return [*lines, "            no propensities: importance weights cannot be computed"]
    distinct = (
        "" if coverage.distinct is None else f", effective behaviours {coverage.distinct:.2f}"
    )
    return [
        *lines,
        (
            f"            mean support {coverage.support:.1%}, smallest propensity "
            f"{coverage.smallest:.3g}{distinct}"
        ),
    ]


def _provenance_lines(provenance: Mapping[str, Any]) -> list[str]:
    lines = [f"{f['name']} sha256 {f['sha256']}" for f in provenance["files"]]
    lines += [f"{name}: {count:,}" for name, count in provenance["counts"].items()]
    lines += [f"left out, {name}: {count:,}" for name, count in provenance["left_out"].items()]
    return [f"  workload  {provenance['format']}", *(f"            {line}" for line in lines)]


def _workload(folder: Path) -> Details:
    workload = load_workload(folder)  # checks every file against its manifest
    told = workload.provenance
    provenance = {
        "format": told.format,
        "files": [{"name": f.name, "bytes": f.bytes, "sha256": f.sha256} for f in told.files],
        "counts": dict(told.counts),
        "left_out": dict(told.left_out),
        "notes": list(told.notes),
    }
    machines = None if workload.machines is None else workload.machines.height
    caveats = of_provenance(told)
    facts = {
        "tasks": workload.tasks.height,
        "machines": machines,
        "provenance": provenance,
        "caveats": to_json(caveats),
    }
    lines = [
        f"  tasks     {workload.tasks.height:,}",
        *_caveat_lines(caveats),
        *_provenance_lines(provenance),
    ]
    return Details(facts, lines)


def _evaluation(folder: Path) -> Details:
    found, scores = read_evaluation(folder), read_scores(folder)
    headline = next(m for m in found.metrics if m.name == found.headline)
    means = (
        scores.filter(pl.col("metric") == found.headline)
        .group_by("policy", maintain_order=True)
        .agg(pl.col("value").mean(), pl.col("window").n_unique().alias("windows"))
        .sort("value", maintain_order=True, descending=headline.better == "higher")
        .rows()
    )
    facts = {
        "policies": [{"policy": p, "mean": v, "windows": w} for p, v, w in means],
        "references": list(found.references),
        "bound": found.bound,
        "command": found.command,
        "versions": dict(found.versions),
        "caveats": to_json(found.caveats),
    }
    table = [("policy", f"mean {found.headline}", "windows")]
    table += [(p, f"{v:,.2f}", f"{w:,}") for p, v, w in means]
    lines = [
        f"  recipe    {found.recipe}, split {found.split}",
        f"  command   {found.command}",
        *_caveat_lines(found.caveats),
        *(f"  {line}" for line in aligned(table, right=(1, 2))),
    ]
    return Details(facts, lines)


def _checkpoint(folder: Path) -> Details:
    value = read_json(folder / DESCRIPTION)
    training = dict(value["training"])
    metrics = training.pop("metrics", [])
    last = {m["metric"]: m["value"] for m in metrics if isinstance(m, dict) and "metric" in m}
    facts = {"network": value.get("network"), "training": training, "last_metrics": last}
    rows = {**training, **{f"last {name}": number for name, number in last.items()}}
    lines = [f"  network   {_plain(value.get('network'))}"]
    lines += [f"  {name}: {_plain(told)}" for name, told in rows.items()]
    return Details(facts, lines)


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_plain(v)}" for k, v in value.items())
    return str(value)


def _run(folder: Path) -> Details:
    inside = [e for e in catalogue.find([folder]) if e.folder != folder]
    facts = {"holds": [e.to_json() for e in inside]}
    stages = read_json(folder / LEDGER)["stages"]
    lines = [f"  stages    {', '.join(stages)}"]
    lines += [f"  {e.kind:<11} {e.folder}{f': {e.damage}' if e.damage else ''}" for e in inside]
    return Details(facts, lines)


_TELLERS: Final[Mapping[str, Callable[[Path], Details]]] = {
    "dataset": _dataset,
    "workload": _workload,
    "evaluation": _evaluation,
    "checkpoint": _checkpoint,
    "run": _run,
}
