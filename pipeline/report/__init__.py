"""Report as one self-contained HTML page; `hindcast.pipeline.report.page` writes it."""
