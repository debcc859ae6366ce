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
        "Build": {"catalog": ("init", "build")},
        "Ask": {"catalog": ("query", "status"), "pairs": ("pairs", "clusters")},
        "Deduplicate a corpus": {"stages": ("dedup", "plan"), "stage": ("stage",)},
        "Look after": {"places": ("backup", "restore", "move", "rebalance")},
    }


app = typer.Typer(
    name="scaleout",
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def scaleout() -> None:
    """An index over many machines, with Ray: see docs/scaleout.md."""
