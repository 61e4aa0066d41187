"""Readers of the logs of batch systems that are no tables of Slurm."""
