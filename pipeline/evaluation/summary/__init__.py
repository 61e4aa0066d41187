"""Summary of evaluations: paired comparisons as frames, Parquet, Markdown and CSV."""
