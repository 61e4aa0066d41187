"""Datasets made of other datasets: some of their episodes, several together, or one by splits."""
