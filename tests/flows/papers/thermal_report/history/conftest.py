"""Datasets to export, as in the tests of other formats."""

from tests.pipeline.exports.conftest import sources, thermal

__all__ = ["sources", "thermal"]
