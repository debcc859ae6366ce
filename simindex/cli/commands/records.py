"""`simindex get`, `list` and `export`: what is stored of some documents, or of all."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from itertools import islice

from click.exceptions import Exit

from simindex.cli import options, reading
from simindex.cli.command import command, number, option
from simindex.cli.output import (
    Reports,
    counted,
    json_line,
    json_record,
    listed,
    note,
    print_json,
    printable,
    shown_key,
    whole_file,
    work_bar,
)
from simindex.index import open as open_index
from simindex.jsonable import plain
from simindex.queries.container import Record


@command(
    "get",
    """
simindex get news.simindex a
simindex get news.simindex 7 --int --json
""",
)
@options.index_folder
@reading.keys_argument
@reading.keys_file
@reading.int_keys
@options.json_lines
def get(index: str, keys: tuple[str, ...], input_: str | None, int_keys: bool, as_json: bool) -> None:
    """Show the metadata, times and fingerprints of documents; their texts are not stored.

    --json prints one line per document, as export does. Keys that are not in the index are reported, and the
    exit code is 1.
    """
    wanted = reading.given_keys(keys, input_, int_keys)
    reports = Reports("missing key")
    with open_index(index, "r") as stored:
        for key in (options.stored_key(stored, key) for key in wanted):
            record = stored.get(key)
            if record is None:
                reports.add(options.missing_key(stored, key))
            elif as_json:
                print_json(json_record(record))
            else:
                _print(record)
    reports.close()
    if reports.count:
        raise Exit(1)


def _print(record: Record) -> None:
    """Print a record for people: a line a field, never broken, for fingerprints are copied from it."""
    values = json_record(record)
    metadata = None if record.metadata is None else json.dumps(values["metadata"], ensure_ascii=False)
    values |= {"id": shown_key(record.key), "metadata": metadata}
    values |= {name: f"{time[:16]}Z" for name, time in values.items() if name.endswith("_at")}
    for name, value in values.items():
        sys.stdout.write(f"{name.replace('_', ' '):11}  {printable(value or '-')}\n")
    sys.stdout.write("\n")


@command("list", "simindex list news.simindex --limit 10")
@options.index_folder
@number("--limit", help="Print the oldest N only.")
@options.json_lines
def list_(index: str, limit: int | None, as_json: bool) -> None:
    """Print the keys, one per line, in the order of insertion.

    Unprintable characters are escaped, as `remove -` and `get -` take them. Only --json keeps bytes, and the
    difference between 5 and "5": it prints {"id": KEY}, a key of bytes being {"bytes": BASE64}.
    """
    with open_index(index, "r") as stored:
        for key in islice(stored, limit):
            if as_json:
                print_json({"id": plain(key)})
            else:
                sys.stdout.write((listed(key) if isinstance(key, str) else str(key)) + "\n")


_LINES_A_TIME = 1_000


@command(
    "export",
    """
simindex export news.simindex --output fingerprints.jsonl
simindex insert fingerprints.simindex fingerprints.jsonl --fingerprint-field fingerprint --no-minhash
""",
)
@options.index_folder
@option("-o", "--output", metavar="FILE", default="-", help="Write to this file; - for stdout.")
def export(index: str, output: str) -> None:
    """Write every document as a JSON line, in order of insertion.

    A line is {"id", "metadata", "fingerprint", "inserted_at", "seen_at"}: the key ({"bytes": BASE64} for one
    of bytes), the SimHash fingerprint in 16 hexadecimal digits or null, times in ISO 8601. Texts are not
    stored, nor are MinHash signatures exported: insert --fingerprint-field fingerprint --metadata-field
    metadata --no-minhash makes an index of the fingerprints. FILE is replaced once all is written.
    """
    number, is_stdout = 0, output == "-"
    if not is_stdout:
        from simindex.corpus.outputs.distinct import require_distinct

        require_distinct({"sink": output}, None, (), {"index": index})
    with (
        open_index(index, "r") as stored,
        nullcontext() if is_stdout else whole_file(output) as file,
        work_bar("documents", len(stored), prints_results=is_stdout) as advance,
    ):
        for number, record in enumerate(stored.values(), 1):
            if file is None:
                print_json(json_record(record))
            else:
                file.write(json_line(json_record(record)))
            if number % _LINES_A_TIME == 0:
                advance(number, number)
        advance(number, number)
    if not is_stdout:
        note(f"{output}: {counted(number, 'document')} written")
