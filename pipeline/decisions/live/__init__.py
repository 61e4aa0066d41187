"""Decisions that are still to be made: records in the schema of a log, before and after."""
