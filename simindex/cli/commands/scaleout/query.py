"""`simindex scaleout query`: print the stored documents of all partitions that are similar to a text.

The work is `ScaledIndex.query`.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from simindex.checks import require_seconds
from simindex.cli import options
from simindex.cli.commands.scaleout.common_options import Address, Uri, opened
from simindex.cli.output import figure, note, print_json, print_table, shown_key
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.formulas.match_odds import band_plan

EXAMPLES = r"""
simindex scaleout query news.catalog 'a text that was seen before'
"""


def run(
    catalog: Uri,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to look for.")],
    threshold: options.Threshold = None,
    limit: options.Limit = None,
    seconds: Annotated[float, typer.Option(metavar="S", help="How long to wait for an answer.")] = 30.0,
    on_missing: Annotated[
        str, options.word(("partial", "wait", "fail"), "What becomes of partitions that do not answer.")
    ] = "partial",
    address: Address = None,
    as_json: options.JsonLines = False,
) -> None:
    """Show what is similar to a text. Partitions that do not answer in time are named, and the exit code
    is 1."""
    from simindex.scaleout.catalog import Catalog

    least = DEFAULT_THRESHOLD if threshold is None else threshold
    config = Catalog.load(catalog).config
    if config.num_perm:
        band_plan(least, config.num_perm)  # refuses one out of range before Ray is started
    require_seconds("seconds", seconds)
    how: Any = "raise" if on_missing == "fail" else on_missing
    with opened(catalog, address) as index:
        found = index.query(text, least, limit, seconds=seconds, on_missing=how)
    if as_json:
        for match in found:
            print_json(match.to_dict())
    elif found:
        print_table(
            ("key", "similarity", "distance"),
            [(shown_key(m.key), figure(m.similarity, 3), figure(m.distance)) for m in found],
        )
    else:
        note("simindex: no match")
    if found.partial:
        reasons = "; ".join(f"{place}: {why}" for place, why in found.missing.items())
        note(f"simindex: partitions {', '.join(map(str, found.partial))} are missing ({reasons})")
        raise typer.Exit(1)
