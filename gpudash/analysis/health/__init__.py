"""The health of a host: levels of values, and findings by rules; no colours.

`engine.Diagnosis` examines consecutive snapshots as they are taken; everything that shows a
snapshot reads its findings, so that screens, tables and documents agree.
"""
