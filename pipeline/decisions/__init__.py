"""Logs of decisions made elsewhere: their shapes, checks, and the dataset that is made of them."""
