"""`simindex scaleout stage`: run a stage of a planned deduplication.

The work is `simindex.scaleout.StagedDedup`.
"""

from __future__ import annotations

import re
from typing import Annotated

import typer

from simindex.cli import options
from simindex.cli.commands.dedup import passed_over
from simindex.cli.commands.scaleout.dedup import run_to_end
from simindex.cli.output import Reports, counted, note

EXAMPLES = r"""
simindex scaleout stage sketch /shared/work 3/64
simindex scaleout stage decide /shared/work
"""

_SHARED = {"sketch": "part", "compare": "range", "write": "part"}
_STAGES = ("sketch", "compare", "decide", "write", "finish")


def run(
    stage: Annotated[
        str, typer.Argument(metavar="STAGE", help="One of sketch, compare, decide, write, finish.")
    ],
    work: Annotated[str, typer.Argument(metavar="WORK", help="The folder that plan was given.")],
    share: Annotated[
        str,
        typer.Argument(metavar="SHARE", help="Of sketch, compare and write: 3/64 is the third of 64 shares."),
    ] = "1/1",
    as_json: options.JsonSummary = False,
) -> None:
    """Run a stage of a deduplication, once all of the stage before it is done; finish writes the output.

    What is there is not done again: run a stage that was killed once more.
    """
    from simindex import scaleout

    if stage not in _STAGES:
        raise typer.BadParameter(f"STAGE: expected one of {', '.join(_STAGES)}; found {stage!r}")
    number, _, of = share.partition("/") if re.fullmatch("[0-9]{1,9}/[0-9]{1,9}", share) else "0/0"
    if not 1 <= int(number) <= int(of):
        raise typer.BadParameter(f"SHARE: expected one like 3/64, found {share!r}")
    job = scaleout.StagedDedup(work)
    if stage == "finish":
        bad_rows = Reports("bad row")
        take = passed_over(bad_rows)
        run_to_end(lambda progress: job.finish(progress, take), bad_rows, as_json)
    elif stage == "decide":
        job.decide()
    else:
        done = getattr(job, stage)(int(number), int(of))
        note(f"{stage} {share}: {counted(done, _SHARED[stage])}")
