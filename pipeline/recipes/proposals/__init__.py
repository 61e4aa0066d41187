"""Proposals of recipes for ingested workloads, one file per scenario that can use them."""
