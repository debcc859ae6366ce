"""`simindex scaleout clusters`: groups of similar documents of an index over many machines.

The work is `simindex.scaleout.clusters`.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from simindex.cli import options
from simindex.cli.commands.clusters import Linkage, LinkageChoice, print_clusters
from simindex.cli.commands.pairs import By, MaxDistance, MaxRun, method_named
from simindex.cli.commands.scaleout.common_options import Address, Uri, Work
from simindex.pairs.plan import DEFAULT_MAX_RUN
from simindex.tuning.curve import DEFAULT_THRESHOLD

EXAMPLES = r"""
simindex scaleout clusters news.catalog --threshold 0.7 --json
simindex scaleout clusters news.catalog --linkage star
"""


def run(
    catalog: Uri,
    threshold: options.Threshold = None,
    linkage: Linkage = LinkageChoice.components,
    by: By = None,
    max_distance: MaxDistance = None,
    recall: options.Recall = None,
    max_run: MaxRun = DEFAULT_MAX_RUN,
    limit: Annotated[
        int | None, typer.Option(metavar="N", parser=options.whole(1), help="The first N clusters only.")
    ] = None,
    work: Work = None,
    address: Address = None,
    as_json: options.JsonLines = False,
) -> None:
    """Print the clusters of similar documents of all partitions, as clusters does; they come in the order of
    partitions, and of age in each."""
    from simindex import scaleout

    found = scaleout.clusters(
        catalog,
        DEFAULT_THRESHOLD if threshold is None else threshold,
        "star" if linkage is LinkageChoice.star else "components",
        by=method_named(by, threshold, max_distance, recall, exact=False),
        max_distance=max_distance,
        recall=recall,
        max_run=max_run,
        work=work,
        address=address,
    )
    print_clusters(islice(found, limit), as_json)
