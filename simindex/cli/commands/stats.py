"""`simindex stats`: print counts, sizes and settings of an index.

The figures are `Index.stats`.
"""

from __future__ import annotations

from typing import Any

from click import BadParameter

from simindex.cli import drawing, options
from simindex.cli.command import command, flag, share, takes
from simindex.cli.commands.explain import shortened
from simindex.cli.drawing import Chart
from simindex.cli.output import counted, figure, print_json, print_table, printable, progress_bar
from simindex.config import Shingles, WordShingles
from simindex.corpus.report.histograms import Histograms, histograms_of
from simindex.formulas.match_odds import FOUND_PROBABILITIES
from simindex.index import Index
from simindex.index import open as open_index
from simindex.inputs import Inputs
from simindex.queries.stats import Stats

_LEAST_SIMILARITY = 0.5
_MOST_COMMON = 20


@command(
    "stats",
    """
simindex stats news.simindex
simindex stats news.simindex --json
simindex stats news.simindex --histogram --threshold 0.6 -o news.svg
""",
)
@options.index_folder
@flag(
    "--histogram",
    help="Also show similarities of pairs, sizes of buckets and ages of documents; takes as long as `pairs`.",
)
@options.threshold.but(help="With --histogram: least similarity of a pair, above 0 up to 1 (default 0.5).")
@share(
    "--common",
    help="With --texts: show the passages that more than this share of the documents have, as templates.",
)
@options.inputs_of(
    "--texts", "With --common: search the texts of INPUT, read as insert reads it. May be repeated."
)
@drawing.picture_file
@takes("reads", options.FileOptions)
@options.json_object
def stats(
    index: str,
    histogram: bool,
    threshold: float | None,
    common: float | None,
    texts: tuple[str, ...],
    output: str | None,
    reads: options.FileOptions,
    as_json: bool,
) -> None:
    """Show the counts, sizes, settings and recall of an index.

    --threshold, and --output (a picture of the charts), go with --histogram, --common with --texts.

    JSON: with --histogram also "histograms": {"similarities", "buckets", "ages"}, lists of [label, count];
    with --common "common": a list of [documents, passage].
    """
    if not histogram and (output is not None or threshold is not None):
        raise BadParameter("--output and --threshold go with --histogram")
    if (common is None) != (not texts):
        raise BadParameter("--common and --texts go together")
    if not texts:
        reads.require_defaults("--texts")
    draw = drawing.picture_writer(output)
    passages: list[tuple[int, str]] = []
    found: Histograms | None = None
    with open_index(index, "r") as stored:
        stats = stored.stats()
        if histogram:
            with progress_bar("comparing"):
                found = histograms_of(stored, _LEAST_SIMILARITY if threshold is None else threshold)
        if common is not None:
            passages = _common_passages(stored, reads.inputs(texts, key_from="line"), common)
    charts = _charts(stats, found) if found is not None else []
    if charts:
        draw(charts)
    if as_json:
        more: dict[str, Any] = {} if found is None else {"histograms": found._asdict()}
        print_json(stats.to_dict() | more | ({} if common is None else {"common": passages}))
        return
    _print(stats)
    _print_common(passages)
    for chart in charts:
        print()
        drawing.print_chart(chart)


def _common_passages(stored: Index, inputs: Inputs, share: float) -> list[tuple[int, str]]:
    """Return (number of documents, passage) for the passages in the texts of these inputs that more than this
    share of the stored documents have: each once, whatever its case, the most common and then the longest
    first, 20 at most. Documents that are no str are passed over."""
    found: dict[str, tuple[int, str]] = {}
    for row in inputs:
        if isinstance(row.document, str):
            for passage in stored.common_passages(row.document, share):
                text = " ".join(row.document[passage.start : passage.end].split())
                found.setdefault(text.casefold(), (passage.documents, text))
    return sorted(found.values(), key=lambda each: (-each[0], -len(each[1])))[:_MOST_COMMON]


def _charts(stats: Stats, found: Histograms) -> list[Chart]:
    across = "similarity" if stats.config.num_perm else "distance"
    drawn = (
        (across, "pairs", found.similarities),
        ("sketches in a bucket", "buckets", found.buckets),
        ("last seen", "documents", found.ages),
    )
    return [
        Chart(across, [label for label, _ in bars], (name,), ([count for _, count in bars],), root=True)
        for across, name, bars in drawn
    ]


def _print(stats: Stats) -> None:
    config, of_one, parts = stats.config, stats.documents or None, stats.part_bytes
    overview = [
        ("documents", figure(stats.documents)),
        ("copies of an earlier one", figure(stats.copies)),
        ("segments", figure(stats.segments)),
        ("bytes of the file", figure(stats.file_bytes)),
        ("bytes in use", figure(stats.used_bytes)),
        ("bytes in use/document", figure(stats.bytes_per_document, 1)),
    ]
    print_table(("index", printable(stats.path)), overview)
    print()
    table = [
        (name, figure(stats.entries.get(name)), figure(size), figure(size / of_one if of_one else None, 1))
        for name, size in (parts | {"together": stats.file_bytes}).items()
    ]
    print_table(("part", "entries", "bytes", "bytes/document"), table)
    print()
    settings = [
        ("MinHash rows", str(config.num_perm) if config.num_perm else "off"),
        ("MinHash bands", str(config.bands)),
        ("shingles", _shingles(config.shingles)),
        ("shingles/document", figure(stats.shingles)),
        ("shingle hashes kept", figure(config.keep_shingles)),
        ("SimHash", f"up to {config.simhash.max_distance} bits" if config.simhash else "off"),
        *([("SimHash features", _shingles(config.simhash.shingles))] if config.simhash else []),
        ("seed", str(config.seed)),
    ]
    print_table(("setting", "value"), settings, left=2)
    if stats.recall:
        print()
        found = [
            (
                f"{at}",
                str(stats.compared_bits[at]),
                f"{stats.recall[at]:.4f}",
                *(f"{s:.3f}" for s in of.values()),
            )
            for at, of in stats.found.items()
        ]
        found_at = [f"{odds:g} found at" for odds in FOUND_PROBABILITIES]
        print_table(("threshold", "bits compared", "candidates", *found_at), found)
    if config.simhash is not None:
        print()
        bits = dict.fromkeys((min(stats.prefix_bits), max(stats.prefix_bits)))
        search = [
            ("complete up to distance", f"{config.simhash.max_distance} bits"),
            ("permutation tables", figure(stats.permutation_tables)),
            ("leading bits a table", "-".join(map(str, bits))),
            ("bytes/document", figure(stats.permutation_bytes_per_document)),
            ("expected candidates/query", figure(stats.expected_candidates, 1)),
        ]
        print_table(("SimHash search", "cost"), search)


def _shingles(shingles: Shingles) -> str:
    noun = "word" if isinstance(shingles, WordShingles) else "character"
    return f"{counted(shingles.size, noun)}, normalized: {' '.join(shingles.normalize) or 'none'}"


def _print_common(passages: list[tuple[int, str]]) -> None:
    if passages:
        print()
        shown = [(figure(count), shortened(text)) for count, text in passages]
        print_table(("documents", "passage"), shown, left=2)
