"""Inputs that several machines read: where large files of lines are cut (`lines`)."""
