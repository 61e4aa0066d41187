"""Schedules as a page: packed, coded, and drawn in the browser."""
