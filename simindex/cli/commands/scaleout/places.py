"""`simindex scaleout backup`, `restore`, `move` and `rebalance`: where partitions are, and their backups."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from simindex import scaleout
from simindex.cli import options
from simindex.cli.options import Address, Places, Uri, places_of
from simindex.cli.output import counted, figure, note, print_json, print_table

EXAMPLES = {
    "backup": "simindex scaleout backup news.catalog",
    "restore": "simindex scaleout restore news.catalog simindex:a --place simindex:b=/nvme/b",
    "move": "simindex scaleout move news.catalog 3 simindex:b=/nvme/b",
    "rebalance": "simindex scaleout rebalance news.catalog --place simindex:a=/nvme/a "
    "--place simindex:b=/nvme/b --dry-run",
}

_Store = Annotated[
    str | None,
    typer.Option(
        metavar="URI",
        help="Folder or URI, seen by both nodes, to copy through (default: the catalog's store).",
    ),
]


def backup(catalog: Uri, address: Address = None, as_json: options.JsonObject = False) -> None:
    """Back up every partition to the store that init --store named; what is there is not uploaded again."""
    reports = scaleout.backup(catalog, address=address)
    copied = sum(report.copied_bytes for report in reports.values())
    _print_reports(reports, as_json, f": {figure(copied)} bytes uploaded")


def restore(
    catalog: Uri,
    lost: str,
    place: Places,
    address: Address = None,
    as_json: options.JsonObject = False,
) -> None:
    """Make the partitions of a lost node of their backups, on other nodes. See to it that the lost one does
    not come back: with durability "node" it would go on with what it has.

    Arguments:
        lost RESOURCE: The resource of the node that is lost.
    """
    _print_reports(scaleout.restore(catalog, lost, places_of(place), address=address), as_json, " restored")


def move(
    catalog: Uri,
    partition: Annotated[int, typer.Argument(parser=options.whole(0))],
    place: str,
    store: _Store = None,
    address: Address = None,
) -> None:
    """Move a partition to another node. Queries go on; changes to it are refused until it has
    moved.

    Arguments:
        partition PARTITION: Its number; see status.
        place RESOURCE=FOLDER: Destination: a node's resource, and a folder there.
    """
    ((resource, folder),) = places_of([place]).items()
    scaleout.move(catalog, partition, resource, folder, store=store, address=address)
    note(f"partition {partition} is at {resource}")


def rebalance(
    catalog: Uri,
    place: Places,
    dry_run: bool = False,
    store: _Store = None,
    address: Address = None,
    as_json: options.JsonLines = False,
) -> None:
    """Move as few partitions as it takes for all the nodes given to have equally many.

    Options:
        dry_run: Only show which would move.
    """
    moves = scaleout.rebalance(catalog, places_of(place), store=store, dry_run=dry_run, address=address)
    if as_json:
        for one in moves:
            print_json(asdict(one))
    elif moves:
        rows = [(figure(one.partition), one.source, one.target) for one in moves]
        print_table(("partition", "from", "to"), rows)
    else:
        note("nothing to move")


def _print_reports(reports: dict[int, Any], as_json: bool, done: str) -> None:
    """Print what became of partitions, of their reports."""
    if as_json:
        print_json({str(number): asdict(report) for number, report in reports.items()})
        return
    documents = counted(sum(report.documents for report in reports.values()), "document")
    note(f"{counted(len(reports), 'partition')} with {documents}{done}")
