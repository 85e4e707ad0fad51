"""What asks on the screen: lists, prompts, questions."""
