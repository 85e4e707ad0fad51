"""The kill flow of the screen: whom it is about, the question, the signal, what came of it.

Only the action that asks imports this: a read-only screen does not load what can signal.
"""

from gpudash.tui.killing.flow import ask

__all__ = ["ask"]
