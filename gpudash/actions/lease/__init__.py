"""Which GPUs the next person may have, waiting for them, and taking leases on them."""
