"""Agents with critics and an explicit policy."""
