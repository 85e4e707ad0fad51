"""Dialogs: lists, prompts, questions."""
