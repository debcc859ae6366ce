"""`simindex scaleout`: commands for jobs over many machines; the work is that of `simindex.scaleout`.

Ray starts where none runs, and ends with the command; it is meant to run already.
"""

from __future__ import annotations

from typing import ClassVar

import typer

from simindex.cli.command import LazyGroup


class _Commands(LazyGroup):
    package = __name__
    groups: ClassVar = {
        "On a Ray cluster": {"stages": ("dedup",), "pairs": ("pairs", "clusters")},
        "By stages": {"stages": ("plan",), "stage": ("stage",)},
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
    """Jobs over many machines: see docs/scaleout.md."""
