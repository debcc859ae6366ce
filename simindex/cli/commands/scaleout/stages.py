"""`simindex scaleout dedup` and `plan`: files without their near duplicates, or their pairs, by many
processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from click import BadParameter

from simindex import scaleout
from simindex.cli import options, reading
from simindex.cli.command import command, number, option, takes, word
from simindex.cli.commands.dedup import DedupOptions, note_found, note_rows, output_file
from simindex.cli.output import Reports, counted, note, print_json, report_skipped, work_bar
from simindex.storage.folder import is_index

if TYPE_CHECKING:
    from simindex.corpus import DedupReport
    from simindex.inputs import Inputs


@command("dedup", "simindex scaleout dedup '/shared/news/*.jsonl' -o clean.jsonl.zst --work /shared/work")
@options.input_paths
@output_file
@takes("how", DedupOptions)
@option(
    "--work",
    metavar="FOLDER",
    help="Folder for temporary files, seen by all nodes, some hundred bytes a row; removed at the end "
    "(default: that of the journal).",
)
@takes("reads", options.FileOptions)
@takes("sketch", options.SketchOptions)
@options.address
@options.json_summary
def dedup(
    inputs: tuple[str, ...],
    output: str,
    how: DedupOptions,
    work: str | None,
    reads: options.FileOptions,
    sketch: options.SketchOptions,
    address: str | None,
    as_json: bool,
) -> None:
    """Write a corpus without its near duplicates, found by all nodes: what dedup writes, byte for byte.

    All nodes and this machine have to see INPUT under the same path. Killed and started again with the same
    arguments it goes on.
    """
    rows, bad_rows = _rows_of(inputs, reads), Reports("bad row")
    given = how.arguments(sketch) | {"work": work, "address": address}
    if reads.skip_bad_rows:
        given["on_bad_row"] = report_skipped(bad_rows)
    run_to_end(lambda tell: scaleout.deduplicate(rows, output, progress=tell, **given), bad_rows, as_json)


@command(
    "plan",
    """
simindex scaleout plan '/shared/news/*.jsonl' -o clean.jsonl --work /shared/work --parallel 64
simindex scaleout plan /shared/parts/*.simindex -o stories.jsonl --work /shared/work --find components
""",
)
@options.input_paths
@output_file
@option(
    "--work", metavar="FOLDER", required=True, help="Folder for this job alone, seen by all its processes."
)
@number("--parallel", default=16, help="Approximate number of processes.")
@word(
    "--find",
    words=("duplicates", "pairs", "components", "star"),
    default="duplicates",
    help="Write the rows that stay, or JSON lines of similar pairs, or of clusters by their linkage.",
)
@takes("how", DedupOptions)
@takes("reads", options.FileOptions)
@takes("sketch", options.SketchOptions)
def plan(
    inputs: tuple[str, ...],
    output: str,
    work: str,
    parallel: int,
    find: Any,
    how: DedupOptions,
    reads: options.FileOptions,
    sketch: options.SketchOptions,
) -> None:
    """Plan a deduplication, or a search for pairs, over a shared folder; stage runs what is planned.

    The output is what dedup writes, byte for byte, or what pairs and clusters find in an index of the rows;
    for these INPUT may be folders of indexes. Without Ray: see docs/howto/dedup-on-many-machines.md.
    """
    given = how.arguments(sketch) | {"skip_bad_rows": reads.skip_bad_rows}
    rows: Inputs | list[str] = [*inputs]
    if find == "duplicates" or not any(map(is_index, inputs)):
        rows = _rows_of(inputs, reads)
    else:
        reads.require_defaults("files, not with indexes")
    if find == "duplicates":
        scaleout.plan_dedup(rows, output, work=work, parallel=parallel, **given)
    else:
        for name in ("keep", "keep_per", "mode"):
            if given.pop(name) != getattr(DedupOptions, name):
                raise BadParameter(f"--{name.replace('_', '-')} goes with --find duplicates")
        scaleout.plan_pairs(rows, output, work=work, find=find, parallel=parallel, **given)
    note(f"{work}: planned; run the stages sketch, compare, decide, write, finish")


def _rows_of(inputs: tuple[str, ...], reads: options.FileOptions) -> Inputs:
    reading.require_ids(inputs, reads)
    return reads.inputs(inputs, key_from="line", whole_rows=True)


def run_to_end(
    job: Callable[[Callable[[int], object]], DedupReport], bad_rows: Reports, as_json: bool
) -> None:
    """Run a job that writes the output, under a bar that it is given to advance by the rows done; then print
    its report, and how many bad rows `bad_rows` counted. Closes `bad_rows`."""
    try:
        with work_bar("rows") as advance:
            report = job(lambda done: advance(done, done))
    finally:
        bad_rows.close()
    if as_json:
        print_json(report._asdict() | {"bad": bad_rows.count})
        return
    note_rows(report, counted(bad_rows.count, "bad row"))
    note_found(report.missed)
