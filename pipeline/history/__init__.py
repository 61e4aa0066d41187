"""History files: decisions recorded elsewhere, read, made a dataset, and written again."""
