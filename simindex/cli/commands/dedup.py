"""`simindex dedup`: write files without their near duplicates.

The job is `corpus.deduplicate`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any

import typer

from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.cli import creation, options, reading
from simindex.cli.commands.pairs import By
from simindex.cli.failures import INTERRUPTED, REPORTED, CommandError, describe, in_options
from simindex.cli.output import Reports, counted, figure, note, print_json
from simindex.cli.progress import JobProgress, Show, job_bar, shows_progress
from simindex.config import Config, SimHashConfig
from simindex.corpus.dedup.deduplicate import Job
from simindex.corpus.dedup.journal import JobError
from simindex.corpus.dedup.paragraphs import cut_for
from simindex.corpus.outputs.rows import UnfitRowError
from simindex.inputs import BadRowError, Inputs
from simindex.tuning import DEFAULT_THRESHOLD

_LEAST_MISSED = 0.005
"""Least share of missed rows that is printed."""


class Mode(Enum):
    """What is written."""

    remove = "remove"
    annotate = "annotate"
    report_only = "report-only"


class _Levels(Enum):
    document = "document"
    paragraph = "paragraph"


def _parse_mode(text: str | Mode) -> Mode:
    if isinstance(text, Mode):
        return text
    for mode in Mode:
        if text == mode.value:
            return mode
    raise typer.BadParameter(f"expected one of remove, annotate, report-only; found {text!r}")


OutputFile = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="OUTPUT",
        help="The file to write: .parquet, .jsonl, .csv, .tsv, or .txt for a list of paths; all but the "
        "first with .gz, .xz or .zst behind it, packed.",
    ),
]
KeepChoice = Annotated[
    str,
    typer.Option(
        metavar="ORDER",
        help="Which of like rows stays: first, newest (the last), longest, or field:NAME (the largest).",
    ),
]
_Against = Annotated[
    str | None, typer.Option(metavar="INDEX", help="Leave out what is like a document of this index, too.")
]
_Into = Annotated[
    str | None,
    typer.Option(metavar="INDEX", help="The same, and add the kept rows to it; made if it is missing."),
]
ModeChoice = Annotated[
    Mode,
    typer.Option(
        metavar="remove|annotate|report-only",
        parser=_parse_mode,
        help="Write the kept rows; all rows, with duplicate_of, similarity and cluster; or only the report "
        "of the others.",
    ),
]
RemovedFile = Annotated[
    str | None,
    typer.Option(
        rich_help_panel="Report",
        metavar="FILE",
        help="Write here a JSON line for each row that goes (default: OUTPUT.dedup/removed.jsonl).",
    ),
]
_Level = Annotated[
    _Levels,
    options.word_option(
        _Levels, "What is compared: documents, or paragraphs, of which those go that were seen before."
    ),
]
_SplitAt = Annotated[
    str,
    typer.Option(
        "--split",
        metavar="line|blank-line",
        help="With --level paragraph: where one ends; blank-line for texts with lines of one length.",
        rich_help_panel="Paragraphs",
    ),
]
_MinWords = Annotated[
    int,
    typer.Option(
        rich_help_panel="Paragraphs",
        metavar="N",
        parser=options.whole(1),
        help="With --level paragraph: shorter ones always stay.",
    ),
]
_Explain = Annotated[
    bool,
    typer.Option(
        "--explain", help="Add the passages that both rows share to the report.", rich_help_panel="Report"
    ),
]
_Exact = Annotated[
    bool,
    typer.Option("--exact", rich_help_panel="Comparison", help="Compare all shingles; takes more disk."),
]
Recall = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        parser=options.share,
        help="Find this share of the rows right at the threshold, and some that are less similar (default: "
        "about half of them, by estimates; 0.99 of them where all shingles are compared).",
        rich_help_panel="Comparison",
    ),
]
WithinDistance = Annotated[
    int | None,
    typer.Option(
        rich_help_panel="Comparison",
        metavar="K",
        parser=options.whole(),
        help="With --by simhash: rows within so many bits, 0 to 8, are like one another (default 3).",
    ),
]
_JsonProgress = Annotated[
    bool,
    typer.Option(
        "--json-progress",
        help="Print the progress as JSON lines on stderr, one a second, in place of a bar.",
        rich_help_panel="Running",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Give up what another job has left there, and replace the output.")
]


EXAMPLES = r"""
simindex dedup news.jsonl logs.csv.gz -o clean.jsonl.zst --delimiter ';'
simindex dedup news.jsonl -o new.jsonl --against news.simindex --into seen.simindex
simindex dedup src -o duplicates.jsonl --mode report-only --exact
simindex dedup news.jsonl -o clean.jsonl --by simhash --max-distance 4
simindex dedup crawl/*.warc.gz -o pages.jsonl.zst --level paragraph --min-words 5
"""


def run(
    inputs: options.InputPaths,
    output: OutputFile,
    *,
    threshold: options.Threshold = None,
    by: By = None,
    max_distance: WithinDistance = None,
    keep: KeepChoice = "first",
    against: _Against = None,
    into: _Into = None,
    mode: ModeChoice = Mode.remove,
    level: _Level = _Levels.document,
    split: _SplitAt = "line",
    min_words: _MinWords = 1,
    explain: _Explain = False,
    removed: RemovedFile = None,
    exact: _Exact = False,
    recall: Recall = None,
    force: Force = False,
    reads: reading.FileOptions,
    skip_bad_rows: options.SkipBadRows = False,
    batch_size: options.BatchSize = DEFAULT_BATCH_SIZE,
    workers: options.Workers = None,
    sketch: creation.SketchOptions,
    json_progress: _JsonProgress = False,
    as_json: options.JsonSummary = False,
) -> None:
    """Write a corpus without its near duplicates.

    A row stays unless one kept before it is like it; each that goes was compared with a kept one, and the
    report says with which, and how similar the two are. Rows stand in the output as they stood in the input.
    INPUT is what `simindex insert` reads. Ids appear only in the report: they may be missing, or repeat.

    The job can be killed at any time. Started again with the same arguments it goes on where it was; started
    again when it is done it says so. Its journal is OUTPUT.dedup, and OUTPUT has its name when it is
    complete.
    """
    given = locals()
    require_of_method(by, max_distance, {"threshold": threshold, "exact": exact or None, "recall": recall})
    reading.require_ids(inputs, reads)
    rows = reads.inputs(inputs, key_from="line", whole_rows=True)
    bad_rows = Reports("bad row")
    total = rows.total_bytes() if json_progress or shows_progress() else None
    waits_for = None if keep == "first" else "reading, and ordering the rows"
    progress = _Progress(rows, total)
    with job_bar(total, waits_for, as_json=json_progress) as progress.show:
        job = progress.job = _job(rows, given, progress, bad_rows)
        job.on_looked = progress.looked
        _run(job, bad_rows)
    reading.note_tally(rows.tally, reads.encoding)
    _summarise(job, output, bad_rows.count, as_json)


def passed_over(bad_rows: Reports) -> Callable[[BadRowError], object]:
    """Return what counts bad rows, and shows the first of them."""
    return lambda row: bad_rows.add(f"{in_options(str(row))}; skipped")


def require_of_method(by: Enum | None, max_distance: int | None, of_minhash: dict[str, Any]) -> None:
    """Raise BadParameter where an option is the other method's.

    Args:
        of_minhash: options that are MinHash's, ``None`` where they were not given.
    """
    if by is not None and by.value == "simhash":
        for name, value in of_minhash.items():
            if value is not None:
                raise typer.BadParameter(f"--{name} does not go with --by simhash")
    elif max_distance is not None:
        raise typer.BadParameter("--max-distance goes with --by simhash")


def _job(rows: Inputs, given: dict[str, Any], progress: _Progress, bad_rows: Reports) -> Job:
    same = "keep", "against", "into", "removed", "exact", "recall", "batch_size", "workers", "force"
    return Job(
        rows,
        given["output"],
        DEFAULT_THRESHOLD if given["threshold"] is None else given["threshold"],
        mode=given["mode"].value,
        cut=cut_for(given["level"].value, given["split"], given["min_words"]),
        explain=given["explain"],
        by=None if given["by"] is None else given["by"].value,
        max_distance=given["max_distance"],
        config=config_of(given),
        progress=progress,
        on_removed=None,
        on_bad_row=passed_over(bad_rows) if given["skip_bad_rows"] else None,
        journal=None,
        **{name: given[name] for name in same},
    )


class _Progress:
    """Tells the bar how far the job is."""

    show: Show
    job: Job

    def __init__(self, rows: Inputs, total: int | None) -> None:
        self._rows, self._total = rows, total

    def __call__(self, done: int) -> None:
        """Take note that so many rows are done."""
        job = self.job
        now, looked_at = done - job.done_before, job.state.looked
        read_bytes, share = self._rows.bytes_read, None
        if looked_at:
            share = 0.5 + 0.5 * done / looked_at
            read_bytes = 0 if self._total is None else round(self._total * done / looked_at)
        looked_now = looked_at - job.looked_before
        self.show(
            JobProgress(done, now, job.state.removed, read_bytes, job.num_bytes, looked_at, looked_now, share)
        )

    def looked(self, count: int) -> None:
        """Take note that so many rows were looked at, before the first is done."""
        read_bytes = self._rows.bytes_read
        share = 0.5 * min(read_bytes / self._total, 1.0) if self._total else None
        self.show(JobProgress(0, 0, 0, read_bytes, 0, count, count - self.job.looked_before, share))


def config_of(given: dict[str, Any]) -> Config | None:
    """Return what rows are compared by, of the options; ``None`` where none was given."""
    chosen = creation.CreationOptions(**vars(given["sketch"]))
    if not chosen.given():
        return None
    if given["by"] is None or given["by"].value != "simhash":
        return chosen.config(Config(simhash=None))
    if chosen.num_perm is not None:
        raise typer.BadParameter("--num-perm does not go with --by simhash")
    cut = chosen.config(Config(shingles=SimHashConfig().shingles))  # the options are about what is compared
    distance = SimHashConfig().max_distance if given["max_distance"] is None else given["max_distance"]
    return Config(num_perm=0, simhash=SimHashConfig(distance, shingles=cut.shingles), seed=cut.seed)


def _run(job: Job, bad_rows: Reports) -> None:
    try:
        job.run()
    except KeyboardInterrupt:
        raise CommandError(f"interrupted; {_done(job)}", INTERRUPTED) from None
    except (JobError, UnfitRowError):
        raise  # the same command would fail again
    except REPORTED as exc:
        remedy = "; --skip-bad-rows passes over bad rows" if isinstance(exc, BadRowError) else ""
        raise CommandError(f"{describe(exc)}; {_done(job)}{remedy}") from exc
    finally:
        bad_rows.close()


def _done(job: Job) -> str:
    if not job.can_resume:
        return "nothing is kept of this job"
    done, what = job.state.read, "done"
    if not done and job.state.looked:
        done, what = job.state.looked, "looked at"
    if not done:
        return "no row was done yet"
    were = f"{counted(done, 'row')} {'was' if done == 1 else 'were'} {what}"
    return f"{were}, and the same command goes on there"


def _summarise(job: Job, output: str, num_bad: int, as_json: bool) -> None:
    state = job.state
    rate = state.read / max(state.seconds, 1e-9)
    if as_json:
        counts = {"read": state.read, "kept": state.kept, "removed": state.removed, "bounded": state.bounded}
        if state.documents:
            counts |= {"documents": state.documents, "documents_dropped": state.dropped}
        rest = {"missed": round(job.missed, 4), "bad": num_bad, "was_done": job.was_done}
        rest |= {"seconds": state.seconds}
        print_json(counts | rest | {"rows_per_second": rate})
        return
    if job.was_done:
        note(f"simindex: {output}: this job was done before; --force does it once more")
    bounded = f", {figure(state.bounded)} of them compared with a part of what may be like them"
    noun = "row"
    if state.documents:
        noun = "paragraph"
        dropped = f"of {figure(state.dropped)} nothing is left"
        note(f"{counted(state.documents, 'document')}, {dropped}; their paragraphs:")
    note(
        f"{counted(state.read, noun)} read, {figure(state.kept)} kept{bounded if state.bounded else ''}, "
        f"{figure(state.removed)} removed, {counted(num_bad, 'bad row')}; {state.seconds:,.1f} s, "
        f"{figure(rate)} rows/s"
    )
    note_missed(job.missed)


def note_missed(missed: float) -> None:
    """Print the expected share of missed rows, from a hundredth on."""
    if missed >= _LEAST_MISSED:
        note(f"expected to stay by mistake: {missed:.0%} of the rows right at the threshold (see --recall)")
