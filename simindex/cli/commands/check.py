"""`simindex check`: verify all stored values of an index.

The work is `simindex.check`, which happens in a process of its own; the exit code says what came of it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from simindex import check
from simindex.cli import options
from simindex.cli.output import print_report
from simindex.cli.progress import bytes_bar

EXAMPLES = r"""
simindex check news.simindex
simindex check news.simindex --quick
simindex check news.simindex --json
"""

Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="Look at pages, counts and lengths only, not at what is in records and tables."
    ),
]


def run(
    index: options.IndexFolder,
    quick: Quick = False,
    as_json: options.JsonObject = False,
) -> None:
    """Verify all that an index stores."""
    with bytes_bar() as advance:
        report = check(index, "quick" if quick else "full", progress=advance)
    print_report(report, as_json)
    if not report.ok:
        raise typer.Exit(1)
