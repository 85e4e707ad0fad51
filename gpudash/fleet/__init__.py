"""Many hosts: the sources that they are known from, and what follows from their data."""
