"""What changes something on the host: a kill, a lease."""
