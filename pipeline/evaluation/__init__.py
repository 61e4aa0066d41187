"""Evaluation of policies on common windows, and the summary of its scores."""
