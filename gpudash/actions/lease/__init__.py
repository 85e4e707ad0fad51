"""Choosing free GPUs, waiting for them, and leasing them."""
