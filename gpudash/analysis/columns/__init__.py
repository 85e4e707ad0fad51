"""Columns by kind of row, shared by the table of `--once` and the screen."""
