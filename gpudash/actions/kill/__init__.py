"""Signalling processes, and never another process that got the same PID.

`KillSelection` pins the chosen ones and finds the trees below; `warnings` lists what else would be
affected, and `question` asks; `Kill` sends, records and waits; `describe` words the `KillReport`.
The shell and the screen use the same functions and the same texts.
"""
