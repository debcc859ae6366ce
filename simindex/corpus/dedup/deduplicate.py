"""`deduplicate`, the public call: what it takes and promises. `settings` is what it asks, `job` runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simindex.config import Config
from simindex.corpus.dedup.job import Job
from simindex.corpus.dedup.keep_per import KeepPer
from simindex.corpus.dedup.orders import Keep
from simindex.corpus.dedup.output_files import Sink
from simindex.corpus.dedup.paragraphs import Level
from simindex.corpus.dedup.results import DedupReport, Removed
from simindex.corpus.dedup.settings import DedupSettings, IndexOrPath, JobSettings, Mode
from simindex.errors import ArgumentTypeError
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.queries.search import Method


def deduplicate(
    sources: Any,
    sink: Sink | None,
    threshold: float = DEFAULT_THRESHOLD,
    *,
    keep: Keep = "first",
    keep_per: KeepPer = None,
    against: IndexOrPath | None = None,
    into: IndexOrPath | None = None,
    mode: Mode = "remove",
    level: Level = "document",
    by: Method | None = None,
    exact: bool = False,
    config: Config | None = None,
    force: bool = False,
    progress: Callable[[int], object] | None = None,
    on_removed: Callable[[Removed], object] | None = None,
    settings: DedupSettings | None = None,
) -> DedupReport:
    """Write a corpus without its near duplicates: a row stays unless one kept before it is like it.

    A star, not a chain: each removed row was compared with a kept one, and is within the threshold of it.
    With keep="first" it is what `Index.insert_many_if_new` keeps. The result depends neither on `batch_size`
    and `workers` nor on how often the job was interrupted, but where a limit on candidates was hit
    (`DedupReport.bounded`).

    From files to a file the job can be killed at any time: called again with the same arguments it goes on
    where it was, and the output is byte for byte that of one run; called again when it is done it returns its
    report. A journal beside the output, ``OUTPUT.dedup``, knows how far it is. The output has its name only
    when it is complete. Iterables and
    standard input cannot be resumed, nor can rows that go to a callable.

    Args:
        sources: a path, or a list of paths, of what `simindex insert` reads; or an iterable of (key,
            document) or (key, document, metadata). Rows are identified by their place: an id may be missing
            or given twice. Nothing is written before the last row was read.
        sink: a path, whose name says the format: .parquet, .jsonl, .csv, .tsv, .txt (the paths of text
            files), with .gz, .xz or .zst behind it; or a callable, which is given (key, document, metadata)
            of each row, with mode="annotate" (key, document, metadata, duplicate_of, similarity, cluster).
            With mode="report-only" the path of the report of removed rows, .jsonl.
        threshold: least Jaccard similarity of duplicates, in (0, 1].
        keep: which of like rows stays: "first"; "newest", the last; "longest", by characters or by shingles;
            "field:NAME", that with the largest number or text there (texts before numbers, rows without it
            last; a cell of CSV that reads as a number is one); or a callable of (key, document, its fields)
            that returns a number or a text. Of rows that are equal in that, the first. What can be read but
            once waits in a temporary file, pickled.
        keep_per: a field, or several: a row goes only for a kept one that has the same values there, so that
            of similar rows one of each source stays. Rows without the field are one source. Documents of
            `against` and `into` have their source in their metadata, where `into` gets it.
        against: an index, open or a path: rows that are like one of its documents go, too. It is read as it
            is when the job begins, and never changed.
        into: an index, open for writing or a path, made if it is missing, that the kept rows are added to at
            the end, under their ids, with {"input": ..., "row": ...} as metadata. What it holds already
            counts as kept before. A row whose id is taken there by another one goes in under ``input:row``,
            where that is taken, too, under ``input:row~2`` and on. No other process may write to it
            meanwhile.
        mode: "remove"; "annotate": all rows are written, with `duplicate_of`, `similarity` and `cluster` (the
            number of the kept row), which replace fields of these names; or "report-only".
        level: "paragraph" compares the paragraphs of texts, within and across documents: each is known as
            ``document#number``, from 1 on. The kept text of a row is written without the paragraphs that were
            seen before, and a row of which nothing is left is not; a row without any stands as it stood. With
            "annotate" rows get `seen_share`, the share of their characters that was seen before, and `seen`,
            a list of {"span", "duplicate_of", "similarity"}. The counts are of paragraphs then, and
            documents.jsonl in the journal has a line for each document of which something was seen.
        by: "minhash" or "simhash"; ``None``: what `config` has. `threshold` and `exact` are MinHash's; by
            SimHash rows within `DedupSettings.max_distance` bits are duplicates.
        exact: compare all shingles; estimated similarities otherwise.
        config: how documents are compared; default: that of `against`, else `Config()`.
        force: give up what another job has left there, and replace an output that exists.
        progress: called with the number of rows that are done, those before an interruption included. The
            input is read twice: it is called in the second reading.
        on_removed: called with a `Removed` for each row that goes, in order. A job that is resumed calls
            it for the rows from there on, for some of them again.
        settings: what few jobs need: `DedupSettings`.

    Returns:
        DedupReport(read, kept, removed, bounded, seconds, missed, emptied).

    Raises:
        JobError: the output exists, or the journal is another job's.
        InputError: an input cannot be read on, or changed between two readings; BadRowError: a row is none.
            What was done is kept. A row that does not fit the format of the output, as an id of another type
            than those before does not fit .parquet, ends the job for good, and nothing is kept.
        ConfigMismatchError: `config` differs from that of `against`.
        IndexFullError, DiskError: a disk is full, or fails; OSError: the output cannot be written. They name
            the file, and what was done is kept.

    Cost: time linear in the rows, some hundred bytes of disk a row while it works; of memory some 300 MB and
    5 bytes a row, 13 in another order than the input's. The input is read twice, and its sketches are sorted.

    >>> rows = [("a", "the same words twice"), ("b", "The same words twice!"), ("c", "quite other words")]
    >>> kept = []
    >>> report = deduplicate(rows, kept.append)
    >>> [row.key for row in kept], report.removed
    (['a', 'c'], 1)
    """
    given = locals()
    rare = given.pop("settings") or DedupSettings()
    if not isinstance(rare, DedupSettings):
        raise ArgumentTypeError("settings", "a DedupSettings or None", type(rare).__name__)
    return Job(given.pop("sources"), given.pop("sink"), JobSettings(**vars(rare), **given)).run()
