"""Commands that make datasets of datasets, and hand datasets and results to others."""
