"""What the commands of `simindex scaleout` take alike, and how they open an index.

Owns their arguments. Must not print.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

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


def opened(uri: str, address: str | None) -> ScaledIndex:
    """Return the index of a catalog."""
    from simindex import scaleout  # the other commands have no use for it

    return scaleout.open(uri, address=address)
