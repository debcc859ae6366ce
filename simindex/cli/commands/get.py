"""`simindex get`: what is stored of documents, by key."""

from __future__ import annotations

import json

import typer

from simindex.cli import keys as given
from simindex.cli import options
from simindex.cli.creation import open_for_reading
from simindex.cli.output import Reports, json_record, print_json, print_table, printable, shown_key
from simindex.inputs import Limits


def run(
    index: options.IndexFolder,
    keys: given.Keys = None,
    input_: given.KeysFile = None,
    int_keys: given.IntKeys = False,
    as_json: options.JsonLines = False,
) -> None:
    """Show what is stored of documents: metadata, times, fingerprint. Texts are not stored.

    JSON lines: one a document, as of export. Keys that are not in the index are reported, and the exit code
    is 1.
    """
    wanted = given.given_keys(keys, input_, int_keys, Limits())
    reports = Reports("missing key")
    with open_for_reading(index) as stored:
        rows: list[tuple[str, str]] = []
        for key in wanted:
            record = stored.get(key)
            if record is None:
                reports.add(options.missing_key(stored, key))
            elif as_json:
                print_json(json_record(record))
            else:
                values = json_record(record)
                metadata = json.dumps(values["metadata"], ensure_ascii=False)
                values |= {"id": shown_key(key), "metadata": None if record.metadata is None else metadata}
                rows += [(name.replace("_", " "), printable(value or "-")) for name, value in values.items()]
    if rows:
        print_table(("field", "value"), rows, left=2)
    reports.close()
    if reports.count:
        raise typer.Exit(1)
