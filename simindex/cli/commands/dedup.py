"""`simindex dedup`: write files without their near duplicates.

The job is `corpus.deduplicate`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

from simindex.cli import options, reading
from simindex.cli.command import command, flag, option, share, takes, word
from simindex.cli.failures import INTERRUPTED, REPORTED, CommandError, describe
from simindex.cli.output import (
    counted,
    counted_bad,
    figure,
    job_bar,
    note,
    note_tally,
    print_json,
    shows_progress,
    some_of,
)
from simindex.config import Config, SimHashConfig
from simindex.corpus.dedup.job import Job
from simindex.corpus.dedup.journal import JobError
from simindex.corpus.dedup.paragraphs import Level
from simindex.corpus.dedup.settings import JobSettings, Mode
from simindex.corpus.outputs.rows import UnfitRowError
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.inputs import InputError, Inputs

_STEP = 0.05
"""Above the threshold: how far a second share of what is found is named."""

_LEAST_MISSED = 0.005
"""Least share of missed rows that is printed."""

_MOST_NAMES = 10
"""Of inputs of which nothing stayed that are printed."""

_ADVISED_RECALL = 0.95

output_file = option(
    "-o",
    "--output",
    metavar="OUTPUT",
    required=True,
    help="The file to write: .jsonl, .csv, .tsv, .parquet, or .txt for a list of paths; all but .parquet may "
    "end in .gz, .xz or .zst.",
)
force_option = flag(
    "--force", heading="Running", help="Discard the journal of another job there, and replace the output."
)


@dataclass(frozen=True)
class DedupOptions:
    """Which rows stay, how they are compared, and what is written."""

    threshold: float | None = options.threshold.field()
    keep: str = option(
        "--keep",
        metavar="ORDER",
        default="first",
        help="Which of similar rows stays: first, newest (the last), longest, or field:NAME (the largest).",
    ).field()
    keep_per: Sequence[str] = option(
        "--keep-per",
        multiple=True,
        metavar="FIELD",
        help="Remove a row only for a kept one of the same FIELD, so that one of each source stays. May be "
        "repeated.",
    ).field()
    mode: str = word(
        "--mode",
        words=get_args(Mode),
        default="remove",
        help="Write the kept rows; all rows, with duplicate_of, similarity and cluster; or only the report.",
    ).field()
    by: str | None = options.by.but(heading="Comparison").field()
    max_distance: int | None = options.max_distance.but(
        heading="Comparison",
        help="With --by simhash: rows within K bits, 0 to 8, are similar (default 3). Else rows have to be "
        "within K bits, 0 to 63, beside the threshold.",
    ).field()
    recall: float | None = share(
        "--recall",
        metavar="P",
        heading="Comparison",
        help="Find this share of the rows whose similarity is right at the threshold, and some less similar "
        "ones (default: about half by estimates, 0.99 where all shingles are compared).",
    ).field()
    force: bool = force_option.field()

    def __post_init__(self) -> None:
        if self.by == "simhash":
            options.refuse_with("by simhash", threshold=self.threshold, recall=self.recall)

    def arguments(self, sketch: options.SketchOptions) -> dict[str, Any]:
        """Return the options, and the configuration that they ask for, as fields of `JobSettings`."""
        threshold = DEFAULT_THRESHOLD if self.threshold is None else self.threshold
        return vars(self) | {"threshold": threshold, "config": self._config(sketch)}

    def _config(self, sketch: options.SketchOptions) -> Config | None:
        """Return the configuration that rows are compared by; ``None`` where no option of sketches is given.
        Options that contradict each other are refused."""
        chosen = options.CreationOptions(**asdict(sketch))
        if not chosen.given:
            return None
        if chosen.short_texts:  # which have no SimHash
            options.refuse_with("short-texts", by=self.by == "simhash", max_distance=self.max_distance)
        if self.by != "simhash":
            return chosen.config(Config(simhash=None if self.max_distance is None else SimHashConfig()))
        options.refuse_with("by simhash", num_perm=chosen.num_perm)
        distance = SimHashConfig().max_distance if self.max_distance is None else self.max_distance
        simhash = SimHashConfig(distance, shingles=chosen.shingles(SimHashConfig().shingles))
        return Config(num_perm=0, simhash=simhash, seed=chosen.config(Config()).seed)


@dataclass(frozen=True)
class OneMachineOptions(DedupOptions):
    """Also what one machine can do, and many cannot."""

    against: str | None = option(
        "--against", metavar="INDEX", help="Also remove rows similar to a document of this index."
    ).field()
    into: str | None = option(
        "--into",
        metavar="INDEX",
        help="As --against, and add the kept rows to this index; created if it is missing.",
    ).field()
    level: str = word(
        "--level",
        words=get_args(Level),
        default="document",
        help="Compare whole documents; or paragraphs, and cut those seen before out of their documents.",
    ).field()
    exact: bool = flag("--exact", heading="Comparison", help="Compare all shingles; takes more disk.").field()
    ignore_common: float | None = options.ignore_common.but(heading="Comparison").field()
    in_kept: float | None = share(
        "--in-kept",
        heading="Comparison",
        help="Remove a row only if the kept one has at least this share of its shingles, so that the longer "
        "of two never goes for the shorter.",
    ).field()

    def __post_init__(self) -> None:
        super().__post_init__()
        shares = {"ignore_common": self.ignore_common, "in_kept": self.in_kept}
        if self.by == "simhash":
            options.refuse_with("by simhash", exact=self.exact, **shares)
        for name, least in shares.items():
            if least is not None:
                options.refuse_with(name.replace("_", "-"), against=self.against, into=self.into)

    def arguments(self, sketch: options.SketchOptions) -> dict[str, Any]:
        """Return the options, and the configuration that they ask for, as fields of `JobSettings`: exact
        with --short-texts, too."""
        return super().arguments(sketch) | {"exact": self.exact or sketch.short_texts}


@command(
    "dedup",
    """
simindex dedup news.jsonl logs.csv.gz -o clean.jsonl.zst
simindex dedup news.jsonl -o new.jsonl --against news.simindex --into seen.simindex
simindex dedup src -o duplicates.jsonl --mode report-only --exact
simindex dedup news.jsonl -o clean.jsonl --by simhash --max-distance 4
simindex dedup crawl/*.warc.gz -o pages.jsonl.zst --level paragraph
""",
)
@options.input_paths
@output_file
@takes("how", OneMachineOptions)
@takes("reads", options.FileOptions)
@options.batch_size
@options.workers
@takes("sketch", options.SketchOptions)
@options.json_summary
def dedup(
    inputs: tuple[str, ...],
    output: str,
    how: OneMachineOptions,
    reads: options.FileOptions,
    batch_size: int,
    workers: int | None,
    sketch: options.SketchOptions,
    as_json: bool,
) -> None:
    """Write a corpus without its near duplicates.

    A row stays unless a row kept before it is similar. Each removed row was compared with a kept one; the
    report names it, and their similarity. The output keeps the order of the rows. INPUT is read as `simindex
    insert` reads it. Ids appear only in the report: they may be missing, or repeat.

    The job can be killed at any time: the same command resumes it. Its journal is OUTPUT.dedup; OUTPUT has
    its name when it is complete.
    """
    reading.require_ids(inputs, reads)
    only_texts = how.level == "paragraph"
    rows = reads.inputs(inputs, key_from="line", whole_rows=True, only_texts=only_texts)
    progress = Progress(rows)
    given = how.arguments(sketch)
    settings = JobSettings(**given, batch_size=batch_size, workers=workers, progress=progress)
    job = Job(rows, output, settings)
    waits_for = None if how.keep == "first" else "reading, and ordering the rows"
    run_job(job, progress, waits_for)
    note_tally(job.tally, says_bad=False)
    _summarise(job, output, as_json)
    if settings.config is None and settings.cut is None and how.by != "simhash":
        reading.note_short_texts(rows)


class Progress:
    """Shows how far a job is, on a bar; call it with the number of rows that are done.

    Attributes:
        removed: what the rows are that go: "duplicates" or "contaminated".
        total: bytes of the input; ``None`` where unknown.
        update: changes the fields of the bar.
    """

    job: Job
    total: int | None
    update: Callable[..., None]

    def __init__(self, rows: Inputs, removed: str = "duplicates") -> None:
        self.rows, self.removed = rows, removed
        self.began = time.monotonic()

    def __call__(self, done: int) -> None:
        """Take note that so many rows are done, or looked at, where all are before the first is done."""
        job, total, looked = self.job, self.total, self.job.state.looked
        share = min(self.rows.bytes_read / total, 1.0) if total else None
        if looked and done:
            share = 0.5 + 0.5 * done / looked
        elif looked and share is not None:
            share /= 2
        now, looked_now = max(0, done - job.done_before), looked - job.looked_before
        # To look at a row is half of the work.
        pace = (now + looked_now) / 2 if looked_now else now
        rate = pace / max(time.monotonic() - self.began, 1e-9)
        if looked and not done:
            self.update(completed=self._of_total(share), count=f"{looked:,} rows, looked at first", rate=rate)
        else:
            count = f"{done:,} rows, {job.state.removed:,} {self.removed}"
            written = f"{job.num_bytes / 1e6:,.1f} MB written"
            self.update(completed=self._of_total(share), count=count, rate=rate, written=written)

    def _of_total(self, share: float | None) -> float:
        return 0.0 if share is None or self.total is None else share * self.total


def run_job(job: Job, progress: Progress, waits_for: str | None) -> None:
    """Run a job under a bar; `waits_for` is what goes on until the first row is done. Raises CommandError,
    which says how far the job is, where an error that goes away or an interrupt ends it; JobError and
    UnfitRowError pass."""
    progress.job = job
    progress.total = progress.rows.total_bytes() if shows_progress() else None
    job.on_looked = lambda _: progress(0)
    with job_bar(progress.total, waits_for) as progress.update:
        _run(job)


def _run(job: Job) -> None:
    try:
        job.run()
    except KeyboardInterrupt:
        raise CommandError(f"interrupted; {_done(job)}", INTERRUPTED) from None
    except (JobError, UnfitRowError):
        raise  # the same command would fail again
    except REPORTED as exc:
        raise CommandError(f"{describe(exc)}; {_done(job, is_of_input=isinstance(exc, InputError))}") from exc


def _done(job: Job, *, is_of_input: bool = False) -> str:
    """Return, for a message, how far a job is, and how it goes on; `is_of_input`: it ended at what the same
    command would meet again."""
    if not job.can_resume:
        return "nothing is kept of this job"
    done, what = job.state.read, "done"
    if not done and job.state.looked:
        done, what = job.state.looked, "looked at"
    if not done:
        return "no row was done yet"
    were = f"{counted(done, 'row')} {'was' if done == 1 else 'were'} {what}"
    if is_of_input:
        return f"{were}, and are done again where an input is mended, with --force"
    return f"{were}; run the same command to go on there"


def _summarise(job: Job, output: str, as_json: bool) -> None:
    state = job.state
    rate = state.read / max(state.seconds, 1e-9)
    if as_json:
        counts = {"read": state.read, "kept": state.kept, "removed": state.removed, "bounded": state.bounded}
        if state.documents:
            counts |= {"documents": state.documents, "documents_dropped": state.dropped}
        rest = (
            {"missed": round(job.missed, 4), "emptied": state.emptied}
            | asdict(job.tally)
            | {"was_done": job.was_done}
        )
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
    note_rows(state, counted_bad(job.tally), noun)
    if state.emptied:
        note(f"nothing stayed of: {some_of(state.emptied, len(state.emptied), _MOST_NAMES)}")
    note_found(job.missed, job.found_above(_STEP))


def note_rows(report: Any, bad: str, noun: str = "row", compared: str = "their candidates") -> None:
    """Print how many rows a job read, kept and removed, and how fast; `bad`: how many were bad, in words;
    `compared`: what the bounded ones were compared with in part only."""
    bounded = f", {figure(report.bounded)} of them compared with a part of {compared}"
    note(
        f"{counted(report.read, noun)} read, {figure(report.kept)} kept{bounded if report.bounded else ''}, "
        f"{figure(report.removed)} removed, {bad}; {report.seconds:,.1f} s, "
        f"{figure(report.read / max(report.seconds, 1e-9))} rows/s"
    )


def note_found(missed: float, above: tuple[float, float] | None = None) -> None:
    """Print to stderr which share of the duplicates right at the threshold is found, 1 - `missed`, and of
    those `above` it, (similarity, share); nothing where `missed` is below `_LEAST_MISSED`. --recall is
    advised where less than `_ADVISED_RECALL` is found."""
    if missed >= _LEAST_MISSED:
        clearer = "" if above is None else f", {above[1]:.0%} of those at {above[0]:.2f}"
        more = f"; --recall {_ADVISED_RECALL} finds more" if 1 - missed < _ADVISED_RECALL else ""
        note(
            f"expected to be found: {1 - missed:.0%} of the duplicates right at the threshold{clearer}{more}"
        )
