"""What evaluations come to: paired comparisons as frames, Parquet and Markdown."""
