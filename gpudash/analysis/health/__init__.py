"""How a host is doing: levels of values, and findings by rules; no colours.

`engine.Diagnosis` examines snapshot after snapshot where they are taken; whatever shows a snapshot
reads its findings, so that screens, tables and documents agree.
"""
