"""`simindex resketch`: derive an index with fewer rows or other SimHash tables from the sketches of another.

The work is `simindex.resketch`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

import simindex
from simindex import Config, SimHashConfig
from simindex.cli import options
from simindex.cli.creation import open_for_reading
from simindex.cli.output import counted, note, print_json
from simindex.cli.progress import work_bar

EXAMPLES = r"""
simindex resketch news.simindex small.simindex --num-perm 64 --no-simhash
simindex resketch news.simindex wider.simindex --max-distance 5
"""


def run(
    index: options.IndexFolder,
    destination: Annotated[
        str, typer.Argument(metavar="DEST", help="The folder of the new index; missing, or empty.")
    ],
    num_perm: Annotated[
        int | None, options.number("MinHash rows, at most those stored; 0: no MinHash.", least=0)
    ] = None,
    max_distance: Annotated[
        int | None, options.number("Bits up to which SimHash search is complete, 0 to 8.", least=0)
    ] = None,
    blocks: Annotated[
        int | None,
        options.number(
            "Blocks of a fingerprint, MAX-DISTANCE + 1 to + 6; default: by --max-distance.", least=0
        ),
    ] = None,
    no_simhash: Annotated[bool, typer.Option("--no-simhash", help="Keep no SimHash fingerprint.")] = False,
    containment: Annotated[
        int | None, options.number("Sample one in N shingles, no finer than stored; 0: none.", least=0)
    ] = None,
    as_json: options.JsonSummary = False,
) -> None:
    """Make an index of other settings from stored sketches.

    The index that has them is only read.
    """
    if no_simhash and (max_distance is not None or blocks is not None):
        raise typer.BadParameter("--no-simhash excludes --max-distance and --blocks")
    with open_for_reading(index) as stored:
        config = stored.config
    try:
        simhash = None if no_simhash else _simhash(config, max_distance, blocks)
        rows = config.num_perm if num_perm is None else num_perm
        replace(config, num_perm=rows, keep_shingles=0, containment=containment or 0)
    except (TypeError, ValueError) as exc:
        raise typer.BadParameter(str(exc)) from None
    with work_bar("documents", None) as advance:
        done = simindex.resketch(
            index,
            destination,
            num_perm=num_perm,
            simhash=simhash,
            containment=containment,
            progress=advance,
        )
    if as_json:
        print_json({"documents": done})
    else:
        note(f"{counted(done, 'document')} in {destination}")


def _simhash(config: Config, max_distance: int | None, blocks: int | None) -> SimHashConfig | None:
    """Return the stored settings with what was given in place of theirs."""
    if max_distance is None and blocks is None:
        return config.simhash
    base = config.simhash or SimHashConfig()
    if max_distance is not None and max_distance != base.max_distance:
        base = replace(base, max_distance=max_distance, blocks=None)
    return base if blocks is None else replace(base, blocks=blocks)
