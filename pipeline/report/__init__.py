"""Report as one self-contained HTML page; `pipeline.report.page` writes it."""
