"""`simindex remove`: documents out of an index, by key.

Owns the commits and the report of missing keys.
"""

from __future__ import annotations

from typing import Annotated

import typer

from simindex.cli import options
from simindex.cli.creation import open_for_change
from simindex.cli.failures import INTERRUPTED, CommandError
from simindex.cli.output import Reports, counted, json_key, note, print_json
from simindex.format.keys import Key
from simindex.inputs import BadRowError, InputError, Source

_KEYS_A_COMMIT = 10_000


def run(
    index: options.IndexFolder,
    keys: Annotated[list[str] | None, typer.Argument(metavar="KEY...", help="Keys to remove.")] = None,
    input_: Annotated[
        str | None, typer.Option("--input", metavar="FILE", help="A file with one key a line; - for stdin.")
    ] = None,
    int_keys: Annotated[bool, typer.Option("--int", help="Keys are integers.")] = False,
    max_line: options.MaxLine = None,
    max_window: options.MaxWindow = None,
    max_ratio: options.MaxRatio = None,
    wait: options.Wait = 0.0,
    as_json: options.JsonSummary = False,
) -> None:
    """Remove documents from an index.

    Keys that are not in the index are reported, and the exit code is 1; the others are removed all the same.
    """
    if not keys and input_ is None:
        raise typer.BadParameter("expected KEY... or --input")
    wanted = [options.parse_key(key, int_keys) for key in keys or ()]
    if input_ is not None:
        limits = options.limits(line=max_line, window=max_window, ratio=max_ratio)
        wanted += _keys_of(Source(input_, limits), int_keys)
    wanted = list(dict.fromkeys(wanted))
    removed = 0
    missing: list[Key] = []
    reports = Reports("missing key")
    with open_for_change(index, wait) as target:
        try:
            for first in range(0, len(wanted), _KEYS_A_COMMIT):
                some = wanted[first : first + _KEYS_A_COMMIT]
                absent = [key for key in some if key not in target]
                removed += target.remove_many(some)
                missing += absent
        except KeyboardInterrupt:
            raise CommandError(f"interrupted; {counted(removed, 'document')} removed", INTERRUPTED) from None
    for key in missing:
        reports.add(f"{index}: key {key!r} is not in the index")
    reports.close()
    if as_json:
        print_json({"removed": removed, "missing": [json_key(key) for key in missing]})
    else:
        note(f"{counted(removed, 'document')} removed, {counted(len(missing), 'key')} missing")
    if missing:
        raise typer.Exit(1)


def _keys_of(source: Source, int_keys: bool) -> list[Key]:
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
