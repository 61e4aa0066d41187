"""Workloads: canonical tables of tasks and machines, and their folders."""
