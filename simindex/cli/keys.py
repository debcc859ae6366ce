"""Keys that a command is given: as arguments, in a file, or on standard input.

Owns their reading. What a key is that was typed, is `options.parse_key`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from simindex.cli.options import parse_key
from simindex.format.keys import Key
from simindex.inputs import BadRowError, InputError, Limits, Source

Keys = Annotated[
    list[str] | None, typer.Argument(metavar="KEY...", help="Keys; - for those of stdin, one a line.")
]
KeysFile = Annotated[
    str | None, typer.Option("--input", metavar="FILE", help="A file with one key a line; - for stdin.")
]
IntKeys = Annotated[bool, typer.Option("--int", help="Keys are integers.")]


def given_keys(keys: Sequence[str] | None, file: str | None, int_keys: bool, limits: Limits) -> list[Key]:
    """Return the keys that were asked for, each once, in order.

    Args:
        keys: arguments; "-" stands for the lines of standard input.
        file: with a key a line, or ``None``.
        int_keys: whether they are integers.
        limits: on what is held of a file.

    Raises:
        typer.BadParameter: there is none, or an argument is no integer.
        InputError: a line is none.
    """
    if not keys and file is None:
        raise typer.BadParameter("expected KEY... or --input")
    wanted: list[Key] = []
    for key in keys or ():
        wanted += _lines_of(Source("-", limits), int_keys) if key == "-" else [parse_key(key, int_keys)]
    if file is not None:
        wanted += _lines_of(Source(file, limits), int_keys)
    return list(dict.fromkeys(wanted))


def _lines_of(source: Source, int_keys: bool) -> list[Key]:
    """Return the keys of a file, a line each; empty lines are passed over."""
    keys: list[Key] = []
    with source.lines() as lines:
        for line in lines:
            if isinstance(line, BadRowError):
                raise line
            # Bytes that are not UTF-8 come out as they do in a file name, and so in a key made of one.
            text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
            if not text:
                continue
            try:
                keys.append(int(text) if int_keys else text)
            except ValueError:
                place = f"{source.name}:{lines.number}"
                raise InputError(place, f"expected an integer, found {text!r:.80}") from None
    return keys
