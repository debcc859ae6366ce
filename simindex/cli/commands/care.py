"""`simindex check`, `repair`, `compact`, `backup` and `merge`, the functions of these names as commands."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, get_args

import typer

import simindex
from simindex.changes.documents import Conflict
from simindex.cli import options
from simindex.cli.creation import open_for_change, open_for_reading
from simindex.cli.failures import CommandError
from simindex.cli.output import counted, note, print_json, print_report
from simindex.cli.progress import bytes_bar, work_bar

EXAMPLES = {
    "check": """
simindex check news.simindex
simindex check news.simindex --quick
simindex check news.simindex --json
""",
    "repair": """
simindex repair news.simindex saved.simindex
simindex repair news.simindex also-saved.simindex --json
""",
    "compact": "simindex compact news.simindex",
    "backup": "simindex backup news.simindex backup.simindex",
    "merge": "simindex merge monday.simindex tuesday.simindex week.simindex --on-conflict replace",
}


def check(
    index: options.IndexFolder,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Check pages, counts and lengths only, not the contents of records and tables."
        ),
    ] = False,
    as_json: options.JsonObject = False,
) -> None:
    """Check an index for damage."""
    with bytes_bar() as advance:
        report = simindex.check(index, "quick" if quick else "full", progress=advance)
    print_report(report, as_json)
    if not report.ok:
        raise typer.Exit(1)


def repair(
    index: options.IndexFolder,
    destination: Annotated[
        str, typer.Argument(metavar="DEST", help="The folder of the new index; missing, or empty.")
    ],
    as_json: options.JsonObject = False,
) -> None:
    """Copy the undamaged part of an index into a new one."""
    with work_bar("documents", None) as advance:
        report = simindex.repair(index, destination, progress=advance)
    print_report(report, as_json)
    if not report.is_whole:
        raise typer.Exit(1)


def compact(
    index: options.IndexFolder,
    wait: options.Wait = 0.0,
    as_json: options.JsonSummary = False,
) -> None:
    """Merge all segments, and free the space of removed documents."""
    with open_for_change(index, wait) as stored:
        before = stored.stats().file_bytes
        with bytes_bar() as advance:
            stored.compact(advance)
        after = stored.stats().file_bytes
    if as_json:
        print_json({"bytes_before": before, "bytes_after": after})
    else:
        note(f"{counted(before, 'byte')} before, {after:,} after")


def backup(
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


def merge(
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
