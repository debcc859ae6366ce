"""`simindex scaleout clusters`: groups of similar documents of an index over many machines.

The work is `simindex.scaleout.clusters`.
"""

from __future__ import annotations

from itertools import islice

from simindex.cli import options
from simindex.cli.commands.clusters import LinkageChoice, print_clusters
from simindex.cli.commands.pairs import MaxRun
from simindex.cli.commands.scaleout.common_options import Address, Uri, Work
from simindex.cli.searching import PairOptions
from simindex.pairs.plan import DEFAULT_MAX_RUN

EXAMPLES = r"""
simindex scaleout clusters news.catalog --threshold 0.7 --json
simindex scaleout clusters news.catalog --linkage star
"""


def run(
    catalog: Uri,
    *,
    similar: PairOptions,
    linkage: LinkageChoice = "components",
    max_run: MaxRun = DEFAULT_MAX_RUN,
    limit: options.FirstClusters = None,
    work: Work = None,
    address: Address = None,
    as_json: options.JsonLines = False,
) -> None:
    """Print the clusters of similar documents of all partitions, as clusters does; they come in the order of
    partitions, and of age in each."""
    from simindex import scaleout

    how = similar.arguments() | {"linkage": linkage, "max_run": max_run}
    found = scaleout.clusters(catalog, **how, work=work, address=address)
    print_clusters(islice(found, limit), as_json)
