"""`simindex scaleout pairs` and `clusters`: what is similar among the documents of several indexes."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from simindex import scaleout
from simindex.cli import options
from simindex.cli.commands.pairs import (
    CopyChoice,
    LinkageChoice,
    MaxRun,
    PairOptions,
    note_bounded,
    print_clusters,
    print_pairs,
)
from simindex.cli.options import Address
from simindex.cli.output import work_bar
from simindex.pairs.plan import DEFAULT_MAX_RUN

EXAMPLES = {
    "pairs": "simindex scaleout pairs /shared/monday /shared/tuesday --threshold 0.9 --json",
    "clusters": "simindex scaleout clusters /shared/parts/*.simindex --threshold 0.7 --json",
}

_Indexes = Annotated[
    list[str], typer.Argument(metavar="INDEX...", help="Folders of indexes, which all nodes see.")
]
_Work = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder for temporary files, seen by all nodes (default: beside the first index).",
    ),
]


def pairs(
    indexes: _Indexes,
    *,
    similar: PairOptions,
    copies: CopyChoice = "all",
    max_run: MaxRun = DEFAULT_MAX_RUN,
    limit: options.FirstPairs = None,
    work: _Work = None,
    address: Address = None,
    as_json: options.JsonLines = False,
) -> None:
    """Print all pairs of similar documents of several indexes, found by all nodes; JSON lines as those of
    pairs."""
    how = similar.arguments() | {"copies": copies, "max_run": max_run, "work": work, "address": address}
    with scaleout.pairs(indexes, **how) as found, work_bar("pairs", prints_results=True) as advance:
        print_pairs(found, limit, as_json, lambda count: advance(count, count))
    note_bounded(found.bounded, max_run, "pairs")


def clusters(
    indexes: _Indexes,
    *,
    similar: PairOptions,
    linkage: LinkageChoice = "components",
    max_run: MaxRun = DEFAULT_MAX_RUN,
    limit: options.FirstClusters = None,
    work: _Work = None,
    address: Address = None,
    as_json: options.JsonLines = False,
) -> None:
    """Print the clusters of similar documents of several indexes, as clusters does; components come in the
    order of indexes, and of age in each."""
    how = similar.arguments() | {"linkage": linkage, "max_run": max_run, "work": work, "address": address}
    with scaleout.clusters(indexes, **how) as found:
        print_clusters(islice(found, limit), as_json)
    note_bounded(found.bounded, max_run, "documents")
