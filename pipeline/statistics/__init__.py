"""Statistics, and how numbers are written."""
