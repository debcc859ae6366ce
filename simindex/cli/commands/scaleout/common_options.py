"""Options that the commands of `simindex scaleout` share."""

from __future__ import annotations

from typing import Annotated

import typer

Uri = Annotated[str, typer.Argument(metavar="CATALOG", help="The catalog of the index.")]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="The Ray cluster; default: RAY_ADDRESS, one that runs on this machine, or a new one.",
    ),
]
_PLACES_HELP = "A node, by the name of its resource, and the folder on its disk; several times."
Places = Annotated[list[str], typer.Option(metavar="RESOURCE=FOLDER", help=_PLACES_HELP)]
PlacesOrHere = Annotated[
    list[str] | None,
    typer.Option(metavar="RESOURCE=FOLDER", help=f"{_PLACES_HELP} Default: this machine."),
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
