"""`simindex find`: which stored documents hold the rows of some inputs."""

from __future__ import annotations

from typing import Annotated

import typer

from simindex.cli import options, reading
from simindex.cli.containing import Directions, print_contained, require_samples
from simindex.cli.creation import open_for_reading
from simindex.cli.reading import batches
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.queries.search import DEFAULT_MAX_CANDIDATES

_ROWS_A_TIME = 256

EXAMPLES = r"""
simindex insert pages.simindex news.jsonl --containment 8
simindex find page.txt --in pages.simindex
simindex find sample.jsonl --in pages.simindex --threshold 0.5 --json
"""


def run(
    items: Annotated[
        list[str],
        typer.Argument(metavar="ITEMS...", help="What is looked for, a row each; inputs as of insert."),
    ],
    index: Annotated[str, typer.Option("--in", metavar="INDEX", help="The index that is searched.")],
    threshold: Annotated[
        float, options.fraction("Least share of shingles, above 0 up to 1.")
    ] = DEFAULT_THRESHOLD,
    direction: Directions = "in_stored",
    limit: options.Limit = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Count kept shingles: exact for documents that are kept whole.")
    ] = False,
    max_candidates: options.MaxCandidates = DEFAULT_MAX_CANDIDATES,
    *,
    reads: reading.ComparedOptions,
    as_json: options.JsonLines = False,
) -> None:
    """Find rows inside stored documents.

    Whatever wraps or surrounds them there. The index is one with sampled shingles (insert --containment).
    JSON lines: one a match, {"query", "key", "in_stored", "in_query", "similarity", "relation", "exact",
    "standard_error", "is_candidate", "expected_recall", "metadata", "truncated"}. Without --exact shares are
    estimates; a match that the error does not decide says so.
    """
    inputs = reads.inputs(items)
    with open_for_reading(index, max_candidates) as stored:
        require_samples(stored, exact)
        found, ended = [], None
        for rows, failure in batches(inputs, _ROWS_A_TIME):
            answers = stored.query_containment_many(
                [row.document for row in rows], threshold, direction=direction, limit=limit, exact=exact
            )
            found += list(zip([row.key for row in rows], answers, strict=True))
            ended = failure
    print_contained(found, as_json)
    if ended is not None:
        raise ended
    reading.note_tally(inputs.tally, reads.encoding)
