"""Recordings: a file with one document a line, written whole, and searched by time.

The lines are those of `gpudash --json`, byte for byte, so that a program that reads a stream reads
a recording. Each has its time by the wall clock and by the host's own (its uptime).
"""
