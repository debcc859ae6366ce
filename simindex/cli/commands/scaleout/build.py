"""`simindex scaleout build`: build an index over many machines from files, by tasks on all nodes.

The work is `simindex.scaleout.build`.
"""

from __future__ import annotations

from dataclasses import asdict

from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.cli import options, reading
from simindex.cli.commands.scaleout.common_options import Address, Uri
from simindex.cli.output import counted, figure, note, print_json
from simindex.cli.progress import work_bar

EXAMPLES = r"""
simindex scaleout build news.catalog '/shared/news/*.jsonl' --metadata
"""


def run(
    catalog: Uri,
    inputs: options.InputPaths,
    *,
    reads: reading.InsertOptions,
    on_conflict: options.OnRepeat = "skip",
    skip_bad_rows: options.SkipBadRows = False,
    batch_size: options.BatchSize = DEFAULT_BATCH_SIZE,
    address: Address = None,
    as_json: options.JsonSummary = False,
) -> None:
    """Add the documents of files to an index over many machines, by tasks on all nodes; inputs are those of
    insert, but for standard input, and every node has to see them under the same path.

    Broken off and begun anew with the same options it goes on; what is done is not read again.
    """
    from simindex import scaleout

    rows = reads.inputs(inputs)
    with work_bar("documents", None) as advance:
        report = scaleout.build(
            rows,
            catalog,
            on_conflict=on_conflict,
            skip_bad_rows=skip_bad_rows,
            batch_size=batch_size,
            progress=advance,
            address=address,
        )
    if as_json:
        print_json(asdict(report))
        return
    note(
        f"{counted(report.inserted, 'document')} inserted, {figure(report.replaced)} replaced, "
        f"{figure(report.skipped)} skipped, {counted(report.bad, 'bad row')}; "
        f"{counted(report.parts, 'part')}, {figure(report.resumed)} of them done before; "
        f"{report.seconds:,.1f} s"
    )
