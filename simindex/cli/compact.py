"""`simindex compact`: merge everything into one segment and give the space back.

The work is `Index.compact`; interrupted, it goes on at the next call.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import simindex
from simindex.cli.progress import bytes_bar


def run(
    index: Annotated[str, typer.Argument(metavar="INDEX", help="The folder of the index.")],
) -> None:
    """Merge all segments, drop what was removed, and give the space back."""
    # Read first: writing mode would create an index that is not there.
    simindex.open(index, "r").close()
    with simindex.open(index) as stored:
        before = stored.stats().file_bytes
        with bytes_bar() as advance:
            stored.compact(advance)
        after = stored.stats().file_bytes
    sys.stderr.write(f"{before:,} bytes before, {after:,} after\n")
