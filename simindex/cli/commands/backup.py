"""`simindex backup`: copy an index while it is in use, or bring an older copy up to date.

The work is `Index.backup`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from simindex.cli import options
from simindex.cli.creation import open_for_reading
from simindex.cli.output import counted, note, print_json
from simindex.cli.progress import bytes_bar

EXAMPLES = r"""
simindex backup news.simindex backup.simindex
"""


def run(
    index: options.IndexFolder,
    destination: Annotated[
        str,
        typer.Argument(
            metavar="DEST",
            help="A new folder, or an older backup of this index, which is brought up to date.",
        ),
    ],
    as_json: options.JsonSummary = False,
) -> None:
    """Copy an index to a folder, while others read and write it."""
    with open_for_reading(index) as stored, bytes_bar() as advance:
        report = stored.backup(destination, advance)
    if as_json:
        print_json(asdict(report))
        return
    kept = f", {report.reused_bytes / 1e6:,.1f} MB kept of the older backup" if not report.created else ""
    note(
        f"{counted(report.documents, 'document')}: {report.copied_bytes / 1e6:,.1f} MB copied{kept}, "
        f"in {report.seconds:,.1f} s"
    )
