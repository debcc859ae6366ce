"""`simindex decontaminate`: write files without the rows that hold items of others.

The job is `corpus.decontaminate`.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, get_args

from click import BadParameter

from simindex.cli import options
from simindex.cli.command import OneField, command, number, option, takes, word
from simindex.cli.commands.dedup import (
    Progress,
    force_option,
    note_rows,
    output_file,
    run_job,
)
from simindex.cli.output import (
    counted,
    counted_bad,
    figure,
    note,
    note_tally,
    print_json,
    print_table,
    shown_key,
)
from simindex.config import Config, WordShingles
from simindex.corpus.dedup.decontaminate import (
    DEFAULT_SHARE,
    Decontamination,
    DecontaminationReport,
)
from simindex.corpus.dedup.settings import JobSettings, Mode
from simindex.jsonable import plain
from simindex.storage.folder import is_index

_MOST_SHOWN = 20


@command(
    "decontaminate",
    """
simindex decontaminate news.jsonl --against sample.jsonl -o clean.jsonl
simindex decontaminate news.jsonl --against sample.jsonl -o held.jsonl --mode report-only --threshold 0.8
""",
)
@options.input_paths
@output_file
@options.inputs_of(
    "--against",
    "Items that no row may contain: inputs, read as insert reads them, an item per row; may be repeated. Or "
    "an index of items (`insert --words 8 --containment 1`).",
    "ITEMS",
).but(required=True)
@options.threshold.but(
    default=DEFAULT_SHARE,
    help="Least share of an item's shingles that a row must contain, above 0 up to 1.",
)
@number("--words", help="Shingles of N words (default 8).")
@option(
    "--against-text-field",
    cls=OneField,
    help="The field or column of an item's text (default: that of --text-field).",
)
@word(
    "--mode",
    words=get_args(Mode),
    default="remove",
    help="Write the rows without items; all rows, with contamination and items; or only the report.",
)
@force_option
@takes("reads", options.FileOptions)
@options.batch_size
@options.workers
@options.json_summary
def decontaminate(
    inputs: tuple[str, ...],
    output: str,
    against: tuple[str, ...],
    threshold: float,
    words: int | None,
    against_text_field: str | None,
    mode: Mode,
    force: bool,
    reads: options.FileOptions,
    batch_size: int,
    workers: int | None,
    as_json: bool,
) -> None:
    """Write a corpus without the rows that contain given items.

    Items are, for example, the questions of an evaluation set. Line ends, case and punctuation do not matter,
    nor does the text around an item. The report lists for each removed row the items, the share of each that
    the row contains, and where; the items found are printed, the largest shares first.

    Inputs, outputs, the journal and resuming are those of dedup. `simindex find ITEMS --in INDEX` searches
    stored pages.
    """
    rows = reads.inputs(inputs, key_from="line", whole_rows=True)
    items: Any = against[0]
    if len(against) > 1 or not is_index(items):
        of_items = replace(reads, text_field=against_text_field or reads.text_field)
        items = of_items.inputs(against, key_from="line")
    elif against_text_field is not None:
        raise BadParameter("--against-text-field goes with inputs, not with an index")
    progress = Progress(rows, "contaminated")
    settings = JobSettings(
        threshold=threshold,
        mode=mode,
        config=None if words is None else Config(WordShingles(words), simhash=None, containment=1),
        batch_size=batch_size,
        workers=workers,
        progress=progress,
        force=force,
    )
    job = Decontamination(rows, output, items, settings)
    run_job(job, progress, None)
    note_tally(job.tally, says_bad=False)
    report = job.decontamination()
    if as_json:
        _print_json(report, job)
        return
    _summarise(report, counted_bad(job.tally), output if job.was_done else None)


def _print_json(report: DecontaminationReport, job: Decontamination) -> None:
    counts = {name: getattr(report, name) for name in ("read", "kept", "removed", "bounded", "items")}
    counts |= {"short_items": report.short_items, **asdict(job.tally), "was_done": job.was_done}
    found = [
        item._asdict() | {"item": plain(item.item), "held_by": plain(item.held_by), "place": item.place[:2]}
        for item in report.found
    ]
    print_json(counts | {"found": found, "seconds": report.seconds})


def _summarise(report: DecontaminationReport, bad: str, done_before: str | None) -> None:
    if done_before is not None:
        note(f"simindex: {done_before}: this job was done before; --force does it once more")
    largest = sorted(report.found, key=lambda item: -item.share)[:_MOST_SHOWN]
    if largest:
        shown = [
            (shown_key(item.item), figure(item.share, 3), figure(item.rows), shown_key(item.held_by))
            for item in largest
        ]
        print_table(("item", "share", "rows", "held by"), shown, left=1)
    note_rows(report, bad, compared="the items")
    note(f"{figure(len(report.found))} of {counted(report.items, 'item')} found")
    if report.short_items:
        note(
            f"{counted(report.short_items, 'item')} of fewer words than a shingle: found only as whole rows; "
            "--words sets the length"
        )
