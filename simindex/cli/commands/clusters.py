"""`simindex clusters`: groups of similar documents of an index."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from heapq import nlargest
from itertools import islice
from typing import Annotated

import typer

from simindex.cli import options
from simindex.cli.commands.pairs import By, MaxDistance, MaxRun, method_named, tell_bounded
from simindex.cli.creation import open_for_reading
from simindex.cli.output import json_key, note, print_json, print_table, shown_key
from simindex.cli.progress import Advance, work_bar
from simindex.cli.searching import Search
from simindex.format.keys import Key
from simindex.pairs.plan import DEFAULT_MAX_RUN
from simindex.tuning.curve import DEFAULT_THRESHOLD

_A_TIME = 1_000
_SHOWN = 8  # keys of a cluster in a table


class LinkageChoice(Enum):
    """What holds a cluster together."""

    components = "components"
    star = "star"


Linkage = Annotated[
    LinkageChoice,
    options.word_option(
        LinkageChoice,
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
    threshold: options.Threshold = None,
    linkage: Linkage = LinkageChoice.components,
    by: By = None,
    max_distance: MaxDistance = None,
    recall: options.Recall = None,
    exact: options.Exact = False,
    max_run: MaxRun = DEFAULT_MAX_RUN,
    limit: Annotated[
        int | None, typer.Option(metavar="N", parser=options.whole(1), help="The first N clusters only.")
    ] = None,
    largest: Annotated[
        int | None,
        typer.Option(metavar="N", parser=options.whole(1), help="The N largest clusters, largest first."),
    ] = None,
    as_json: options.JsonLines = False,
) -> None:
    """Print the clusters of similar documents.

    They come in the order of their oldest documents, and those of a cluster oldest first; of a star the first
    is the centre. A table shows the first keys of a cluster; JSON lines have all of them:
    {"documents": NUMBER, "keys": [KEY, ...]}.
    """
    method = method_named(by, threshold, max_distance, recall, exact)
    if limit is not None and largest is not None:
        raise typer.BadParameter("--limit does not go with --largest")
    with open_for_reading(index) as stored:
        is_simhash = method == "simhash" or (method is None and not stored.config.num_perm)
        Search(threshold, None, recall, exact, None, is_simhash, max_distance).require(stored)
        bar: list[Advance] = []
        found = stored.clusters(
            DEFAULT_THRESHOLD if threshold is None else threshold,
            "star" if linkage is LinkageChoice.star else "components",
            by="simhash" if is_simhash else "minhash",
            max_distance=max_distance,
            recall=recall,
            exact=exact,
            max_run=max_run,
            progress=lambda done, _total: bar[0](done, done),
        )
        with found, work_bar("entries of tables", found.total, prints_results=True) as advance:
            bar.append(advance)
            clusters: Iterator[list[Key]] = islice(found, limit)
            if largest is not None:
                clusters = iter(nlargest(largest, clusters, key=len))
            print_clusters(clusters, as_json)
        tell_bounded(found.bounded, max_run, "documents")


def print_clusters(clusters: Iterator[list[Key]], as_json: bool) -> None:
    """Print clusters as they come, some at a time."""
    count, header = 0, True
    while some := list(islice(clusters, _A_TIME)):
        count += len(some)
        if as_json:
            for keys in some:
                print_json({"documents": len(keys), "keys": [json_key(key) for key in keys]})
        else:
            print_table(("cluster", "documents"), [_row(keys) for keys in some], header=header)
            header = False
    if not count:
        note("simindex: no cluster")


def _row(keys: list[Key]) -> tuple[str, str]:
    shown = ", ".join(shown_key(key) for key in keys[:_SHOWN])
    more = f" and {len(keys) - _SHOWN:,} more" if len(keys) > _SHOWN else ""
    return shown + more, f"{len(keys):,}"
