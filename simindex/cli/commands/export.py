"""`simindex export`: every document of an index as a JSON line that `insert` reads.

`output.json_record` makes a line.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from simindex.cli import options
from simindex.cli.creation import open_for_reading
from simindex.cli.output import counted, json_line, json_record, note
from simindex.cli.progress import work_bar

_LINES_A_TIME = 1_000

EXAMPLES = r"""
simindex export news.simindex --output fingerprints.jsonl
simindex insert fingerprints.simindex fingerprints.jsonl --fingerprint-field fingerprint --no-minhash
"""


def run(
    index: options.IndexFolder,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Write to this file; - for stdout.")
    ] = "-",
) -> None:
    """Write every document as a JSON line, in order of insertion.

    A line is {"id", "metadata", "fingerprint", "inserted_at", "seen_at"}: the key ({"bytes": BASE64} for one
    of bytes), the SimHash fingerprint in 16 hexadecimal digits or null, times in ISO 8601. Texts are not
    stored, nor are MinHash signatures exported: insert --fingerprint-field fingerprint --metadata-field
    metadata --no-minhash makes an index of the fingerprints. FILE is written anew.
    """
    with open_for_reading(index) as stored:
        file = sys.stdout.buffer if output == "-" else open(output, "wb")  # noqa: SIM115 - closed below
        try:
            number = 0
            with work_bar("documents", len(stored), prints_results=output == "-") as advance:
                for number, record in enumerate(stored.values(), 1):
                    file.write(json_line(json_record(record)))
                    if number % _LINES_A_TIME == 0:
                        advance(number, number)
                advance(number, number)
        finally:
            if output != "-":
                file.close()
    if output != "-":
        note(f"{output}: {counted(number, 'document')} written")
