"""`simindex scaleout insert`: add rows of files to an index over many machines.

The work is `ScaledIndex.insert_many`.
"""

from __future__ import annotations

import time
from itertools import chain

from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.cli import options, reading
from simindex.cli.commands.scaleout.common_options import Address, Uri, opened
from simindex.cli.failures import REPORTED, CommandError, describe
from simindex.cli.output import counted, figure, note, print_json
from simindex.cli.progress import shows_progress, work_bar
from simindex.cli.reading import Batches

EXAMPLES = r"""
simindex scaleout insert news.catalog news.jsonl --metadata
"""


def run(
    catalog: Uri,
    inputs: options.InputPaths,
    *,
    reads: reading.InsertOptions,
    on_conflict: options.ConflictChoice = options.OnConflict.error,
    batch_size: options.BatchSize = DEFAULT_BATCH_SIZE,
    address: Address = None,
    as_json: options.JsonSummary = False,
) -> None:
    """Add the documents of files to an index over many machines; inputs are those of insert.

    A bad row ends the run; the rows before it are stored. A run that was broken off stores what
    is missing when it is begun anew with --on-conflict skip.
    """
    rows = reads.inputs(inputs)
    began, done = time.monotonic(), 0
    batches = Batches(rows, batch_size)
    total_bytes = rows.total_bytes() if shows_progress() else None
    with opened(catalog, address) as index, work_bar("documents", total_bytes) as advance:

        def progress(count: int) -> None:
            nonlocal done
            done = count
            advance(count, rows.bytes_read)

        try:
            report = index.insert_many(
                chain.from_iterable(batches),
                on_conflict=on_conflict.value,
                batch_size=batch_size,
                progress=progress,
            )
            if batches.failure is not None:
                raise batches.failure
        except REPORTED as exc:
            stored = f"at least the first {counted(done, 'document')} of the input are stored"
            raise CommandError(f"{describe(exc)}; {stored}") from exc
    seconds = time.monotonic() - began
    if as_json:
        print_json(report._asdict() | {"seconds": seconds})
        return
    note(
        f"{counted(report.inserted, 'document')} inserted, {figure(report.replaced)} replaced, "
        f"{figure(report.skipped)} skipped; {seconds:,.1f} s"
    )
