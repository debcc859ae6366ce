"""Options that the commands of `simindex scaleout` share, and how they open an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from simindex.cli import options

if TYPE_CHECKING:
    from simindex.scaleout import ScaledIndex

Uri = Annotated[str, typer.Argument(metavar="CATALOG", help="The catalog of the index.")]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="The Ray cluster; default: RAY_ADDRESS, one that runs on this machine, or a new one.",
    ),
]

Lost = Annotated[str, typer.Argument(metavar="RESOURCE", help="The resource of the node that is lost.")]
_PLACES_HELP = "A node, by the name of its resource, and the folder on its disk; several times."
_PLACES_METAVAR = "RESOURCE=FOLDER"
Places = Annotated[list[str], typer.Option(metavar=_PLACES_METAVAR, help=_PLACES_HELP)]
PlacesOrHere = Annotated[
    list[str] | None,
    typer.Option(metavar=_PLACES_METAVAR, help=f"{_PLACES_HELP} Default: this machine."),
]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="URI",
        help="A folder or URI that both nodes see, by which it goes; default: the catalog's store.",
    ),
]
Work = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="That all nodes see, for copies of the partitions; removed at the end (default: CATALOG.work).",
    ),
]
MaxRun = Annotated[
    int,
    options.number(
        "Fail where more than N documents of all partitions are candidates of one another.", least=16
    ),
]


def places_of(given: list[str]) -> dict[str, str]:
    """Return resource -> folder of what was typed.

    >>> places_of(["simindex:a=/nvme/a"])
    {'simindex:a': '/nvme/a'}
    """
    places = {}
    for one in given:
        resource, _, folder = one.partition("=")
        if not resource or not folder:
            raise typer.BadParameter(f"expected RESOURCE=FOLDER, found {one!r}", param_hint="'--place'")
        places[resource] = folder
    return places


def opened(uri: str, address: str | None) -> ScaledIndex:
    """Return the index of a catalog."""
    from simindex import scaleout  # the other commands have no use for it

    return scaleout.open(uri, address=address)
