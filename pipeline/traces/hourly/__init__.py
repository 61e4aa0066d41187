"""Hourly series of electric grids: reader, judgement of units and clock, and folders."""
