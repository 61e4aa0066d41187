"""Files of a summary: Parquet, Markdown and CSV.

summary.md has the finding, a table per metric, and the data that were left out.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.evaluation.summary.results import results, results_markdown
from hindcast.pipeline.evaluation.summary.summarise import Rows, SettingSummary, Summary
from hindcast.pipeline.pages.numbers import decimals_for, decimals_telling, with_unit
from hindcast.pipeline.pages.templates import render
from hindcast.pipeline.statistics.intervals import LEVEL_TEXT
from hindcast.pipeline.storage.files import (
    json_text,
    make_folder,
    table_writer,
    text_writer,
    written_together,
)
from hindcast.pipeline.storage.provenance import PROVENANCE

_TEMPLATE: Final = Path(__file__).with_name("summary.md.jinja")


def summary_texts(summary: Summary, metrics: Sequence[str] = ()) -> dict[str, str]:
    """Return the texts of results.csv, summary.md and results.md by their names.

    `metrics` names outcomes that results.csv holds in addition to the headline. Raises UnknownName
    for a metric that no setting has.
    """
    text = _markdown(summary)
    content = results(summary, metrics=metrics).write_csv()
    return {
        "results.csv": content,
        "summary.md": text,
        "results.md": results_markdown(content.encode(), "results.csv"),
    }


def write_summary(summary: Summary, out: Path, texts: Mapping[str, str] | None = None) -> Path:
    """Write summary.parquet, summary_seeds.parquet, provenance.json and the files of `texts`.

    `texts` are those of `summary_texts` by default. All files appear together, or none does. Raises
    StorageError if the folder cannot be written.
    """
    texts = summary_texts(summary) if texts is None else texts
    table, seeds = summary.table, summary.seeds
    records = {key: record for of in summary.settings for key, record in of.setting.records.items()}
    make_folder(out)
    with written_together() as write:
        write(out / "summary.parquet", table_writer(table))
        write(out / "summary_seeds.parquet", table_writer(seeds))
        for name, text in {**texts, PROVENANCE: json_text(records)}.items():
            write(out / name, text_writer(text))
    return out


def _markdown(summary: Summary) -> str:
    """Return all rows of a summary as Markdown text.

    Names come from users and are escaped. Numbers are rounded; summary.parquet has all digits.
    """
    settings = [_setting(one) for one in summary.settings]
    return render(_TEMPLATE, settings=settings, level=LEVEL_TEXT).rstrip() + "\n"


def _setting(summary: SettingSummary) -> dict[str, Any]:
    """Return the values of the section about a setting, see summary.md.jinja."""
    setting = summary.setting
    seeds = summary.seeds[setting.first.headline]
    notes = [note for evaluation in setting.evaluations for note in evaluation.notes]
    return {
        "label": setting.label,
        "cautions": [caution.text for caution in summary.cautions],
        "finding": summary.finding.sentence,
        "recipe": setting.first.recipe,
        "split": setting.first.split,
        "headline": setting.first.headline,
        "metrics": [_metric(summary.table[m], summary.rows[m]) for m in summary.table],
        "seeds": seeds,
        "decimals": decimals_for(row["mean"] for row in seeds),
        "remarks": [*summary.left_out, *dict.fromkeys(notes)],
        "rules": summary.sentences,
    }


def _metric(rows: Rows, once: Rows) -> dict[str, Any]:
    """Return the values of the tables of a metric; `once` is the first row of each policy."""
    decimals = decimals_for(row["mean"] for row in rows)
    order = list(dict.fromkeys(row["reference"] for row in rows))
    compared = [row for row in rows if row["paired_difference"] is not None]
    compared.sort(key=lambda row: order.index(row["reference"]))
    largest = max((abs(row["paired_difference"]) for row in compared), default=1.0)
    finer = min(decimals_telling([largest], decimals) + 1, 8) if largest < 1 else decimals
    return {
        "policies": once,
        "decimals": decimals,
        "unit": with_unit("", rows[0]["unit"]).strip(),
        "bounded": any(row["bound"] is not None for row in once),
        "compared": compared,
        "finer": finer,
    }
