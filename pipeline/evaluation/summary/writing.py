"""Files of a summary: Parquet, Markdown and CSV."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hindcast.pipeline.evaluation.summary.summarise import Summary
from hindcast.pipeline.storage.files import (
    json_text,
    make_folder,
    table_writer,
    text_writer,
    written_together,
)
from hindcast.pipeline.storage.provenance import PROVENANCE


def summary_texts(summary: Summary, metrics: Sequence[str] = ()) -> dict[str, str]:
    """Return the texts of results.csv, summary.md and results.md by their names.

    `metrics` names outcomes that results.csv holds in addition to the headline. Raises UnknownName
    for a metric that no setting has.
    """
    from hindcast.pipeline.evaluation.summary.markdown import render_markdown
    from hindcast.pipeline.evaluation.summary.results import results, results_markdown

    content = results(summary, metrics=metrics).write_csv()
    return {
        "results.csv": content,
        "summary.md": render_markdown(summary),
        "results.md": results_markdown(content.encode(), "results.csv"),
    }


def write_summary(summary: Summary, out: Path, texts: Mapping[str, str] | None = None) -> Path:
    """Write summary.parquet, summary_seeds.parquet, provenance.json and the files of `texts`.

    `texts` are those of `summary_texts` by default. All files appear together, or none does. Raises
    StorageError if the folder cannot be written.
    """
    from hindcast.pipeline.evaluation.summary.results import records

    texts = summary_texts(summary) if texts is None else texts
    records_by_key = records(summary.settings)
    make_folder(out)
    with written_together() as write:
        write(out / "summary.parquet", table_writer(summary.table))
        write(out / "summary_seeds.parquet", table_writer(summary.seeds))
        for name, text in {**texts, PROVENANCE: json_text(records_by_key)}.items():
            write(out / name, text_writer(text))
    return out
