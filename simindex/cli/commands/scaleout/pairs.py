"""`simindex scaleout pairs`: all pairs of similar documents of an index over many machines.

The work is `simindex.scaleout.pairs`.
"""

from __future__ import annotations

from simindex.cli import options
from simindex.cli.commands.pairs import CopyChoice, print_pairs
from simindex.cli.commands.scaleout.common_options import Address, MaxRun, Uri, Work
from simindex.cli.progress import work_bar
from simindex.cli.searching import PairOptions
from simindex.pairs.plan import DEFAULT_MAX_RUN

EXAMPLES = r"""
simindex scaleout pairs news.catalog --threshold 0.9 --json
"""


def run(
    catalog: Uri,
    *,
    similar: PairOptions,
    copies: CopyChoice = "all",
    max_run: MaxRun = DEFAULT_MAX_RUN,
    limit: options.FirstPairs = None,
    work: Work = None,
    address: Address = None,
    as_json: options.JsonLines = False,
) -> None:
    """Print all pairs of similar documents of all partitions, as they are found; JSON lines as those of
    pairs."""
    from simindex import scaleout

    how = similar.arguments() | {"copies": copies, "max_run": max_run}
    found = scaleout.pairs(catalog, **how, work=work, address=address)
    with found, work_bar("pairs", None, prints_results=True) as advance:
        print_pairs(found, limit, as_json, lambda count: advance(count, count))
