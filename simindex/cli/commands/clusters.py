"""`simindex clusters`: groups of similar documents of an index."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from itertools import islice
from typing import Annotated, get_args

import typer

from simindex.cli import options
from simindex.cli.commands.pairs import MaxRun, note_bounded
from simindex.cli.creation import open_for_reading
from simindex.cli.output import note, print_json, print_table, shown_key
from simindex.cli.progress import Advance, work_bar
from simindex.cli.searching import OwnPairOptions
from simindex.format.keys import Key
from simindex.jsonable import plain
from simindex.pairs.clusters import Linkage
from simindex.pairs.plan import DEFAULT_MAX_RUN

_A_TIME = 1_000
_SHOWN = 8  # keys of a cluster in a table


LinkageChoice = Annotated[
    Linkage,
    options.word(
        get_args(Linkage),
        "What holds a cluster together: components, its pairs, however long the chain; star, that every "
        "document is similar to the first.",
    ),
]


EXAMPLES = r"""
simindex clusters news.simindex --threshold 0.7
simindex clusters news.simindex --linkage star --largest 20
simindex clusters news.simindex --json | jq -r '.keys[1:][]'
"""


def run(
    index: options.IndexFolder,
    *,
    similar: OwnPairOptions,
    linkage: LinkageChoice = "components",
    max_run: MaxRun = DEFAULT_MAX_RUN,
    limit: options.FirstClusters = None,
    largest: Annotated[int | None, options.number("The N largest clusters, largest first.")] = None,
    as_json: options.JsonLines = False,
) -> None:
    """Print the clusters of similar documents.

    They come in the order of their oldest documents, and those of a cluster oldest first; of a star the first
    is the centre. A table shows the first keys of a cluster; JSON lines have all of them:
    {"documents": NUMBER, "keys": [KEY, ...]}.
    """
    if limit is not None and largest is not None:
        raise typer.BadParameter("--limit does not go with --largest")
    with open_for_reading(index) as stored:
        similar.require(stored)
        bar: list[Advance] = []
        found = stored.clusters(
            linkage=linkage,
            max_run=max_run,
            **similar.arguments(),
            progress=lambda done, _total: bar[0](done, done),
        )
        with found, work_bar("entries of tables", found.total, prints_results=True) as advance:
            bar.append(advance)
            clusters: Iterator[list[Key]] = islice(found, limit)
            if largest is not None:
                clusters = iter(nlargest(largest, clusters, key=len))
            print_clusters(clusters, as_json)
        note_bounded(found.bounded, max_run, "documents")


def print_clusters(clusters: Iterator[list[Key]], as_json: bool) -> None:
    """Print clusters as they come, some at a time."""
    count, header = 0, True
    while some := list(islice(clusters, _A_TIME)):
        count += len(some)
        if as_json:
            for keys in some:
                print_json({"documents": len(keys), "keys": [plain(key) for key in keys]})
        else:
            print_table(("cluster", "documents"), [_row(keys) for keys in some], header=header)
            header = False
    if not count:
        note("simindex: no cluster")


def _row(keys: list[Key]) -> tuple[str, str]:
    shown = ", ".join(shown_key(key) for key in keys[:_SHOWN])
    more = f" and {len(keys) - _SHOWN:,} more" if len(keys) > _SHOWN else ""
    return shown + more, f"{len(keys):,}"
