"""Recipes: the settings that a dataset, its agents and its report are made from."""
