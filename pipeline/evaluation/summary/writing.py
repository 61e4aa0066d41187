"""Files of a summary: Parquet, Markdown and CSV."""

from collections.abc import Sequence
from pathlib import Path

from pipeline.evaluation.summary.summarise import Summary
from pipeline.storage.files import make_folder, write_atomically, write_text


def write_summary(summary: Summary, out: Path, metrics: Sequence[str] = ()) -> Path:
    """Write summary.parquet, summary_seeds.parquet, summary.md and the files of results.

    Those are results.csv, results.md and provenance.json. `metrics` names outcomes that results.csv
    holds in addition to the headline. Raises UnknownName for a metric that no setting has,
    StorageError if the folder cannot be written.
    """
    from pipeline.evaluation.summary.markdown import render_markdown
    from pipeline.evaluation.summary.results import records, results, write_results

    table = results(summary, metrics=metrics)
    make_folder(out)
    write_atomically(out / "summary.parquet", summary.table.write_parquet)
    write_atomically(out / "summary_seeds.parquet", summary.seeds.write_parquet)
    write_text(out / "summary.md", render_markdown(summary))
    write_results(table, out, records(summary))
    return out
