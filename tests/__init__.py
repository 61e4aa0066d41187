"""Tests.

Their folders mirror the packages; the checks for every scenario are in `hindcast.pipeline.testing`.
"""
