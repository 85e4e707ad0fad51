"""What lies over the main screen."""
