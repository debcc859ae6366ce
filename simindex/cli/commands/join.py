"""`simindex join`: the similar pairs of two indexes or corpora.

The answer is `corpus.join`.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from simindex.cli import options, reading
from simindex.cli.commands.pairs import By, MaxDistance, method_named, print_some
from simindex.cli.creation import open_for_reading
from simindex.cli.failures import CommandError
from simindex.cli.output import counted, note
from simindex.cli.progress import work_bar
from simindex.cli.searching import Search
from simindex.corpus import join
from simindex.corpus.join import is_index
from simindex.inputs import Inputs
from simindex.queries.search import DEFAULT_MAX_CANDIDATES
from simindex.tuning.curve import DEFAULT_THRESHOLD

EXAMPLES = r"""
simindex join news.simindex archive.simindex --threshold 0.9
simindex join news.jsonl archive.simindex --json
"""

_SIDE = "An index, or an input as of insert."


def run(
    a: Annotated[str, typer.Argument(metavar="A", help=_SIDE)],
    b: Annotated[str, typer.Argument(metavar="B", help=_SIDE)],
    threshold: options.Threshold = None,
    by: By = None,
    max_distance: MaxDistance = None,
    recall: options.Recall = None,
    exact: options.Exact = False,
    limit: Annotated[
        int | None, typer.Option(metavar="N", parser=options.whole(1), help="The first N pairs only.")
    ] = None,
    max_candidates: options.MaxCandidates = DEFAULT_MAX_CANDIDATES,
    *,
    reads: reading.ComparedOptions,
    as_json: options.JsonLines = False,
) -> None:
    """Print the similar pairs of two indexes or inputs.

    One document of each; pairs within one are not among them. Each document of A is looked up in B, or each
    of B in A where A alone is an index. JSON lines: {"a", "b", "similarity", "distance", "exact",
    "standard_error"}, a being a key of A.
    """
    method = method_named(by, threshold, max_distance, recall, exact)
    if a == b == "-":
        raise typer.BadParameter("expected at most one side on standard input, found two")
    if is_index(a) and is_index(b) and os.path.samefile(a, b):
        raise CommandError(f"{a}: the same index twice; simindex pairs has the pairs within one")
    for side in filter(is_index, (a, b)):
        with open_for_reading(side) as stored:
            is_simhash = method == "simhash" or (method is None and not stored.config.num_perm)
            Search(threshold, None, recall, exact, None, is_simhash, max_distance).require(stored)
    with join(
        _side(a, reads),
        _side(b, reads),
        DEFAULT_THRESHOLD if threshold is None else threshold,
        by=method,
        max_distance=max_distance,
        recall=recall,
        exact=exact,
        max_candidates=max_candidates,
    ) as found:
        with work_bar("documents", None, prints_results=True) as advance:
            num_pairs = print_some(found, limit, as_json, lambda _: advance(found.read, 0))
        if not num_pairs:
            note("simindex: no pair")
        if found.bounded:
            note(
                f"simindex: truncated, {counted(found.bounded, 'document')}: pairs may be missing, for the "
                "limit on candidates was hit; raise --max-candidates"
            )


def _side(side: str, reads: reading.FileOptions) -> str | Inputs:
    """Return an index's path, or what reads an input."""
    if is_index(side):
        return side
    try:
        return reads.inputs([side])
    except FileNotFoundError as exc:
        raise CommandError(f"{side}: no index, file or folder there") from exc
