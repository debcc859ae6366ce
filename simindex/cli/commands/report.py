"""`simindex report`: the near duplicates of an index or of a finished `dedup`: one HTML page, or pictures.

What is in it is `corpus.report`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from click import BadParameter

from simindex.cli import options
from simindex.cli.command import argument, command, number, option, takes
from simindex.cli.drawing import Chart, is_page, picture_writer, print_chart
from simindex.cli.failures import CommandError
from simindex.cli.output import counted, note, note_tally, print_json, print_text, whole_file
from simindex.corpus.report.index_overview import overview_of
from simindex.corpus.report.job_overview import is_journal, overview_of_job
from simindex.corpus.report.overview import Bounds, Overview
from simindex.corpus.report.report import report_of
from simindex.corpus.report.texts import texts_of, texts_of_job
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.index import Index
from simindex.index import open as open_index
from simindex.inputs import Inputs


@command(
    "report",
    """
simindex report news.simindex -o report.html
simindex report news.simindex -o report.svg
simindex report news.simindex -o report.html --texts news.jsonl --threshold 0.5
""",
)
@argument("index", "INDEX", "The folder of an index; or the output of `dedup`, or its journal, OUTPUT.dedup.")
@option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the page to FILE, or with .svg or .png its pictures (needs matplotlib). Default: print the "
    "pictures.",
)
@options.threshold
@options.inputs_of(
    "--texts",
    "Show texts side by side: INPUT has them by key, read as insert reads it. May be repeated.",
)
@number("--clusters", "most_clusters", default=Bounds.clusters, help="Clusters to list.")
@takes("reads", options.KeyOptions)
@options.json_object
def report(
    index: str,
    output: str | None,
    threshold: float | None,
    texts: tuple[str, ...],
    most_clusters: int,
    reads: options.KeyOptions,
    as_json: bool,
) -> None:
    """Write a page on the near duplicates of an index or of a job.

    The job is a `dedup` or a `decontaminate`. The page opens from disk and loads nothing: counts,
    similarities, the share of new documents along the input, the largest clusters, and with --texts any two
    documents of a cluster side by side, with the passages marked that they share. Without --output the counts
    and the similarities are printed as pictures.

    JSON: one object, {"documents", "duplicates", "clusters", "pairs", "histogram", "fresh", "notes"}: how
    many pairs have each similarity or distance, and the share of documents that are no duplicates in equal
    parts of the input.
    """
    bounds = Bounds(most_clusters)
    draw = picture_writer(output, or_page=True)
    if texts and not is_page(output):
        raise BadParameter("--texts goes with a page, --output FILE.html")
    if not texts:
        reads.require_defaults("--texts")
    inputs = reads.inputs(texts) if texts else None
    with contextlib.ExitStack() as opened:
        overview, found, stored = _overview(opened, index, threshold, inputs, bounds)
        if is_page(output):
            with whole_file(output or "") as page:
                page.write(report_of(overview, found, bounds, stored).encode())
    if inputs is not None:
        note_tally(inputs.tally)
    charts = _charts(overview)
    draw(charts)
    if as_json:
        print_json(_plain(overview))
    elif output is None:
        for chart in charts:
            print_chart(chart)
            print_text("")
    _summarise(output or index, overview, found)


def _overview(
    opened: contextlib.ExitStack, index: str, threshold: float | None, inputs: Inputs | None, bounds: Bounds
) -> tuple[Overview, Mapping[Any, str] | None, Index | None]:
    if os.path.isfile(index) and is_journal(f"{index}.dedup"):
        index = f"{index}.dedup"
    if is_journal(index):
        if threshold is not None:
            raise BadParameter("--threshold goes with an index; a job has removed by its own")
        overview = overview_of_job(index, bounds)
        return overview, None if inputs is None else texts_of_job(inputs, overview), None
    if not os.path.isdir(index):
        raise CommandError(f"{index}: no index, and no output of dedup")
    least = DEFAULT_THRESHOLD if threshold is None else threshold
    stored = opened.enter_context(open_index(index, "r"))
    if threshold is not None and not stored.config.num_perm:
        raise BadParameter(
            f"--threshold is a similarity, which {index} does not have: it has fingerprints alone, and its "
            "pairs are those within its own distance"
        )
    overview = overview_of(stored, least, bounds)
    found = None if inputs is None else texts_of(inputs, {member.key for member in overview.members})
    return overview, found, stored


def _charts(overview: Overview) -> list[Chart]:
    labels, pairs = zip(*overview.histogram, strict=True)
    parts = [f"{index / len(overview.fresh):.0%}" for index in range(len(overview.fresh))]
    across = "similarity" if overview.by_similarity else "distance"
    return [
        Chart(across, labels, ("pairs",), (pairs,)),
        Chart("from here on in the input", parts, (f"new {overview.noun}s",), (overview.fresh,), digits=4),
    ]


def _plain(overview: Overview) -> dict[str, Any]:
    return {
        "documents": overview.documents,
        "duplicates": overview.duplicates,
        "clusters": overview.num_clusters,
        "pairs": overview.num_pairs,
        "histogram": [{"from": label, "pairs": pairs} for label, pairs in overview.histogram],
        "fresh": overview.fresh,
        "notes": overview.notes,
    }


def _summarise(name: str, overview: Overview, found: Mapping[Any, str] | None) -> None:
    noun, (later, cluster) = overview.noun, overview.names.one
    note(
        f"simindex: {name}: {counted(overview.documents, noun)}, {counted(overview.duplicates, later)}, "
        f"{counted(overview.num_clusters, cluster)}"
    )
    if found is not None and (missing := len({member.name for member in overview.members} - found.keys())):
        note(f"simindex: no text for {counted(missing, noun)}; --texts takes more inputs")
