"""`simindex compact`: merge everything into one segment and give the space back.

The work is `Index.compact`; interrupted, it goes on at the next call.
"""

from __future__ import annotations

from simindex.cli import options
from simindex.cli.creation import open_for_change
from simindex.cli.output import counted, note, print_json
from simindex.cli.progress import bytes_bar

EXAMPLES = r"""
simindex compact news.simindex
"""


def run(
    index: options.IndexFolder,
    wait: options.Wait = 0.0,
    as_json: options.JsonSummary = False,
) -> None:
    """Merge all segments, and give back what was removed."""
    with open_for_change(index, wait) as stored:
        before = stored.stats().file_bytes
        with bytes_bar() as advance:
            stored.compact(advance)
        after = stored.stats().file_bytes
    if as_json:
        print_json({"bytes_before": before, "bytes_after": after})
    else:
        note(f"{counted(before, 'byte')} before, {after:,} after")
