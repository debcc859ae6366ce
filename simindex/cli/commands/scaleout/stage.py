"""`simindex scaleout stage`: run a stage of a planned job.

Invariant: what a stage does not need is not imported, for a job starts one process or more for each.
"""

from __future__ import annotations

import re

from click import BadParameter

from simindex.cli.command import argument, command, flag
from simindex.cli.output import counted, note, print_summary, work_bar
from simindex.scaleout.planned import PlannedJob

_SHARED = {"sketch": "part", "compare": "range", "write": "part"}
_STAGES = ("sketch", "compare", "decide", "write", "finish")


@command(
    "stage",
    """
simindex scaleout stage sketch /shared/work 3/64
simindex scaleout stage decide /shared/work
""",
)
@argument("stage", "STAGE", "One of sketch, compare, decide, write, finish.")
@argument("work", "WORK", "The folder that plan was given.")
@argument(
    "share",
    "SHARE",
    "Of sketch, compare and write: 3/64 is the third of 64 shares.",
    required=False,
    default="1/1",
)
@flag("--json", "as_json", help="Print the summary as one JSON line.")
def stage(stage: str, work: str, share: str, as_json: bool) -> None:
    """Run a stage of what was planned, once all of the stage before it is done; finish writes the output.

    What is there is not done again: run a stage that was killed once more. Pairs and clusters have nothing to
    decide and write.
    """
    if stage not in _STAGES:
        raise BadParameter(f"STAGE: expected one of {', '.join(_STAGES)}; found {stage!r}")
    number, _, of = share.partition("/") if re.fullmatch("[0-9]{1,9}/[0-9]{1,9}", share) else "0/0"
    if not 1 <= int(number) <= int(of):
        raise BadParameter(f"SHARE: expected one like 3/64, found {share!r}")
    job = PlannedJob(work)
    if stage == "finish":
        _finish(job, as_json)
    elif stage == "decide":
        job.decide()
    else:
        done = getattr(job, stage)(int(number), int(of))
        note(f"{stage} {share}: {counted(done, _SHARED[stage])}")


def _finish(job: PlannedJob, as_json: bool) -> None:
    """Write the output, and print what was written."""
    from simindex import scaleout

    if job.plan.kind == scaleout.StagedDedup.kind:
        from simindex.cli.commands.scaleout.stages import run_to_end
        from simindex.cli.output import Reports, report_skipped

        dedup, bad_rows = scaleout.StagedDedup(job.work), Reports("bad row")
        run_to_end(lambda tell: dedup.finish(tell, report_skipped(bad_rows)), bad_rows, as_json)
        return
    from simindex.cli.commands.pairs import note_bounded

    pairs = scaleout.StagedPairs(job.work)
    with work_bar("lines") as advance:
        count = pairs.finish(lambda done: advance(done, done))
    what = "pairs" if job.plan.job["find"] == "pairs" else "documents"
    note_bounded(pairs.bounded, job.plan.stages.plan.max_run, what, "max_run of plan_pairs")
    print_summary({"lines": count}, f"{counted(count, 'line')} written", as_json)
