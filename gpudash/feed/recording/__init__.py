"""A host's past in a file: one document a line, written whole, found again by its time.

The lines are those of `gpudash --json`, byte for byte, so whatever reads a stream reads a
recording. Each says when it was taken on the wall clock and on the host's own (its uptime).
"""
