"""Drawing: numbers to text and styles, no widget."""
