"""`simindex scaleout`: commands for an index over many machines, one file each.

Owns their names. Ray starts where none runs, and ends with the command; it is meant to run already.
"""

from __future__ import annotations

import typer

from simindex.cli.commands import Command
from simindex.cli.commands.scaleout import (
    backup,
    build,
    clusters,
    dedup,
    init,
    insert,
    move,
    pairs,
    query,
    rebalance,
    restore,
    status,
)

app = typer.Typer(
    name="scaleout",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="An index over many machines, by Ray: see docs/scaleout.md.",
)
for _name, _module in {
    "init": init,
    "build": build,
    "insert": insert,
    "query": query,
    "pairs": pairs,
    "clusters": clusters,
    "dedup": dedup,
    "status": status,
    "backup": backup,
    "restore": restore,
    "move": move,
    "rebalance": rebalance,
}.items():
    app.command(_name, cls=Command, epilog=_module.EXAMPLES)(_module.run)
