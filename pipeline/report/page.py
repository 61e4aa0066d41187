"""Report about evaluations: one self-contained HTML page, with its numbers in files beside it.

    out/report.html            the page; it loads nothing and works without scripts
    out/summary.parquet        all numbers with all digits
    out/summary_seeds.parquet  the same, seed by seed
    out/summary.md             its tables as Markdown
    out/results.csv            every policy against every baseline, on the headline metric
    out/results.md             the same as a page

The same input gives the same bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hindcast.pipeline.evaluation.summary.pairing import Setting
from hindcast.pipeline.evaluation.summary.summarise import SettingSummary, Summary, summarise
from hindcast.pipeline.evaluation.summary.writing import summary_texts, write_summary
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.pages.templates import render
from hindcast.pipeline.report.curves import training_part
from hindcast.pipeline.report.estimates import estimates_part
from hindcast.pipeline.report.extras import dataset_part
from hindcast.pipeline.report.quality import quality_part
from hindcast.pipeline.report.rules import explaining
from hindcast.pipeline.report.setting import setting_part
from hindcast.pipeline.statistics.intervals import LEVEL, LEVEL_TEXT
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
    for one in summary.settings:
        for caution in one.cautions:
            tell(f"caution: {caution.text}")
        tell(one.finding.sentence)
    training = training_part([*beside.training, *folders], _curves_first(summary))
    page = _page(summary, training, beside)
    return write_summary(summary, out, {**texts, "report.html": page}) / "report.html"


def _page(summary: Summary, training: Mapping[str, Any] | None, beside: Beside) -> str:
    """Return report.html; `training` has the values of its section, None without training runs."""
    alone = len(summary.settings) == 1
    settings: list[dict[str, Any]] = []
    known: dict[str, str] = {}
    for one in summary.settings:
        setting = _setting(one, f"finding-{len(settings) + 1}", alone)
        settings.append(setting)
        known = {**setting["sentences"], **known}
    known |= {k: v for k, v in training["agents"].items() if k not in known} if training else {}
    sections = {setting["identifier"]: setting["name"] for setting in settings}
    parts = {
        "training": ("Training", training), "estimates": ("Off-policy estimates", beside.estimates),
        "quality": ("Data quality", beside.studies), "datasets": ("Datasets", beside.datasets),
        "left-out": ("Data left out, and notes", True), "reading": ("How to read this", True),
        "provenance": ("Provenance", True), "rules": ("Rules on this page", True),
    }  # fmt: skip
    sections |= {identifier: name for identifier, (name, there) in parts.items() if there}
    recipes = dict.fromkeys(setting["first"].recipe or setting["label"] for setting in settings)
    return render(
        Path(__file__).with_name("report.html.jinja"),
        heading=" and ".join(recipes),
        sections=sections,
        settings=settings,
        training=training,
        estimates=[estimates_part(folder) for folder in beside.estimates],
        studies=[quality_part(folder) for folder in beside.studies],
        datasets=[dataset_part(folder) for folder in beside.datasets],
        left_out=[
            text if alone else f"{setting['label']}: {text}"
            for setting in settings
            for text in setting["left_out"]
        ],
        level=LEVEL_TEXT,
        odds=round(1 / (1 - LEVEL)),
        bounded=any(one.bound is not None for one in summary.settings),
        **explaining(known),
    )


def _setting(summary: SettingSummary, identifier: str, alone: bool) -> dict[str, Any]:
    """Return the values of a setting: its section, its subtitle and its provenance."""
    setting = summary.setting
    evaluations, headline, computed = setting.evaluations, setting.headline, _computed(setting)
    facts = [
        f"scenario {setting.label}",
        f"objective {setting.first.objective}" if setting.first.objective else "",
        f"{setting.first.split} split" if setting.first.split else "",
        count_of(len(headline.windows), "window"),
        count_of(len(headline.policies), "policy", "policies"),
    ]
    return {
        **setting_part(summary),
        "identifier": identifier,
        "name": "Finding" if alone else setting.label,
        "label": setting.label,
        "facts": [fact for fact in facts if fact],
        "first": setting.first,
        "sentences": summary.sentences,
        "folders": [evaluation.folder for evaluation in evaluations],
        "versions": {k: v for e in evaluations for k, v in e.versions.items()},
        "commands": list(dict.fromkeys(e.command for e in evaluations if e.command)),
        "computed": computed,
    }


def _curves_first(summary: Summary) -> list[str]:
    """Return the metrics that come first: the return, and the headline outcome."""
    headlines = [one.setting.first.headline for one in summary.settings]
    names = dict.fromkeys(["return", *headlines])
    return [*names, *(f"validation_{name}" for name in names)]


def _computed(setting: Setting) -> list[str]:
    """Return a line for every session that scored or trained something: commit and processor."""
    keys = ("hindcast", "commit", "processor", "instructions")
    return [
        f"{key}: " + ", ".join(str(record[name]) for name in keys if name in record)
        for key, record in setting.records.items()
    ] or ["not recorded"]
