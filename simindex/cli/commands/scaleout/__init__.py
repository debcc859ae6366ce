"""`simindex scaleout`: commands for an index over many machines; the work is that of `simindex.scaleout`.

Ray starts where none runs, and ends with the command; it is meant to run already.
"""

from __future__ import annotations

from typing import ClassVar

import typer

from simindex.cli.command import LazyGroup


class _Commands(LazyGroup):
    package = __name__
    groups: ClassVar = {
        "Build": ("init", "build"),
        "Ask": ("query", "pairs", "clusters", "status"),
        "Deduplicate a corpus": ("dedup", "plan", "stage"),
        "Look after": ("backup", "restore", "move", "rebalance"),
    }
    modules: ClassVar = (
        dict.fromkeys(("init", "build", "query", "status"), "catalog")
        | dict.fromkeys(("pairs", "clusters"), "pairs")
        | dict.fromkeys(("dedup", "plan", "stage"), "stages")
        | dict.fromkeys(("backup", "restore", "move", "rebalance"), "places")
    )


app = typer.Typer(
    name="scaleout",
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def run() -> None:
    """An index over many machines, with Ray: see docs/scaleout.md."""
