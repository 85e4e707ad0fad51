"""What gpudash can do to a host: signal processes, and never another one of the same PID.

A `Target` is pinned by a pidfd before its start time is compared with the one on the screen, so
a PID that is reused, even while a dialog is open, gets nothing. `Tree` adds what it started,
`cautions` says what a person should know first, `strike` sends and waits, `Report` says what came
of it and `audit` keeps a record.
"""
