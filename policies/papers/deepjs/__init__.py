"""Figures of the evaluation of DeepJS."""
