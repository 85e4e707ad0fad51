"""NVIDIA's management library, read truthfully: the only importer of pynvml."""
