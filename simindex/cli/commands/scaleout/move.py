"""`simindex scaleout move`: move one partition to another node.

The work is `simindex.scaleout.move`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from simindex.cli import options
from simindex.cli.commands.scaleout.common_options import Address, Store, Uri, places_of
from simindex.cli.output import note

EXAMPLES = r"""
simindex scaleout move news.catalog 3 simindex:b=/nvme/b
"""


def run(
    catalog: Uri,
    partition: Annotated[
        int, typer.Argument(metavar="PARTITION", parser=options.whole(0), help="Its number; see status.")
    ],
    place: Annotated[
        str,
        typer.Argument(metavar="RESOURCE=FOLDER", help="Where it goes: a node's resource, a folder there."),
    ],
    store: Store = None,
    address: Address = None,
) -> None:
    """Move a partition to another node. Queries go on; changes to it are refused until it has
    moved."""
    from simindex import scaleout

    ((resource, folder),) = places_of([place]).items()
    scaleout.move(catalog, partition, resource, folder, store=store, address=address)
    note(f"partition {partition} is at {resource}")
