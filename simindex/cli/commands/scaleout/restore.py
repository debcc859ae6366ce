"""`simindex scaleout restore`: restore the partitions of a lost node from their backups on other nodes.

The work is `simindex.scaleout.restore`.
"""

from __future__ import annotations

from dataclasses import asdict

from simindex.cli import options
from simindex.cli.commands.scaleout.common_options import Address, Lost, Places, Uri, places_of
from simindex.cli.output import counted, note, print_json

EXAMPLES = r"""
simindex scaleout restore news.catalog simindex:a --place simindex:b=/nvme/b
"""


def run(
    catalog: Uri, lost: Lost, place: Places, address: Address = None, as_json: options.JsonObject = False
) -> None:
    """Make the partitions of a lost node of their backups, on other nodes. See to it that the lost one does
    not come back: with durability "node" it would go on with what it has."""
    from simindex import scaleout

    reports = scaleout.restore(catalog, lost, places_of(place), address=address)
    if as_json:
        print_json({str(number): asdict(report) for number, report in reports.items()})
        return
    documents = sum(report.documents for report in reports.values())
    note(f"{counted(len(reports), 'partition')} with {counted(documents, 'document')} restored")
