"""History files of decisions recorded elsewhere: reading, converting to a dataset, writing."""
