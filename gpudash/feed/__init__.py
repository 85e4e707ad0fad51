"""Snapshots from elsewhere: a collector's lines, or a recording."""
