"""`simindex get`: print the records of documents, by key."""

from __future__ import annotations

import json
import sys

import typer

from simindex.cli import options, reading
from simindex.cli.creation import open_for_reading
from simindex.cli.output import Reports, json_record, print_json, printable, shown_key
from simindex.inputs import Limits
from simindex.queries.container import Record

EXAMPLES = r"""
simindex get news.simindex a
simindex get news.simindex 7 --int --json
"""


def run(
    index: options.IndexFolder,
    keys: reading.Keys = None,
    input_: reading.KeysFile = None,
    int_keys: reading.IntKeys = False,
    as_json: options.JsonLines = False,
) -> None:
    """Show what is stored of documents: metadata, times, fingerprint. Texts are not stored.

    JSON lines: one a document, as of export. Keys that are not in the index are reported, and the exit code
    is 1.
    """
    wanted = reading.given_keys(keys, input_, int_keys, Limits())
    reports = Reports("missing key")
    with open_for_reading(index) as stored:
        for key in wanted:
            record = stored.get(key)
            if record is None:
                reports.add(options.missing_key(stored, key))
            elif as_json:
                print_json(json_record(record))
            else:
                _print(record)
    reports.close()
    if reports.count:
        raise typer.Exit(1)


def _print(record: Record) -> None:
    """Print a record for people: a line a field, never broken, for fingerprints are copied from it."""
    values = json_record(record)
    metadata = None if record.metadata is None else json.dumps(values["metadata"], ensure_ascii=False)
    values |= {"id": shown_key(record.key), "metadata": metadata}
    values |= {name: f"{time[:16]}Z" for name, time in values.items() if name.endswith("_at")}
    for name, value in values.items():
        sys.stdout.write(f"{name.replace('_', ' '):11}  {printable(value or '-')}\n")
    sys.stdout.write("\n")
