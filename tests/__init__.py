"""Tests mirror the packages; what every scenario must pass is in `pipeline.testing`."""
