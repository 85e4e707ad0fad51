"""Columns by what a row is; the table of `--once` and the screen draw the same ones."""
