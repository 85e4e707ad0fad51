"""Snapshot -> meaning."""
