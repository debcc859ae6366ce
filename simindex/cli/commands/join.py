"""`simindex join`: the similar pairs of two indexes or corpora.

The answer is `corpus.join`.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from simindex.cli import options, reading
from simindex.cli.commands.pairs import print_pairs
from simindex.cli.creation import open_for_reading
from simindex.cli.failures import CommandError
from simindex.cli.output import counted, note
from simindex.cli.progress import work_bar
from simindex.cli.searching import StoredPairOptions
from simindex.corpus import join
from simindex.corpus.join import is_index
from simindex.inputs import Inputs
from simindex.queries.search import DEFAULT_MAX_CANDIDATES

EXAMPLES = r"""
simindex join news.simindex archive.simindex --threshold 0.9
simindex join news.jsonl archive.simindex --json
"""

_SIDE = "An index, or an input as of insert."


def run(
    a: Annotated[str, typer.Argument(metavar="A", help=_SIDE)],
    b: Annotated[str, typer.Argument(metavar="B", help=_SIDE)],
    *,
    similar: StoredPairOptions,
    limit: options.FirstPairs = None,
    max_candidates: options.MaxCandidates = DEFAULT_MAX_CANDIDATES,
    reads: reading.ComparedOptions,
    as_json: options.JsonLines = False,
) -> None:
    """Print the similar pairs of two indexes or inputs.

    One document of each; pairs within one are not among them. Each document of A is looked up in B, or each
    of B in A where A alone is an index. JSON lines: {"a", "b", "similarity", "distance", "exact",
    "standard_error"}, a being a key of A.
    """
    if a == b == "-":
        raise typer.BadParameter("expected at most one side on standard input, found two")
    if is_index(a) and is_index(b) and os.path.samefile(a, b):
        raise CommandError(f"{a}: the same index twice; simindex pairs has the pairs within one")
    for side in filter(is_index, (a, b)):
        with open_for_reading(side) as stored:
            similar.require(stored)
    with join(
        _side(a, reads), _side(b, reads), max_candidates=max_candidates, **similar.arguments()
    ) as found:
        with work_bar("documents", None, prints_results=True) as advance:
            print_pairs(found, limit, as_json, lambda _: advance(found.read, 0))
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
