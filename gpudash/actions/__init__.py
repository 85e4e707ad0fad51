"""Actions that change something on the host: a kill, a lease."""
