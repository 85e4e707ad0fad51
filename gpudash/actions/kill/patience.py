"""How long gpudash waits for what a signal leads to, in seconds, in the shell and on the screen."""

KILL_SECONDS = 5.0
"""For the end after SIGKILL."""

END_SECONDS = 10.0
"""For the end after any other signal: training jobs write a checkpoint."""

ROOT_FIRST_SECONDS = 2.0
"""For a process to end its children itself, before they get the signal too."""

REAP_SECONDS = 5.0
"""For a parent to reap a process that ended: many look for such only now and then."""

RELEASE_SECONDS, RELEASE_MAX_SECONDS = 7.0, 15.0
"""For the driver to let go of memory: at least, and at most where snapshots are rare.

Longer than a GPU that has fallen silent is shown as it was.
"""

RELEASE_SNAPSHOTS = 3
"""Snapshots that may repeat an old list of processes."""
