"""The views that cover the overview: each file has its screen, its CSS and its drawing.

A view is a file here and its keys in the keymap. The file `users.py` holds the class `UsersView`,
and the action `view('users')` opens it.
"""
