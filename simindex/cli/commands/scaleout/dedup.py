"""`simindex scaleout dedup`: write files without their near duplicates, by all nodes.

The work is `simindex.scaleout.deduplicate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from simindex.cli import creation, options, reading
from simindex.cli.commands.dedup import DedupOptions, OutputFile, note_missed
from simindex.cli.commands.scaleout.common_options import Address
from simindex.cli.output import Reports, counted, figure, note, print_json
from simindex.cli.progress import work_bar

if TYPE_CHECKING:
    from simindex.corpus import DedupReport

EXAMPLES = r"""
simindex scaleout dedup '/shared/news/*.jsonl' -o clean.jsonl.zst --work /shared/work
"""


def run(
    inputs: options.InputPaths,
    output: OutputFile,
    *,
    how: DedupOptions,
    work: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="That all nodes see: for what is worked with, some hundred bytes a row; removed at the end "
            "(default: that of the journal).",
        ),
    ] = None,
    reads: reading.FileOptions,
    sketch: creation.SketchOptions,
    address: Address = None,
    as_json: options.JsonSummary = False,
) -> None:
    """Write a corpus without its near duplicates, found by all nodes: what dedup writes, byte for byte.

    All nodes and this machine have to see INPUT under the same path. Killed and started again with the same
    arguments it goes on.
    """
    from simindex import scaleout

    reading.require_ids(inputs, reads)
    rows = reads.inputs(inputs, key_from="line", whole_rows=True)
    bad_rows = Reports("bad row")
    given = how.arguments(sketch, bad_rows) | {"work": work, "address": address}
    run_to_end(
        lambda progress: scaleout.deduplicate(rows, output, progress=progress, **given), bad_rows, as_json
    )


def run_to_end(
    job: Callable[[Callable[[int], object]], DedupReport], bad_rows: Reports, as_json: bool
) -> None:
    """Run what writes the output, and print its report."""
    try:
        with work_bar("rows", None) as advance:
            report = job(lambda done: advance(done, done))
    finally:
        bad_rows.close()
    if as_json:
        print_json(report._asdict() | {"bad": bad_rows.count})
        return
    note(
        f"{counted(report.read, 'row')} read, {figure(report.kept)} kept, {figure(report.removed)} removed, "
        f"{counted(bad_rows.count, 'bad row')}; {report.seconds:,.1f} s"
    )
    note_missed(report.missed)
