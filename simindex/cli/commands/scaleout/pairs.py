"""`simindex scaleout pairs`: all pairs of similar documents of an index over many machines.

The work is `simindex.scaleout.pairs`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from simindex.cli import options
from simindex.cli.commands.pairs import (
    By,
    CopyChoice,
    CopyWord,
    MaxDistance,
    MaxRun,
    method_named,
    print_some,
    tell_bounded,
)
from simindex.cli.commands.scaleout.common_options import Address, Uri, Work
from simindex.cli.output import note
from simindex.cli.progress import work_bar
from simindex.pairs.plan import DEFAULT_MAX_RUN
from simindex.tuning.curve import DEFAULT_THRESHOLD

EXAMPLES = r"""
simindex scaleout pairs news.catalog --threshold 0.9 --json
"""


def run(
    catalog: Uri,
    threshold: options.Threshold = None,
    by: By = None,
    max_distance: MaxDistance = None,
    recall: options.Recall = None,
    copies: CopyChoice = CopyWord.all,
    max_run: MaxRun = DEFAULT_MAX_RUN,
    limit: Annotated[
        int | None, typer.Option(metavar="N", parser=options.whole(1), help="The first N pairs only.")
    ] = None,
    work: Work = None,
    address: Address = None,
    as_json: options.JsonLines = False,
) -> None:
    """Print all pairs of similar documents of all partitions, as they are found; JSON lines as those of
    pairs."""
    from simindex import scaleout

    found = scaleout.pairs(
        catalog,
        DEFAULT_THRESHOLD if threshold is None else threshold,
        by=method_named(by, threshold, max_distance, recall, exact=False),
        max_distance=max_distance,
        recall=recall,
        copies="all" if copies is CopyWord.all else "first",
        max_run=max_run,
        work=work,
        address=address,
    )
    with found, work_bar("pairs", None, prints_results=True) as advance:
        if not print_some(found, limit, as_json, lambda count: advance(count, count)):
            note("simindex: no pair")
        tell_bounded(found.bounded, max_run, "pairs")
