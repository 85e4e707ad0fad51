"""The kill flow of the screen: whom it is about, the question, the signal, what came of it.

`flow.ask` begins it. Only the action that asks imports this: a read-only screen does not load what
can signal.
"""
