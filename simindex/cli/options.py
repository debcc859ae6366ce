"""Options that several commands have, and what is written in them.

Must not know the index, nor a single command.
"""

from __future__ import annotations

import typer

from simindex.format import Key


def parse_key(text: str, int_keys: bool) -> Key:
    """Return the key that was written on the command line: a str, or with --int an integer.

    Raises:
        typer.BadParameter: `int_keys`, and it is no integer.
    """
    if not int_keys:
        return text
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"--int: expected an integer, found {text!r}") from None
