"""Schedules as data: when and where every job of a window ran under a policy."""
