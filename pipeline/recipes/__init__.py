"""Recipes: everything that a dataset, an agent and a report are made from."""
