"""`simindex scaleout backup`: back up all partitions to the catalog's store.

The work is `simindex.scaleout.backup`.
"""

from __future__ import annotations

from dataclasses import asdict

from simindex.cli import options
from simindex.cli.commands.scaleout.common_options import Address, Uri
from simindex.cli.output import counted, figure, note, print_json

EXAMPLES = r"""
simindex scaleout backup news.catalog
"""


def run(catalog: Uri, address: Address = None, as_json: options.JsonObject = False) -> None:
    """Back up every partition to the store that init --store named; what is there is not uploaded again."""
    from simindex import scaleout

    reports = scaleout.backup(catalog, address=address)
    if as_json:
        print_json({str(number): asdict(report) for number, report in reports.items()})
        return
    documents = sum(report.documents for report in reports.values())
    copied = sum(report.copied_bytes for report in reports.values())
    note(
        f"{counted(len(reports), 'partition')} with {counted(documents, 'document')}: "
        f"{figure(copied)} bytes uploaded"
    )
