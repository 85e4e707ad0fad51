"""Many hosts: where they are known from, and what follows from that."""
