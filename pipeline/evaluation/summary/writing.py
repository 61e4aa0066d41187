"""Files of a summary: Parquet, Markdown and CSV."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hindcast.pipeline.evaluation.summary.summarise import Summary
from hindcast.pipeline.storage.files import (
    bytes_writer,
    json_text,
    make_folder,
    table_writer,
    text_writer,
    written_together,
)
from hindcast.pipeline.storage.provenance import PROVENANCE


def write_summary(
    summary: Summary,
    out: Path,
    metrics: Sequence[str] = (),
    documents: Mapping[str, str] | None = None,
) -> Path:
    """Write summary.parquet, summary_seeds.parquet, summary.md and the files of results.

    Those are results.csv, results.md and provenance.json. All files appear together, or none does.
    `metrics` names outcomes that results.csv holds in addition to the headline; `documents` are
    texts of more files, by their names. Raises UnknownName for a metric that no setting has,
    StorageError if the folder cannot be written.
    """
    from hindcast.pipeline.evaluation.summary.markdown import render_markdown
    from hindcast.pipeline.evaluation.summary.results import records, results, results_markdown

    table = results(summary, metrics=metrics)
    make_folder(out)
    content = table.write_csv().encode()
    texts = {
        "summary.md": render_markdown(summary),
        "results.md": results_markdown(content, "results.csv"),
        PROVENANCE: json_text(records(summary.settings)),
        **(documents or {}),
    }
    with written_together() as write:
        write(out / "summary.parquet", table_writer(summary.table))
        write(out / "summary_seeds.parquet", table_writer(summary.seeds))
        write(out / "results.csv", bytes_writer(content))
        for name, text in texts.items():
            write(out / name, text_writer(text))
    return out
