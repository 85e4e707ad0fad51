"""NVML and the host -> Snapshot."""
