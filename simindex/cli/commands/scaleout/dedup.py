"""`simindex scaleout dedup`: write files without their near duplicates, by all nodes.

The work is `simindex.scaleout.deduplicate`.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from simindex.cli import creation, options, reading
from simindex.cli.commands.dedup import (
    Force,
    KeepChoice,
    Mode,
    ModeChoice,
    OutputFile,
    Recall,
    RemovedFile,
    WithinDistance,
    config_of,
    note_missed,
    passed_over,
    require_of_method,
)
from simindex.cli.commands.pairs import By
from simindex.cli.commands.scaleout.common_options import Address
from simindex.cli.output import Reports, counted, figure, note, print_json
from simindex.cli.progress import work_bar
from simindex.corpus import DedupReport
from simindex.inputs import Inputs
from simindex.tuning import DEFAULT_THRESHOLD

EXAMPLES = r"""
simindex scaleout dedup '/shared/news/*.jsonl' -o clean.jsonl.zst --work /shared/work
"""


def run(
    inputs: options.InputPaths,
    output: OutputFile,
    *,
    threshold: options.Threshold = None,
    by: By = None,
    max_distance: WithinDistance = None,
    recall: Recall = None,
    keep: KeepChoice = "first",
    mode: ModeChoice = Mode.remove,
    removed: RemovedFile = None,
    work: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="That all nodes see: for what is worked with, some hundred bytes a row; removed at the end "
            "(default: that of the journal).",
        ),
    ] = None,
    force: Force = False,
    reads: reading.FileOptions,
    skip_bad_rows: options.SkipBadRows = False,
    sketch: creation.SketchOptions,
    address: Address = None,
    as_json: options.JsonSummary = False,
) -> None:
    """Write a corpus without its near duplicates, found by all nodes: what dedup writes, byte for byte.

    All nodes and this machine have to see INPUT under the same path. Killed and started again with the same
    arguments it goes on.
    """
    given = locals()
    require_of_method(by, max_distance, {"threshold": threshold, "recall": recall})
    reading.require_ids(inputs, reads)
    rows = reads.inputs(inputs, key_from="line", whole_rows=True)
    bad_rows = Reports("bad row")
    try:
        report = _deduplicated(rows, given, bad_rows)
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


def _deduplicated(rows: Inputs, given: dict[str, Any], bad_rows: Reports) -> DedupReport:
    from simindex import scaleout

    same = "max_distance", "recall", "keep", "removed", "work", "force", "address"
    with work_bar("rows", None) as advance:
        return scaleout.deduplicate(
            rows,
            given["output"],
            DEFAULT_THRESHOLD if given["threshold"] is None else given["threshold"],
            by=None if given["by"] is None else given["by"].value,
            mode=given["mode"].value,
            config=config_of(given),
            progress=lambda done: advance(done, done),
            on_bad_row=passed_over(bad_rows) if given["skip_bad_rows"] else None,
            **{name: given[name] for name in same},
        )
