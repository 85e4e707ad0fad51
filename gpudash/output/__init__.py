"""The ways a snapshot is printed: Snapshot -> str, one module each."""
