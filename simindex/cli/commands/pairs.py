"""`simindex pairs`, `clusters` and `join`: similar pairs of stored documents, or of two collections."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice
from typing import Any, get_args

from click import BadParameter

from simindex.all_pairs.clusters import Linkage
from simindex.all_pairs.pair import Bounded, Pair
from simindex.all_pairs.plan import DEFAULT_MAX_RUN, Copies
from simindex.cli import options
from simindex.cli.command import argument, command, number, takes, word
from simindex.cli.failures import CommandError
from simindex.cli.output import (
    Advance,
    counted,
    figure,
    note,
    note_tally,
    print_json,
    print_table,
    shown_key,
    some_of,
    work_bar,
)
from simindex.format.keys import Key
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.index import open as open_index
from simindex.inputs import Inputs
from simindex.jsonable import plain
from simindex.storage.folder import is_index

_A_TIME = 1_000
_COLUMNS = ("a", "b", "similarity", "distance")
_SHOWN = 8  # keys of a cluster in a table

copies_option = word(
    "--copies",
    words=get_args(Copies),
    default="all",
    help="first: list each group of equal documents once, through its oldest; all: list every pair.",
)
linkage_option = word(
    "--linkage",
    words=get_args(Linkage),
    default="components",
    help="components: join chains of similar pairs; star: every document of a cluster is similar to its "
    "first.",
)


@dataclass(frozen=True)
class PairOptions:
    """How similar the documents of a pair are; ``None`` or False: not given."""

    threshold: float | None = options.threshold.field()
    by: str | None = options.by.field()
    max_distance: int | None = options.max_distance.field()
    recall: float | None = options.recall.field()

    def __post_init__(self) -> None:
        options.require_of_method(**vars(self))

    def arguments(self) -> dict[str, Any]:
        """Return the options as keyword arguments of `Index.pairs` and its like, the default threshold where
        none was given."""
        return vars(self) | ({"threshold": DEFAULT_THRESHOLD} if self.threshold is None else {})


@dataclass(frozen=True)
class StoredPairOptions(PairOptions):
    """The same of documents whose shingles may be kept."""

    exact: bool = options.exact.field()


@dataclass(frozen=True)
class OwnPairOptions(StoredPairOptions):
    """The same of documents of one index, which knows what many of them share."""

    ignore_common: float | None = options.ignore_common.field()


@command(
    "pairs",
    """
simindex pairs news.simindex --threshold 0.9
simindex pairs news.simindex --by simhash --max-distance 2 --json
""",
)
@options.index_folder
@takes("similar", OwnPairOptions)
@copies_option
@options.where
@options.first_pairs
@options.json_lines
def pairs(
    index: str,
    similar: OwnPairOptions,
    copies: Copies,
    where: dict[str, list[object]] | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print all pairs of similar documents, as they are found.

    The pairs are those of one state of the index, in an order that depends on nothing else. JSON lines:
    {"a", "b", "similarity", "distance", "exact", "standard_error"}, a being the document stored first;
    with --ignore-common also "common_left_out", the number of shingles that were left out.
    """
    with open_index(index, "r") as stored:
        found = stored.pairs(**similar.arguments(), copies=copies, where=where)
        with found, work_bar("pairs", found.total, prints_results=True) as advance:
            print_pairs(found, limit, as_json, lambda count: advance(count, found.done))
        note_bounded(found.bounded, DEFAULT_MAX_RUN, "pairs")


@command(
    "clusters",
    """
simindex clusters news.simindex --threshold 0.7
simindex clusters news.simindex --linkage star --largest 20
simindex clusters news.simindex --json | jq -r '.keys[1:][]'
""",
)
@options.index_folder
@takes("similar", OwnPairOptions)
@linkage_option
@options.where
@options.first_clusters
@number("--largest", help="Show the N largest clusters, largest first.")
@options.json_lines
def clusters(
    index: str,
    similar: OwnPairOptions,
    linkage: Linkage,
    where: dict[str, list[object]] | None,
    limit: int | None,
    largest: int | None,
    as_json: bool,
) -> None:
    """Print the clusters of similar documents.

    They come in the order of their oldest documents, or with --largest by size; the documents of a cluster
    come oldest first, of a star the centre before all others. A table shows the first keys of a cluster,
    --json prints all of them: {"documents": NUMBER, "keys": [KEY, ...]}.
    """
    if largest is not None:
        options.refuse_with("largest", limit=limit)
    with open_index(index, "r") as stored:
        bar: list[Advance] = []
        found = stored.clusters(
            linkage=linkage,
            where=where,
            **similar.arguments(),
            progress=lambda done, _total: bar[0](done, done),
        )
        with found, work_bar("entries of tables", found.total, prints_results=True) as advance:
            bar.append(advance)
            some = islice(found, limit) if largest is None else iter(nlargest(largest, found, key=len))
            print_clusters(some, as_json)
        note_bounded(found.bounded, DEFAULT_MAX_RUN, "documents")


@command(
    "join",
    """
simindex join news.simindex archive.simindex --threshold 0.9
simindex join news.jsonl archive.simindex --json
""",
)
@argument("a", "A", "An index, or an input, read as insert reads it.")
@argument("b", "B", "An index, or an input, read as insert reads it.")
@takes("similar", StoredPairOptions)
@options.first_pairs
@options.max_candidates
@takes("reads", options.ComparedOptions)
@options.json_lines
def join(
    a: str,
    b: str,
    similar: StoredPairOptions,
    limit: int | None,
    max_candidates: int,
    reads: options.ComparedOptions,
    as_json: bool,
) -> None:
    """Print the similar pairs between two indexes or inputs.

    A pair has one document of each; pairs within one of them are not printed. Each document of A is looked up
    in B, or each of B in A where A alone is an index. JSON lines: {"a", "b", "similarity", "distance",
    "exact", "standard_error"}, a being a key of A.
    """
    if a == b == "-":
        raise BadParameter("expected at most one side on standard input, found two")
    if is_index(a) and is_index(b):
        reads.require_defaults("an input, not with two indexes")
        if os.path.samefile(a, b):
            raise CommandError(f"{a}: the same index twice; simindex pairs has the pairs within one")
    from simindex import corpus

    sides = _side(a, reads), _side(b, reads)
    with corpus.join(*sides, max_candidates=max_candidates, **similar.arguments()) as found:
        with work_bar("documents", prints_results=True) as advance:
            print_pairs(found, limit, as_json, lambda _: advance(found.read, 0))
        if found.bounded:
            note(
                f"simindex: truncated, {counted(found.bounded, 'document')}: pairs may be missing, for the "
                "limit on candidates was hit; raise --max-candidates"
            )
    for side in sides:
        if not isinstance(side, str):
            note_tally(side.tally)


def _side(side: str, reads: options.FileOptions) -> str | Inputs:
    try:
        return side if is_index(side) else reads.inputs([side])
    except FileNotFoundError as exc:
        raise CommandError(f"{side}: no index, file or folder there") from exc


def note_bounded(bounded: Bounded, max_run: int, what: str, set_by: str = "max_run in Python") -> None:
    """Say what was not compared all with all, if anything, and what may be missing."""
    runs, entries = bounded
    if runs:
        note(
            f"simindex: {what} may be missing: {counted(runs, 'group')} of documents that share a prefix had "
            f"more than {max_run:,} members ({entries:,} in all), and were compared with 16 of these only; "
            f"{set_by} sets the limit"
        )


def print_pairs(
    found: Iterator[Pair], limit: int | None, as_json: bool, advance: Callable[[int], object]
) -> None:
    """Print pairs up to the limit, some at a time, and say so if they end there, or if there are none;
    `advance` gets the number printed so far."""
    num_pairs, pairs = 0, islice(found, limit)
    while some := list(islice(pairs, _A_TIME)):
        if as_json:
            for pair in some:
                print_json(pair.to_dict())
        else:
            print_table(_COLUMNS, [_figures(pair) for pair in some], left=2, header=not num_pairs)
        num_pairs += len(some)
        advance(num_pairs)
    if num_pairs == limit:
        note(f"simindex: stopped at the limit, {counted(num_pairs, 'pair')}; there may be more")
    if not num_pairs:
        note("simindex: no pair")


def _figures(pair: Pair) -> tuple[str, str, str, str]:
    return shown_key(pair.a), shown_key(pair.b), figure(pair.similarity, 3), figure(pair.distance)


def print_clusters(clusters: Iterator[list[Key]], as_json: bool) -> None:
    """Print clusters as they come, some at a time, and say so if there are none."""
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
    return some_of(map(shown_key, keys), len(keys), _SHOWN), f"{len(keys):,}"
