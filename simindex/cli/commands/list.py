"""`simindex list`: the keys of an index, one a line."""

from __future__ import annotations

import sys
from itertools import islice
from typing import Annotated

from simindex.cli import options
from simindex.cli.creation import open_for_reading
from simindex.cli.output import print_json, shown_key
from simindex.jsonable import plain

EXAMPLES = r"""
simindex list news.simindex --limit 10
"""


def run(
    index: options.IndexFolder,
    limit: Annotated[int | None, options.number("The oldest N only.")] = None,
    as_json: options.JsonLines = False,
) -> None:
    """Print the keys, one a line, in the order of insertion.

    A key stands as it is, with unprintable characters escaped; what does not survive that (line ends, bytes,
    the difference of 5 and "5") does in the JSON lines: {"id": KEY}, a key of bytes being {"bytes": BASE64}.
    """
    with open_for_reading(index) as stored:
        for key in islice(stored, limit):
            if as_json:
                print_json({"id": plain(key)})
            else:
                sys.stdout.write(shown_key(key) + "\n")
