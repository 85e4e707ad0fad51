"""What a snapshot is: fields, units, wire, text, errors; pure."""

SCHEMA = 1
"""Version of the document; it only grows: fields are added, never renamed or removed."""
