"""`simindex report`: one HTML page on the near duplicates of an index or of a finished `dedup`.

What is in it is `corpus.report`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from simindex.cli import options, reading
from simindex.cli.creation import open_for_reading
from simindex.cli.output import counted, note
from simindex.corpus.report.job_files import is_journal, overview_of_journal, read_journal
from simindex.corpus.report.overview import Overview, overview_of
from simindex.corpus.report.report import Bounds, Subject, keys_of, report_of, subject_of, subject_of_job
from simindex.corpus.report.texts import in_paragraphs, texts_of
from simindex.format.keys import Key
from simindex.inputs import BadRowError, Inputs, Row

EXAMPLES = r"""
simindex report news.simindex -o report.html
simindex report news.simindex -o report.html --texts news.jsonl --threshold 0.5
"""


def run(
    index: Annotated[
        str,
        typer.Argument(
            metavar="INDEX",
            help="The folder of an index; or the output of `dedup`, or its journal, OUTPUT.dedup.",
        ),
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="The page; one that is there is replaced.")
    ],
    threshold: options.Threshold = None,
    texts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INPUT",
            help="Show the texts of this input side by side, by key, for an index keeps none. Inputs as of "
            "insert; may be repeated.",
        ),
    ] = None,
    most_clusters: Annotated[
        int, typer.Option("--clusters", metavar="N", parser=options.whole(1), help="Clusters to list.")
    ] = Bounds.clusters,
    members: Annotated[
        int, typer.Option(metavar="N", parser=options.whole(1), help="Documents to list of each cluster.")
    ] = Bounds.members,
    text_length: Annotated[
        int, typer.Option(metavar="N", parser=options.whole(1), help="Characters to show of each text.")
    ] = Bounds.text,
    texts_length: Annotated[
        int,
        typer.Option(
            metavar="N",
            parser=options.whole(1),
            help="Characters to show of all texts; the largest clusters come first.",
        ),
    ] = Bounds.texts,
    *,
    reads: reading.KeyOptions,
) -> None:
    """Write a page that shows the near duplicates of an index.

    Or of a job of `dedup`: what it has removed.

    It opens from disk and loads nothing: counts, similarities, the share of new documents along the input,
    the largest clusters, and with --texts any two documents of a cluster side by side, with the passages
    marked that they share.
    """
    bounds = Bounds(most_clusters, members, text_length, texts_length)
    inputs = reads.inputs(texts) if texts else None
    _report(index, output, threshold, inputs, bounds)


def _report(index: str, output: str, threshold: float | None, inputs: Inputs | None, bounds: Bounds) -> None:
    if os.path.isfile(index) and is_journal(f"{index}.dedup"):
        index = f"{index}.dedup"
    if is_journal(index):
        if threshold is not None:
            raise typer.BadParameter("--threshold goes with an index; a job has removed by its own")
        job = read_journal(index)
        overview = overview_of_journal(job, bounds.clusters, bounds.members)
        rows: Iterable[Row | BadRowError] | None = inputs
        if inputs is not None and job.cut is not None:
            rows = in_paragraphs(inputs, job.cut.split, keys_of(overview))
        _finish(output, subject_of_job(job), overview, rows, bounds)
        return
    least = 0.8 if threshold is None else threshold
    with open_for_reading(index) as stored:
        overview = overview_of(stored, least, bounds.clusters, bounds.members)
        _finish(output, subject_of(stored, least), overview, inputs, bounds)


def _finish(
    output: str,
    subject: Subject,
    overview: Overview,
    rows: Iterable[Row | BadRowError] | None,
    bounds: Bounds,
) -> None:
    found = None if rows is None else texts_of(rows, keys_of(overview))
    _write(output, report_of(subject, overview, found, bounds))
    _summarise(output, subject.noun, overview, found)


def _summarise(output: str, noun: str, overview: Overview, found: Mapping[Key, str] | None) -> None:
    duplicates = counted(overview.duplicates, "duplicate")
    note(
        f"simindex: {output}: {counted(overview.documents, noun)}, {duplicates}, "
        f"{counted(overview.num_clusters, 'cluster')}"
    )
    if found is not None and (missing := len(set(keys_of(overview)) - found.keys())):
        note(f"simindex: no text for {counted(missing, noun)}; --texts takes more inputs")


def _write(path: str, page: str) -> None:
    """Write a file that is under its name when it is whole."""
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with open(partial, "w", encoding="utf-8", newline="\n") as file:
            file.write(page)
        os.replace(partial, path)
    except OSError as exc:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise type(exc)(exc.errno, exc.strerror, path) from None
