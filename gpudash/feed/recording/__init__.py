"""Recordings: a file with one document a line, written whole, found by its time.

The lines are those of `gpudash --json`, byte for byte, so that a program that reads a stream
reads a recording. Each has its time on the wall clock and on the host's own (its uptime).
"""
