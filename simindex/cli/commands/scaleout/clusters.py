"""`simindex scaleout clusters`: groups of similar documents of an index over many machines.

The work is `simindex.scaleout.clusters`.
"""

from __future__ import annotations

from itertools import islice

from simindex.cli import options
from simindex.cli.commands.clusters import print_clusters
from simindex.cli.commands.scaleout.common_options import Address, MaxRun, Uri, Work
from simindex.cli.searching import PairOptions
from simindex.pairs.plan import DEFAULT_MAX_RUN

EXAMPLES = r"""
simindex scaleout clusters news.catalog --threshold 0.7 --json
"""


def run(
    catalog: Uri,
    *,
    similar: PairOptions,
    max_run: MaxRun = DEFAULT_MAX_RUN,
    limit: options.FirstClusters = None,
    work: Work = None,
    address: Address = None,
    as_json: options.JsonLines = False,
) -> None:
    """Print the clusters of similar documents of all partitions, as clusters does; they come in the order of
    partitions, and of age in each."""
    from simindex import scaleout

    how = similar.arguments() | {"max_run": max_run, "work": work, "address": address}
    found = scaleout.clusters(catalog, **how)
    print_clusters(islice(found, limit), as_json)
