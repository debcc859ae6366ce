"""`simindex merge`: make one index of several.

The work is `simindex.merge`.
"""

from __future__ import annotations

from typing import Annotated, get_args

import typer

import simindex
from simindex.changes.documents import Conflict
from simindex.cli import options
from simindex.cli.failures import CommandError
from simindex.cli.output import counted, note, print_json

EXAMPLES = r"""
simindex merge monday.simindex tuesday.simindex week.simindex --on-conflict replace
"""


def run(
    paths: Annotated[
        list[str], typer.Argument(metavar="INDEX... DEST", help="The indexes, and the folder of the new one.")
    ],
    on_conflict: Annotated[
        Conflict, options.word(get_args(Conflict), "What to do with a key that an earlier index has.")
    ] = "error",
    as_json: options.JsonSummary = False,
) -> None:
    """Make a new index of several, from their stored sketches."""
    if len(paths) < 2:
        raise typer.BadParameter("expected one index or more, and the folder of the new one")
    try:
        report = simindex.merge(paths[:-1], paths[-1], on_conflict)
    except simindex.KeyExistsError as exc:
        raise CommandError(
            f"key {exc.key!r} is in two of the indexes; use --on-conflict skip, which keeps that of the "
            "earlier one, or --on-conflict replace"
        ) from exc
    if as_json:
        print_json(report._asdict())
    else:
        merged = counted(report.inserted, "document")
        note(f"{merged} merged, {report.replaced:,} replaced, {report.skipped:,} skipped")
