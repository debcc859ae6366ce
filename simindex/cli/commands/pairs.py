"""`simindex pairs`: all pairs of similar documents of an index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from itertools import islice
from typing import Annotated

import typer

from simindex import Pair, Pairs
from simindex.cli import options
from simindex.cli.creation import open_for_reading
from simindex.cli.output import counted, note, print_json, print_table, shown_key
from simindex.cli.progress import work_bar
from simindex.cli.searching import Search
from simindex.pairs.pair import Bounded
from simindex.pairs.plan import DEFAULT_MAX_RUN
from simindex.queries.search import Method
from simindex.tuning.curve import DEFAULT_THRESHOLD

_A_TIME = 1_000
_COLUMNS = ("a", "b", "similarity", "distance")


class _By(Enum):
    minhash = "minhash"
    simhash = "simhash"


class CopyWord(Enum):
    """Which of equal documents are paired."""

    first = "first"
    all = "all"


By = Annotated[
    _By | None, options.word_option(_By, "What documents are compared by; default: MinHash where there is.")
]
MaxDistance = Annotated[
    int | None,
    typer.Option(
        metavar="K",
        parser=options.whole(),
        help="With --by simhash: pairs within so many bits; default: what the index was built for.",
    ),
]
CopyChoice = Annotated[
    CopyWord,
    options.word_option(
        CopyWord,
        "first: list each group of equal documents once, through its oldest; all: list every pair.",
    ),
]
MaxRun = Annotated[
    int,
    typer.Option(
        metavar="N",
        parser=options.whole(16),
        help="In a group of more than N candidates compare each with 16 others only, not with all.",
    ),
]

EXAMPLES = r"""
simindex pairs news.simindex --threshold 0.9
simindex pairs news.simindex --by simhash --max-distance 2 --json
"""


def run(
    index: options.IndexFolder,
    threshold: options.Threshold = None,
    by: By = None,
    max_distance: MaxDistance = None,
    recall: options.Recall = None,
    exact: options.Exact = False,
    copies: CopyChoice = CopyWord.all,
    max_run: MaxRun = DEFAULT_MAX_RUN,
    limit: Annotated[
        int | None, typer.Option(metavar="N", parser=options.whole(1), help="The first N pairs only.")
    ] = None,
    as_json: options.JsonLines = False,
) -> None:
    """Print all pairs of similar documents, as they are found.

    The pairs are those of one state of the index, in an order that depends on nothing else. JSON lines:
    {"a", "b", "similarity", "distance", "exact", "standard_error"}, a being the document stored first.
    """
    method = method_named(by, threshold, max_distance, recall, exact)
    with open_for_reading(index) as stored:
        is_simhash = method == "simhash" or (method is None and not stored.config.num_perm)
        Search(threshold, None, recall, exact, None, is_simhash, max_distance).require(stored)
        found = stored.pairs(
            DEFAULT_THRESHOLD if threshold is None else threshold,
            by="simhash" if is_simhash else "minhash",
            max_distance=max_distance,
            recall=recall,
            exact=exact,
            copies="all" if copies is CopyWord.all else "first",
            max_run=max_run,
        )
        with found:
            print_pairs(found, limit, as_json, max_run)


def print_pairs(found: Pairs, limit: int | None, as_json: bool, max_run: int) -> None:
    """Print pairs as they come, and what was bounded."""
    with work_bar("pairs", found.total, prints_results=True) as advance:
        num_pairs = print_some(found, limit, as_json, lambda count: advance(count, found.done))
    if not num_pairs:
        note("simindex: no pair")
    tell_bounded(found.bounded, max_run, "pairs")


def tell_bounded(bounded: Bounded, max_run: int, what: str) -> None:
    """Say what was not compared all with all, if anything, and what may be missing."""
    runs, entries = bounded
    if runs:
        note(
            f"simindex: {what} may be missing: {counted(runs, 'group')} of documents that share a prefix had "
            f"more than {max_run:,} members ({entries:,} in all), and were compared with 16 of these only; "
            "--max-run sets the limit"
        )


def print_some(
    found: Iterator[Pair], limit: int | None, as_json: bool, advance: Callable[[int], object]
) -> int:
    """Print pairs up to the limit, some at a time, and say so if they end there; returns how many they were.

    Args:
        advance: called with the number printed so far.
    """
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
    return num_pairs


def method_named(
    by: Enum | None, threshold: float | None, max_distance: int | None, recall: float | None, exact: bool
) -> Method | None:
    """Return the method that was named. Raises BadParameter where an option is the other one's."""
    if max_distance is not None and by is not _By.simhash:
        raise typer.BadParameter("--max-distance goes with --by simhash")
    for name, given in (("threshold", threshold), ("recall", recall), ("exact", exact or None)):
        if given is not None and by is _By.simhash:
            raise typer.BadParameter(f"--{name} does not go with --by simhash")
    return None if by is None else "simhash" if by is _By.simhash else "minhash"


def _figures(pair: Pair) -> tuple[str, str, str, str]:
    similarity = "-" if pair.similarity is None else f"{pair.similarity:.3f}"
    return (
        shown_key(pair.a),
        shown_key(pair.b),
        similarity,
        "-" if pair.distance is None else str(pair.distance),
    )
