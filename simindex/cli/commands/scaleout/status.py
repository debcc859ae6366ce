"""`simindex scaleout status`: print where the partitions are, whether they answer, and what they hold.

The work is `ScaledIndex.status`.
"""

from __future__ import annotations

import typer

from simindex.cli import options
from simindex.cli.commands.scaleout.common_options import Address, Uri, opened
from simindex.cli.output import figure, print_json, print_table

EXAMPLES = r"""
simindex scaleout status news.catalog
"""


def run(catalog: Uri, address: Address = None, as_json: options.JsonObject = False) -> None:
    """Show each place with its node, partitions and documents; exit code 1 where one does not answer."""
    with opened(catalog, address) as index:
        places, status = index.catalog.places, index.status()
    if as_json:
        print_json(
            {
                place: {"partitions": list(places[place]), **of} | _plain_counts(of)
                for place, of in status.items()
            }
        )
    else:
        rows = [
            (
                place,
                of.get("node", of.get("missing", "")),
                figure(len(places[place])),
                figure(sum(of["documents"].values())) if "documents" in of else "",
                figure(of["used_bytes"]) if "used_bytes" in of else "",
            )
            for place, of in status.items()
        ]
        print_table(("place", "node", "partitions", "documents", "bytes in use"), rows, left=2)
    if any("missing" in of for of in status.values()):
        raise typer.Exit(1)


def _plain_counts(of: dict[str, dict[int, int]]) -> dict[str, dict[str, int]]:
    documents = of.get("documents")
    return {} if documents is None else {"documents": {str(number): n for number, n in documents.items()}}
