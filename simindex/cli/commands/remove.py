"""`simindex remove`: remove documents from an index, by key."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from simindex.cli import options, reading
from simindex.cli.creation import open_for_change
from simindex.cli.failures import INTERRUPTED, CommandError
from simindex.cli.output import Reports, counted, json_key, note, print_json
from simindex.cli.progress import work_bar
from simindex.format.keys import Key
from simindex.inputs import BadRowError, Inputs

_KEYS_A_COMMIT = 10_000

EXAMPLES = r"""
simindex remove news.simindex a
simindex list news.simindex | head -1 | simindex remove news.simindex -
simindex remove archive.simindex --rows news.jsonl --key-from content
"""


def run(
    index: options.IndexFolder,
    keys: reading.Keys = None,
    input_: reading.KeysFile = None,
    int_keys: reading.IntKeys = False,
    rows: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Rows, or files of a folder, whose keys are as insert makes them."),
    ] = None,
    id_field: options.IdField = "id",
    text_field: options.TextField = "text",
    key_from: options.KeyOrigin = None,
    fingerprint_field: reading.FingerprintField = None,
    fingerprint_base: reading.FingerprintBase = 16,
    format_: reading.Format = None,
    encoding: reading.Encoding = "utf-8",
    delimiter: reading.Delimiter = None,
    glob: options.Globs = None,
    hidden: reading.Hidden = False,
    max_line: options.MaxLine = None,
    max_cell: options.MaxCell = None,
    max_document: options.MaxDocument = None,
    max_page: options.MaxPage = None,
    max_window: options.MaxWindow = None,
    max_ratio: options.MaxRatio = None,
    wait: options.Wait = 0.0,
    as_json: options.JsonSummary = False,
) -> None:
    """Remove documents from an index.

    Keys that are not in the index are reported, and the exit code is 1; the others are removed all the same.
    """
    arguments = locals()
    limits = options.limits(arguments)
    wanted = reading.given_keys(keys, input_, int_keys, limits) if rows is None or keys or input_ else []
    if rows is not None:
        fields = replace(reading.fields(arguments), keys_only=True)
        wanted += _keys_of(Inputs([rows], fields, reading=reading.how_to_read(arguments), limits=limits))
        wanted = list(dict.fromkeys(wanted))
    removed = 0
    missing: list[Key] = []
    reports = Reports("missing key")
    with open_for_change(index, wait) as target, work_bar("keys", len(wanted)) as advance:
        try:
            for first in range(0, len(wanted), _KEYS_A_COMMIT):
                some = wanted[first : first + _KEYS_A_COMMIT]
                absent = [key for key in some if key not in target]
                removed += target.remove_many(some)
                missing += absent
                for key in absent:
                    reports.add(options.missing_key(target, key))
                advance(first + len(some), first + len(some))
        except KeyboardInterrupt:
            raise CommandError(f"interrupted; {counted(removed, 'document')} removed", INTERRUPTED) from None
    reports.close()
    if as_json:
        print_json({"removed": removed, "missing": [json_key(key) for key in missing]})
    else:
        note(f"{counted(removed, 'document')} removed, {counted(len(missing), 'key')} missing")
    if missing:
        raise typer.Exit(1)


def _keys_of(rows: Inputs) -> list[Key]:
    """Return the keys of rows; nothing is removed where one of them is bad."""
    keys: list[Key] = []
    for row in rows:
        if isinstance(row, BadRowError):
            raise row
        keys.append(row.key)
    return keys
