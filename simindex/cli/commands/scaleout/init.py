"""`simindex scaleout init`: make a catalog and its partitions, empty.

The work is `simindex.scaleout.create`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from simindex import Config
from simindex.cli import creation, options
from simindex.cli.commands.scaleout.common_options import Address, PlacesOrHere, Uri, places_of
from simindex.cli.output import counted, note

EXAMPLES = r"""
simindex scaleout init news.catalog
simindex scaleout init news.catalog --partitions 64 --place simindex:a=/nvme/a --place simindex:b=/nvme/b
"""


def run(
    catalog: Uri,
    *,
    partitions: Annotated[int, options.number("How many there are, for good.")] = 8,
    place: PlacesOrHere = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="URI", help="Where backups lie: a folder that all nodes see, or s3://."),
    ] = None,
    durability: Annotated[
        Literal["node", "store"],
        options.word(
            ("node", "store"),
            "What an acknowledged change survives: a crash of its node, or the loss of its disk.",
        ),
    ] = "node",
    settings: creation.CreationOptions,
    address: Address = None,
) -> None:
    """Make an index over many machines: a catalog, and its partitions, empty."""
    from simindex import scaleout

    with scaleout.create(
        catalog,
        settings.config(Config()),
        partitions=partitions,
        places=places_of(place) if place else None,
        store=store,
        durability=durability,
        address=address,
    ) as index:
        note(
            f"{catalog}: {counted(partitions, 'partition')} at {counted(len(index.catalog.places), 'place')}"
        )
