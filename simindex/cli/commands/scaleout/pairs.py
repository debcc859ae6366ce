"""`simindex scaleout pairs` and `clusters`: what is similar among the documents of several indexes."""

from __future__ import annotations

from itertools import islice

from simindex import scaleout
from simindex.all_pairs.clusters import Linkage
from simindex.all_pairs.plan import DEFAULT_MAX_RUN, Copies
from simindex.cli import options
from simindex.cli.command import argument, command, option, takes
from simindex.cli.commands.pairs import (
    PairOptions,
    copies_option,
    linkage_option,
    note_bounded,
    print_clusters,
    print_pairs,
)
from simindex.cli.output import work_bar

_indexes = argument(
    "indexes", "INDEX...", "Folders of indexes, which all nodes see.", nargs=-1, required=True
)
_work = option(
    "--work",
    metavar="FOLDER",
    help="Folder for temporary files, seen by all nodes (default: beside the first index).",
)


@command("pairs", "simindex scaleout pairs /shared/monday /shared/tuesday --threshold 0.9 --json")
@_indexes
@takes("similar", PairOptions)
@copies_option
@options.first_pairs
@_work
@options.address
@options.json_lines
def pairs(
    indexes: tuple[str, ...],
    similar: PairOptions,
    copies: Copies,
    limit: int | None,
    work: str | None,
    address: str | None,
    as_json: bool,
) -> None:
    """Print all pairs of similar documents of several indexes, found by all nodes; JSON lines as those of
    pairs."""
    how = similar.arguments() | {"copies": copies, "work": work, "address": address}
    with scaleout.pairs(indexes, **how) as found, work_bar("pairs", prints_results=True) as advance:
        print_pairs(found, limit, as_json, lambda count: advance(count, count))
    note_bounded(found.bounded, DEFAULT_MAX_RUN, "pairs")


@command("clusters", "simindex scaleout clusters /shared/parts/*.simindex --threshold 0.7 --json")
@_indexes
@takes("similar", PairOptions)
@linkage_option
@options.first_clusters
@_work
@options.address
@options.json_lines
def clusters(
    indexes: tuple[str, ...],
    similar: PairOptions,
    linkage: Linkage,
    limit: int | None,
    work: str | None,
    address: str | None,
    as_json: bool,
) -> None:
    """Print the clusters of similar documents of several indexes, as clusters does; components come in the
    order of indexes, and of age in each."""
    how = similar.arguments() | {"linkage": linkage, "work": work, "address": address}
    with scaleout.clusters(indexes, **how) as found:
        print_clusters(islice(found, limit), as_json)
    note_bounded(found.bounded, DEFAULT_MAX_RUN, "documents")
