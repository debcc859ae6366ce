"""`simindex repair`: save what is left of a damaged index in a new one.

The work is `simindex.repair`; the exit code says whether anything was lost.
"""

from __future__ import annotations

from typing import Annotated

import typer

from simindex import repair
from simindex.cli import options
from simindex.cli.output import print_report
from simindex.cli.progress import work_bar

EXAMPLES = r"""
simindex repair news.simindex saved.simindex
simindex repair news.simindex also-saved.simindex --json
"""

Destination = Annotated[
    str, typer.Argument(metavar="DEST", help="The folder of the new index; missing, or empty.")
]


def run(
    index: options.IndexFolder,
    destination: Destination,
    as_json: options.JsonObject = False,
) -> None:
    """Save what is left of a damaged index in a new one."""
    with work_bar("documents", None) as advance:
        report = repair(index, destination, progress=advance)
    print_report(report, as_json)
    if not report.is_whole:
        raise typer.Exit(1)
