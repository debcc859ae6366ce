"""`simindex dedup`: write files without their near duplicates.

The job is `corpus.deduplicate`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, get_args

import typer

from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.cli import creation, options, reading
from simindex.cli.failures import INTERRUPTED, REPORTED, CommandError, describe, in_options
from simindex.cli.output import (
    JobProgress,
    Reports,
    Show,
    counted,
    figure,
    job_bar,
    note,
    print_json,
    shows_progress,
)
from simindex.config import Config, SimHashConfig
from simindex.corpus.dedup.deduplicate import Job
from simindex.corpus.dedup.journal import JobError
from simindex.corpus.dedup.output_files import Mode
from simindex.corpus.dedup.paragraphs import Level, cut_for
from simindex.corpus.outputs.rows import UnfitRowError
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.inputs import BadRowError, Inputs

_LEAST_MISSED = 0.005
"""Least share of missed rows that is printed."""


OutputFile = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="OUTPUT",
        help="The file to write: .jsonl, .csv, .tsv, .parquet, or .txt for a list of paths; all but .parquet "
        "may end in .gz, .xz or .zst.",
    ),
]
RemovedFile = Annotated[
    str | None,
    typer.Option(
        rich_help_panel="Report",
        metavar="FILE",
        help="Write a JSON line for each removed row to FILE (default: OUTPUT.dedup/removed.jsonl).",
    ),
]
JsonProgress = Annotated[
    bool,
    typer.Option(
        "--json-progress",
        help="Print the progress as JSON lines on stderr, one per second, instead of a bar.",
        rich_help_panel="Running",
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        rich_help_panel="Running",
        help="Discard the journal of another job there, and replace the output.",
    ),
]


@dataclass(frozen=True)
class DedupOptions:
    """Which rows stay, how they are compared, and what is written."""

    heading: ClassVar = "Options"

    threshold: options.Threshold = None
    by: options.By = None
    max_distance: Annotated[
        int | None,
        options.number(
            "With --by simhash: rows within K bits, 0 to 8, are similar (default 3).",
            least=0,
            metavar="K",
            panel="Comparison",
        ),
    ] = None
    keep: Annotated[
        str,
        typer.Option(
            metavar="ORDER",
            help="Which of similar rows stays: first, newest (the last), longest, or field:NAME (the "
            "largest).",
        ),
    ] = "first"
    mode: Annotated[
        Mode,
        options.word(
            get_args(Mode),
            "Write the kept rows; all rows, with duplicate_of, similarity and cluster; or only the report.",
        ),
    ] = "remove"
    removed: RemovedFile = None
    recall: Annotated[
        float | None,
        options.fraction(
            "Find this share of the rows whose similarity is right at the threshold, and some less similar "
            "ones (default: about half by estimates, 0.99 where all shingles are compared).",
            metavar="P",
            panel="Comparison",
        ),
    ] = None
    force: Force = False
    skip_bad_rows: options.SkipBadRows = False

    def __post_init__(self) -> None:
        options.require_of_method(self.by, self.max_distance, threshold=self.threshold, recall=self.recall)

    def arguments(self, sketch: creation.SketchOptions, bad_rows: Reports) -> dict[str, Any]:
        """Return them as arguments of `deduplicate`; `bad_rows` takes the rows that are passed over."""
        same = "by", "max_distance", "keep", "mode", "removed", "recall", "force"
        return {name: getattr(self, name) for name in same} | {
            "threshold": DEFAULT_THRESHOLD if self.threshold is None else self.threshold,
            "config": self._config(sketch),
            "on_bad_row": passed_over(bad_rows) if self.skip_bad_rows else None,
        }

    def _config(self, sketch: creation.SketchOptions) -> Config | None:
        """Return what rows are compared by; ``None`` where no option says it."""
        chosen = creation.CreationOptions(**asdict(sketch))
        if not chosen.given:
            return None
        if self.by != "simhash":
            return chosen.config(Config(simhash=None))
        if chosen.num_perm is not None:
            raise typer.BadParameter("--num-perm does not go with --by simhash")
        cut = chosen.config(
            Config(shingles=SimHashConfig().shingles)
        )  # the options are about what is compared
        distance = SimHashConfig().max_distance if self.max_distance is None else self.max_distance
        return Config(num_perm=0, simhash=SimHashConfig(distance, shingles=cut.shingles), seed=cut.seed)


@dataclass(frozen=True)
class OneMachineOptions(DedupOptions):
    """Also what one machine can do, and many cannot."""

    against: Annotated[
        str | None,
        typer.Option(metavar="INDEX", help="Also remove rows similar to a document of this index."),
    ] = None
    into: Annotated[
        str | None,
        typer.Option(
            metavar="INDEX",
            help="As --against, and add the kept rows to this index; created if it is missing.",
        ),
    ] = None
    level: Annotated[
        Level,
        options.word(
            get_args(Level),
            "Compare whole documents; or paragraphs, and cut those seen before out of their documents.",
        ),
    ] = "document"
    split: Annotated[
        str,
        typer.Option(
            "--split",
            metavar="line|blank-line",
            help="With --level paragraph: what ends a paragraph; blank-line for texts with wrapped lines.",
            rich_help_panel="Paragraphs",
        ),
    ] = "line"
    min_words: Annotated[
        int, options.number("With --level paragraph: keep all paragraphs of fewer words.", panel="Paragraphs")
    ] = 1
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Add the passages that both rows share to the report.", rich_help_panel="Report"
        ),
    ] = False
    exact: Annotated[
        bool,
        typer.Option("--exact", rich_help_panel="Comparison", help="Compare all shingles; takes more disk."),
    ] = False
    ignore_common: Annotated[
        float | None,
        options.fraction(
            "Leave out shingles that more than this share of the rows have, like those of templates.",
            panel="Comparison",
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        options.require_of_method(
            self.by, self.max_distance, exact=self.exact, ignore_common=self.ignore_common
        )
        if self.ignore_common is not None:
            options.refuse_with("ignore-common", against=self.against, into=self.into)

    def arguments(self, sketch: creation.SketchOptions, bad_rows: Reports) -> dict[str, Any]:
        """Return them as arguments of `deduplicate`; see `DedupOptions.arguments`."""
        cut = cut_for(self.level, self.split, self.min_words)  # type: ignore[arg-type] # it refuses another
        same = "against", "into", "explain", "exact", "ignore_common"
        own = {name: getattr(self, name) for name in same}
        return super().arguments(sketch, bad_rows) | own | {"cut": cut}


def passed_over(bad_rows: Reports) -> Callable[[BadRowError], object]:
    """Return what counts bad rows, and shows the first of them."""
    return lambda row: bad_rows.add(f"{in_options(str(row))}; skipped")


EXAMPLES = r"""
simindex dedup news.jsonl logs.csv.gz -o clean.jsonl.zst --delimiter ';'
simindex dedup news.jsonl -o new.jsonl --against news.simindex --into seen.simindex
simindex dedup src -o duplicates.jsonl --mode report-only --exact
simindex dedup news.jsonl -o clean.jsonl --by simhash --max-distance 4
simindex dedup crawl/*.warc.gz -o pages.jsonl.zst --level paragraph --min-words 5
"""


def dedup(
    inputs: options.InputPaths,
    output: OutputFile,
    *,
    how: OneMachineOptions,
    reads: reading.FileOptions,
    batch_size: options.BatchSize = DEFAULT_BATCH_SIZE,
    workers: options.Workers = None,
    sketch: creation.SketchOptions,
    json_progress: JsonProgress = False,
    as_json: options.JsonSummary = False,
) -> None:
    """Write a corpus without its near duplicates.

    A row stays unless a row kept before it is similar. Each removed row was compared with a kept one; the
    report names it, and their similarity. The output keeps the order of the rows. INPUT is read as `simindex
    insert` reads it. Ids appear only in the report: they may be missing, or repeat.

    The job can be killed at any time: the same command resumes it. Its journal is OUTPUT.dedup; OUTPUT has
    its name when it is complete.
    """
    reading.require_ids(inputs, reads)
    rows = reads.inputs(inputs, key_from="line", whole_rows=True)
    bad_rows = Reports("bad row")
    progress = Progress(rows)
    how_to = how.arguments(sketch, bad_rows)
    job = Job(rows, output, **how_to, batch_size=batch_size, workers=workers, progress=progress)
    waits_for = None if how.keep == "first" else "reading, and ordering the rows"
    run_job(job, progress, bad_rows, waits_for, json_progress)
    reading.note_tally(rows.tally, reads.encoding)
    _summarise(job, output, bad_rows.count, as_json)


class Progress:
    """Tells the bar how far a job is; call it with the number of rows that are done."""

    show: Show
    job: Job
    total: int | None

    def __init__(self, rows: Inputs) -> None:
        self.rows = rows

    def __call__(self, done: int) -> None:
        """Take note that so many rows are done."""
        job = self.job
        now, looked_at = done - job.done_before, job.state.looked
        read_bytes, share = self.rows.bytes_read, None
        if looked_at:
            share = 0.5 + 0.5 * done / looked_at
            read_bytes = 0 if self.total is None else round(self.total * done / looked_at)
        looked_now = looked_at - job.looked_before
        self.show(
            JobProgress(done, now, job.state.removed, read_bytes, job.num_bytes, looked_at, looked_now, share)
        )

    def looked(self, count: int) -> None:
        """Take note that so many rows were looked at, before the first is done."""
        read_bytes = self.rows.bytes_read
        share = 0.5 * min(read_bytes / self.total, 1.0) if self.total else None
        self.show(JobProgress(0, 0, 0, read_bytes, 0, count, count - self.job.looked_before, share))


def run_job(
    job: Job,
    progress: Progress,
    bad_rows: Reports,
    waits_for: str | None,
    json_progress: bool,
    removed: str = "duplicates",
) -> None:
    """Run a job under a bar, or with JSON lines of its progress.

    Args:
        progress: what the job calls.
        waits_for: what goes on until the first row is done.
        removed: what the rows are that go.
    """
    progress.job, job.on_looked = job, progress.looked
    progress.total = progress.rows.total_bytes() if json_progress or shows_progress() else None
    with job_bar(progress.total, waits_for, removed, as_json=json_progress) as progress.show:
        _run(job, bad_rows)


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
    noun = "row"
    if state.documents:
        noun = "paragraph"
        dropped = f"of {figure(state.dropped)} nothing is left"
        note(f"{counted(state.documents, 'document')}, {dropped}; their paragraphs:")
    note_rows(state, num_bad, noun)
    note_missed(job.missed)


def note_rows(report: Any, num_bad: int, noun: str = "row", compared: str = "their candidates") -> None:
    """Print how many rows a job read, kept and removed, and how fast.

    Args:
        report: with `read`, `kept`, `removed`, `bounded` and `seconds`.
        compared: what the bounded ones were compared with in part.
    """
    bounded = f", {figure(report.bounded)} of them compared with a part of {compared}"
    note(
        f"{counted(report.read, noun)} read, {figure(report.kept)} kept{bounded if report.bounded else ''}, "
        f"{figure(report.removed)} removed, {counted(num_bad, 'bad row')}; {report.seconds:,.1f} s, "
        f"{figure(report.read / max(report.seconds, 1e-9))} rows/s"
    )


def note_missed(missed: float) -> None:
    """Print the expected share of missed rows, from a hundredth on."""
    if missed >= _LEAST_MISSED:
        note(
            f"expected to be missed: {missed:.0%} of the duplicates right at the threshold; "
            "--recall 0.95 finds more"
        )
