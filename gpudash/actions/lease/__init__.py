"""Choosing GPUs that are free, waiting for them, and leasing them."""
