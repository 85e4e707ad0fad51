"""The data model: fields, units, wire format, text, errors; pure."""

SCHEMA = 1
"""Version of the document; it only grows: fields are added, never renamed or removed."""
