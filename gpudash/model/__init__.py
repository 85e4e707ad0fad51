"""What a snapshot is: fields, units, wire, text, errors; pure."""
