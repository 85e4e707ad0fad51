"""Which GPUs the next person may have: by sustained use, by fit, and by how they are connected."""
