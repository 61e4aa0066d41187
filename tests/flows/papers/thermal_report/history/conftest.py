"""Datasets to export, as in the tests of other formats."""

from tests.pipeline.exports.conftest import images, sources, thermal

__all__ = ["images", "sources", "thermal"]
