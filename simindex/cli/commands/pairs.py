"""`simindex pairs`: all pairs of similar documents of an index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated, get_args

from simindex import Pair
from simindex.cli import options
from simindex.cli.creation import open_for_reading
from simindex.cli.output import counted, figure, note, print_json, print_table, shown_key
from simindex.cli.progress import work_bar
from simindex.cli.searching import OwnPairOptions
from simindex.pairs.pair import Bounded
from simindex.pairs.plan import DEFAULT_MAX_RUN, Copies

_A_TIME = 1_000
_COLUMNS = ("a", "b", "similarity", "distance")


CopyChoice = Annotated[
    Copies,
    options.word(
        get_args(Copies),
        "first: list each group of equal documents once, through its oldest; all: list every pair.",
    ),
]
MaxRun = Annotated[
    int,
    options.number(
        "In a group of more than N candidates compare each with 16 others only, not with all.", least=16
    ),
]

EXAMPLES = r"""
simindex pairs news.simindex --threshold 0.9
simindex pairs news.simindex --by simhash --max-distance 2 --json
"""


def run(
    index: options.IndexFolder,
    *,
    similar: OwnPairOptions,
    copies: CopyChoice = "all",
    max_run: MaxRun = DEFAULT_MAX_RUN,
    limit: options.FirstPairs = None,
    as_json: options.JsonLines = False,
) -> None:
    """Print all pairs of similar documents, as they are found.

    The pairs are those of one state of the index, in an order that depends on nothing else. JSON lines:
    {"a", "b", "similarity", "distance", "exact", "standard_error"}, a being the document stored first;
    with --ignore-common also "common_left_out", the number of shingles that were left out.
    """
    with open_for_reading(index) as stored:
        similar.require(stored)
        found = stored.pairs(**similar.arguments(), copies=copies, max_run=max_run)
        with found, work_bar("pairs", found.total, prints_results=True) as advance:
            print_pairs(found, limit, as_json, lambda count: advance(count, found.done))
        note_bounded(found.bounded, max_run, "pairs")


def note_bounded(bounded: Bounded, max_run: int, what: str) -> None:
    """Say what was not compared all with all, if anything, and what may be missing."""
    runs, entries = bounded
    if runs:
        note(
            f"simindex: {what} may be missing: {counted(runs, 'group')} of documents that share a prefix had "
            f"more than {max_run:,} members ({entries:,} in all), and were compared with 16 of these only; "
            "--max-run sets the limit"
        )


def print_pairs(
    found: Iterator[Pair], limit: int | None, as_json: bool, advance: Callable[[int], object]
) -> None:
    """Print pairs up to the limit, some at a time, and say so if they end there, or if there are none.

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
    if not num_pairs:
        note("simindex: no pair")


def _figures(pair: Pair) -> tuple[str, str, str, str]:
    return shown_key(pair.a), shown_key(pair.b), figure(pair.similarity, 3), figure(pair.distance)
