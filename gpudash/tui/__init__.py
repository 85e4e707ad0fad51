"""The live screen: everything that knows Textual."""
