"""This machine: processes, children, locks, the terminal."""
