"""Reading of NVML and the host into a Snapshot."""
