"""The commands, one file each: typer calls its `run`, whose docstring is what ``--help`` prints."""
