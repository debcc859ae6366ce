"""`simindex scaleout rebalance`: even out the number of partitions per node by as few moves as possible.

The work is `simindex.scaleout.rebalance`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from simindex.cli import options
from simindex.cli.commands.scaleout.common_options import Address, Places, Store, Uri, places_of
from simindex.cli.output import figure, note, print_json, print_table

EXAMPLES = r"""
simindex scaleout rebalance news.catalog --place simindex:a=/nvme/a --place simindex:b=/nvme/b --dry-run
"""


def run(
    catalog: Uri,
    place: Places,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which would move.")] = False,
    store: Store = None,
    address: Address = None,
    as_json: options.JsonLines = False,
) -> None:
    """Move as few partitions as it takes for all the nodes given to have equally many."""
    from simindex import scaleout

    moves = scaleout.rebalance(catalog, places_of(place), store=store, dry_run=dry_run, address=address)
    if as_json:
        for one in moves:
            print_json(asdict(one))
    elif moves:
        print_table(
            ("partition", "from", "to"),
            [(figure(one.partition), one.source, one.target) for one in moves],
        )
    else:
        note("nothing to move")
