"""`simindex scaleout plan`: plan a deduplication whose stages any processes run.

The work is `simindex.scaleout.plan_dedup`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from simindex.cli import creation, options, reading
from simindex.cli.commands.dedup import DedupOptions, OutputFile
from simindex.cli.output import Reports, note

EXAMPLES = r"""
simindex scaleout plan '/shared/news/*.jsonl' -o clean.jsonl --work /shared/work --parallel 64
"""


def run(
    inputs: options.InputPaths,
    output: OutputFile,
    *,
    work: Annotated[
        str,
        typer.Option(metavar="FOLDER", help="For this job alone, seen by all who run its stages."),
    ],
    parallel: Annotated[int, options.number("How many processes there will be, about.")] = 16,
    how: DedupOptions,
    reads: reading.FileOptions,
    sketch: creation.SketchOptions,
) -> None:
    """Plan a deduplication over a shared folder; simindex scaleout stage runs its stages.

    The output is what dedup writes, byte for byte. Without Ray: see docs/howto/dedup-on-many-machines.md.
    """
    from simindex import scaleout

    reading.require_ids(inputs, reads)
    rows = reads.inputs(inputs, key_from="line", whole_rows=True)
    given = how.arguments(sketch, Reports("bad row"))
    given["skip_bad_rows"] = given.pop("on_bad_row") is not None
    scaleout.plan_dedup(rows, output, work=work, parallel=parallel, **given)
    note(f"{work}: planned; run the stages sketch, compare, decide, write, finish")
