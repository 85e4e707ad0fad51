"""The views above the overview: each file has its screen, its CSS and its drawing.

A view consists of a file here and its keys in the keymap. The file `users.py` has the class
`UsersView`, and the action `view('users')` opens it.
"""
