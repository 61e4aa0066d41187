"""Evaluation of policies on common windows, and its summary."""
