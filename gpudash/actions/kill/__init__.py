"""Signalling processes, and never another process that got the same PID.

`KillSelection` pins what was chosen and finds the trees below; `warnings` lists what else it
affects, and `question` asks; `Kill` sends, records and waits; `describe` puts the `KillReport` into
words. The shell and the screen use the same functions and the same texts.
"""
