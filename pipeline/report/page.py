"""Report about evaluations: one self-contained HTML page, with its numbers in files beside it.

    out/report.html            the page; it loads nothing and works without scripts
    out/summary.parquet        all numbers with all digits
    out/summary_seeds.parquet  the same, seed by seed
    out/summary.md             its tables as Markdown
    out/results.csv            every policy against every baseline, on the headline metric
    out/results.md             the same as a page

The same input gives the same bytes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hindcast.pipeline.evaluation.summary.cautions import cautions
from hindcast.pipeline.evaluation.summary.finding import state_finding
from hindcast.pipeline.evaluation.summary.pairing import Setting
from hindcast.pipeline.evaluation.summary.rules import described
from hindcast.pipeline.evaluation.summary.summarise import Summary, summarise
from hindcast.pipeline.evaluation.summary.writing import summary_texts, write_summary
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.pages.templates import render
from hindcast.pipeline.report.curves import by_agent, training_part, training_runs
from hindcast.pipeline.report.estimates import estimates_part
from hindcast.pipeline.report.extras import dataset_part
from hindcast.pipeline.report.quality import quality_part
from hindcast.pipeline.report.rules import explaining
from hindcast.pipeline.report.setting import setting_part
from hindcast.pipeline.report.tables import policies_table, shortfalls
from hindcast.pipeline.storage.locks import one_writer


@dataclass(frozen=True)
class Beside:
    """Folders that a report describes beside its evaluations.

    Attributes:
        training: Folders of training runs (metrics.parquet: step, metric, value), or folders with a
            `training/` of them. Evaluation folders are searched as well.
        datasets: Dataset folders.
        estimates: Folders of off-policy estimates (ope.json, estimates.parquet).
        studies: Folders of data-quality studies (study.parquet).
    """

    training: Sequence[Path] = ()
    datasets: Sequence[Path] = ()
    estimates: Sequence[Path] = ()
    studies: Sequence[Path] = ()


@one_writer
def write_report(
    folders: Sequence[Path],
    out: Path,
    beside: Beside = Beside(),
    *,
    metrics: Sequence[str] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write report.html and the summary files into the folder `out`.

    Args:
        folders: Evaluation folders (evaluation.json, scores.parquet).
        out: Folder of the report.
        beside: Other folders that it describes.
        metrics: Outcomes that results.csv holds in addition to the headline.
        tell: Called with the cautions and the finding of every setting, a sentence each.

    Returns:
        Path of the page.

    Raises:
        DatasetError: A folder is missing, is no evaluation, or cannot be compared.
        UnknownName: No evaluation has one of `metrics`.
        StorageError: `out` cannot be written.
    """
    summary = summarise(folders)
    texts = summary_texts(summary, metrics)
    for setting in summary.settings:
        for caution in cautions(setting.entries.values(), setting.scores):
            tell(f"caution: {caution.text}")
        tell(state_finding(summary, setting).sentence)
    page = _page(summary, training_runs([*beside.training, *folders]), beside)
    return write_summary(summary, out, {**texts, "report.html": page}) / "report.html"


def _page(summary: Summary, runs: Sequence[Path], beside: Beside) -> str:
    settings = [
        _setting(summary, setting, f"finding-{i}")
        for i, setting in enumerate(summary.settings, start=1)
    ]
    known: dict[str, str] = {}
    for setting in settings:
        known = {**setting["sentences"], **known}
    for agent, inside in by_agent(runs).items():
        known.setdefault(agent, f"agent of the training {', '.join(run.name for run in inside)}")
    sections = {setting["identifier"]: setting["name"] for setting in settings}
    parts = {
        "training": ("Training", runs), "estimates": ("Off-policy estimates", beside.estimates),
        "quality": ("Data quality", beside.studies), "datasets": ("Datasets", beside.datasets),
        "left-out": ("Data left out, and notes", True), "reading": ("How to read this", True),
        "provenance": ("Provenance", True), "rules": ("Rules on this page", True),
    }  # fmt: skip
    sections |= {identifier: name for identifier, (name, there) in parts.items() if there}
    recipes = dict.fromkeys(s.first.recipe or s.label for s in summary.settings)
    return render(
        Path(__file__).with_name("report.html.jinja"),
        heading=" and ".join(recipes),
        sections=sections,
        settings=settings,
        training=training_part(runs, _curves_first(summary)) if runs else None,
        estimates=[estimates_part(folder) for folder in beside.estimates],
        studies=[quality_part(folder) for folder in beside.studies],
        datasets=[dataset_part(folder) for folder in beside.datasets],
        left_out=list(_left_out(summary)),
        level=f"{summary.level * 100:g} %",
        odds=round(1 / (1 - summary.level)),
        bounded=any(bound is not None for bound in summary.bounds.values()),
        **explaining(known),
    )


def _setting(summary: Summary, setting: Setting, identifier: str) -> dict[str, Any]:
    """Return the values of a setting: its section, its subtitle and its provenance."""
    evaluations, headline = setting.evaluations, summary.headline(setting)
    facts = [
        f"scenario {setting.label}",
        f"objective {setting.first.objective}" if setting.first.objective else "",
        f"{setting.first.split} split" if setting.first.split else "",
        count_of(len(headline.windows), "window"),
        count_of(len(headline.policies), "policy", "policies"),
    ]
    return {
        **setting_part(summary, setting),
        "identifier": identifier,
        "name": "Finding" if len(summary.settings) == 1 else setting.label,
        "label": setting.label,
        "facts": [fact for fact in facts if fact],
        "first": setting.first,
        "sentences": described(setting.entries.values()),
        "folders": [evaluation.folder for evaluation in evaluations],
        "versions": {k: v for e in evaluations for k, v in e.versions.items()},
        "commands": list(dict.fromkeys(e.command for e in evaluations if e.command)),
        "computed": _computed(setting),
        "policies": policies_table(setting),
    }


def _curves_first(summary: Summary) -> list[str]:
    """Return the metrics that come first: the return, and the headline outcome."""
    headlines = [s.first.headline for s in summary.settings]
    names = dict.fromkeys(["return", *headlines])
    return [*names, *(f"validation_{name}" for name in names)]


def _left_out(summary: Summary) -> Iterator[str]:
    for setting in summary.settings:
        prefix = f"{setting.label}: " if len(summary.settings) > 1 else ""
        for sentence in summary.left_out[setting.label]:
            yield prefix + sentence
        for metric, totals in shortfalls(summary, setting).items():
            counts = ", ".join(f"{name} {total:g}" for name, total in totals.items() if total)
            yield (
                f"{prefix}{metric}, summed over windows and averaged over seeds: {counts}. The "
                "means above include these windows in the state in which they ended."
            )
        for note in dict.fromkeys(note for e in setting.evaluations for note in e.notes):
            yield prefix + note


def _computed(setting: Setting) -> list[str]:
    """Return a line for every session that scored or trained something: commit and processor."""
    found = {key: record for e in setting.evaluations for key, record in e.records.items()}
    keys = ("hindcast", "commit", "processor", "instructions")
    return [
        f"{key}: " + ", ".join(str(record[name]) for name in keys if name in record)
        for key, record in found.items()
    ] or ["not recorded"]
