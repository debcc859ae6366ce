"""`simindex scaleout dedup`, `plan` and `stage`: files without their near duplicates, or their pairs, by many
processes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from simindex.cli import creation, options, reading
from simindex.cli.commands.dedup import DedupOptions, OutputFile, note_missed, note_rows, passed_over
from simindex.cli.options import Address
from simindex.cli.output import Reports, counted, note, print_json, print_summary, work_bar

if TYPE_CHECKING:
    from simindex.corpus import DedupReport
    from simindex.inputs import Inputs
    from simindex.scaleout import StagedDedup, StagedPairs

EXAMPLES = {
    "dedup": "simindex scaleout dedup '/shared/news/*.jsonl' -o clean.jsonl.zst --work /shared/work",
    "plan": r"""
simindex scaleout plan '/shared/news/*.jsonl' -o clean.jsonl --work /shared/work --parallel 64
simindex scaleout plan '/shared/news/*.jsonl' -o stories.jsonl --work /shared/work --find components
""",
    "stage": r"""
simindex scaleout stage sketch /shared/work 3/64
simindex scaleout stage decide /shared/work
""",
}


def dedup(
    inputs: options.InputPaths,
    output: OutputFile,
    *,
    how: DedupOptions,
    work: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for temporary files, seen by all nodes, some hundred bytes a row; removed at the "
            "end (default: that of the journal).",
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

    rows, bad_rows = _rows_of(inputs, reads), Reports("bad row")
    given = how.arguments(sketch, bad_rows) | {"work": work, "address": address}
    _run_to_end(lambda tell: scaleout.deduplicate(rows, output, progress=tell, **given), bad_rows, as_json)


def plan(
    inputs: options.InputPaths,
    output: OutputFile,
    *,
    work: Annotated[
        str,
        typer.Option(metavar="FOLDER", help="Folder for this job alone, seen by all its processes."),
    ],
    parallel: Annotated[int, options.number("Approximate number of processes.")] = 16,
    find: Annotated[
        str,
        options.word(
            ("duplicates", "pairs", "components", "star"),
            "Write the rows that stay, or JSON lines of similar pairs, or of clusters by their linkage.",
        ),
    ] = "duplicates",
    how: DedupOptions,
    reads: reading.FileOptions,
    sketch: creation.SketchOptions,
) -> None:
    """Plan a deduplication, or a search for pairs, over a shared folder; stage runs what is planned.

    The output is what dedup writes, byte for byte, or what pairs and clusters find in an index of the rows.
    Without Ray: see docs/howto/dedup-on-many-machines.md.
    """
    from simindex import scaleout

    given = how.arguments(sketch, Reports("bad row"))
    given["skip_bad_rows"] = given.pop("on_bad_row") is not None
    rows = _rows_of(inputs, reads)
    if find == "duplicates":
        scaleout.plan_dedup(rows, output, work=work, parallel=parallel, **given)
    else:
        for name in ("keep", "mode", "removed"):
            if given.pop(name) != getattr(DedupOptions, name):
                raise typer.BadParameter(f"--{name} goes with --find duplicates")
        scaleout.plan_pairs(rows, output, work=work, find=find, parallel=parallel, **given)  # type: ignore[arg-type] # it is one of them
    note(f"{work}: planned; run the stages {', '.join(_STAGES)}")


_SHARED = {"sketch": "part", "compare": "range", "write": "part"}
_STAGES = ("sketch", "compare", "decide", "write", "finish")


def stage(
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
    """Run a stage of what was planned, once all of the stage before it is done; finish writes the output.

    What is there is not done again: run a stage that was killed once more. Pairs and clusters have nothing to
    decide and write.
    """
    from simindex import scaleout
    from simindex.scaleout.stages import kind_of

    if stage not in _STAGES:
        raise typer.BadParameter(f"STAGE: expected one of {', '.join(_STAGES)}; found {stage!r}")
    number, _, of = share.partition("/") if re.fullmatch("[0-9]{1,9}/[0-9]{1,9}", share) else "0/0"
    if not 1 <= int(number) <= int(of):
        raise typer.BadParameter(f"SHARE: expected one like 3/64, found {share!r}")
    is_of_pairs = kind_of(work) == scaleout.StagedPairs.kind
    job: StagedPairs | StagedDedup
    job = scaleout.StagedPairs(work) if is_of_pairs else scaleout.StagedDedup(work)
    if stage == "finish":
        _finish(job, as_json)
    elif stage == "decide":
        job.decide()
    else:
        done = getattr(job, stage)(int(number), int(of))
        note(f"{stage} {share}: {counted(done, _SHARED[stage])}")


def _rows_of(inputs: list[str], reads: reading.FileOptions) -> Inputs:
    reading.require_ids(inputs, reads)
    return reads.inputs(inputs, key_from="line", whole_rows=True)


def _finish(job: StagedPairs | StagedDedup, as_json: bool) -> None:
    """Write the output, and print what was written."""
    from simindex import scaleout

    if isinstance(job, scaleout.StagedDedup):
        bad_rows = Reports("bad row")
        _run_to_end(lambda tell: job.finish(tell, passed_over(bad_rows)), bad_rows, as_json)
        return
    with work_bar("lines") as advance:
        count = job.finish(lambda done: advance(done, done))
    print_summary({"lines": count}, f"{counted(count, 'line')} written", as_json)


def _run_to_end(
    job: Callable[[Callable[[int], object]], DedupReport], bad_rows: Reports, as_json: bool
) -> None:
    """Run what writes the output, and print its report."""
    try:
        with work_bar("rows") as advance:
            report = job(lambda done: advance(done, done))
    finally:
        bad_rows.close()
    if as_json:
        print_json(report._asdict() | {"bad": bad_rows.count})
        return
    note_rows(report, bad_rows.count)
    note_missed(report.missed)
