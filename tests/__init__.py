"""Tests.

Their folders mirror the packages; the checks for every scenario are in `pipeline.testing`.
"""
