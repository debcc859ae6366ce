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
from simindex.inputs import Inputs

EXAMPLES = r"""
simindex scaleout insert news.catalog news.jsonl --metadata
"""


def run(
    catalog: Uri,
    inputs: options.InputPaths,
    id_field: options.IdField = "id",
    text_field: options.TextField = "text",
    key_from: options.KeyOrigin = None,
    metadata: options.KeepMetadata = False,
    metadata_field: options.MetadataField = None,
    format_: reading.Format = None,
    encoding: reading.Encoding = "utf-8",
    delimiter: reading.Delimiter = None,
    glob: options.Globs = None,
    hidden: reading.Hidden = False,
    fingerprint_field: reading.FingerprintField = None,
    fingerprint_base: reading.FingerprintBase = 16,
    on_conflict: options.ConflictChoice = options.OnConflict.error,
    batch_size: options.BatchSize = DEFAULT_BATCH_SIZE,
    max_line: options.MaxLine = None,
    max_cell: options.MaxCell = None,
    max_document: options.MaxDocument = None,
    max_page: options.MaxPage = None,
    max_window: options.MaxWindow = None,
    max_ratio: options.MaxRatio = None,
    address: Address = None,
    as_json: options.JsonSummary = False,
) -> None:
    """Add the documents of files to an index over many machines; inputs are those of insert.

    A bad row ends the run; the rows before it are stored. A run that was broken off stores what
    is missing when it is begun anew with --on-conflict skip.
    """
    given = locals()
    how, limits = reading.how_to_read(given), options.limits(given)
    rows = Inputs(inputs, reading.fields(given), reading=how, limits=limits)
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
