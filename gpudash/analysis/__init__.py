"""What a snapshot means."""
