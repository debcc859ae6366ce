"""`simindex stats`: print counts, sizes and settings of an index.

The figures are `Index.stats`.
"""

from __future__ import annotations

from simindex import SimHashConfig, Stats, WordShingles
from simindex.cli import options
from simindex.cli.creation import open_for_reading
from simindex.cli.output import counted, figure, print_json, print_table, print_text, printable
from simindex.config import Shingles
from simindex.tuning.match_odds import FOUND_PROBABILITIES

EXAMPLES = r"""
simindex stats news.simindex
simindex stats news.simindex --json
"""


def run(
    index: options.IndexFolder,
    as_json: options.JsonObject = False,
) -> None:
    """Show what an index holds, costs and finds."""
    with open_for_reading(index) as stored:
        stats = stored.stats()
    if as_json:
        print_json(stats.to_dict())
        return
    print_table(("index", printable(stats.path)), _overview(stats))
    print()
    print_table(("table", "entries", "bytes", "bytes/document"), _tables(stats))
    print_text(_difference(stats))
    print()
    print_table(("setting", "value"), _settings(stats), left=2)
    if stats.recall:
        print()
        found_at = [f"{odds:g} returned at" for odds in FOUND_PROBABILITIES]
        print_table(("threshold", "bits compared", "looked at", *found_at), _found(stats))
    if stats.config.simhash is not None:
        print()
        print_table(("SimHash search", "cost"), _simhash(stats, stats.config.simhash))


def _overview(stats: Stats) -> list[tuple[str, str]]:
    return [
        ("documents", figure(stats.documents)),
        ("copies of an earlier one", figure(stats.copies)),
        ("segments", figure(stats.segments)),
        ("bytes of the file", figure(stats.file_bytes)),
        ("bytes in use", figure(stats.used_bytes)),
        ("bytes in use/document", figure(stats.bytes_per_document, 1)),
    ]


def _difference(stats: Stats) -> str:
    """Say why the tables, the bytes in use and the file are not the same."""
    tables = sum(stats.table_bytes.values())
    return (
        f"The tables hold {figure(tables)} bytes. In use are {figure(stats.used_bytes)}: whole pages of the "
        "file, with filters, seals and space that `compact` frees. The file has "
        f"{figure(stats.file_bytes)}: what was freed is used again."
    )


def _tables(stats: Stats) -> list[tuple[str, str, str, str]]:
    return [
        (
            name,
            figure(stats.entries.get(name)),
            figure(num_bytes),
            figure(num_bytes / stats.documents if stats.documents else None, 1),
        )
        for name, num_bytes in stats.table_bytes.items()
    ]


def _found(stats: Stats) -> list[tuple[str, ...]]:
    return [
        (
            f"{threshold}",
            str(stats.compared_bits[threshold]),
            f"{stats.recall[threshold]:.4f}",
            *(f"{similarity:.3f}" for similarity in found.values()),
        )
        for threshold, found in stats.found.items()
    ]


def _shingles(shingles: Shingles) -> str:
    noun = "word" if isinstance(shingles, WordShingles) else "character"
    return f"{counted(shingles.size, noun)}, normalized: {' '.join(shingles.normalize) or 'none'}"


def _settings(stats: Stats) -> list[tuple[str, str]]:
    config = stats.config
    return [
        ("MinHash rows", str(config.num_perm) if config.num_perm else "off"),
        ("MinHash bands", str(config.bands)),
        ("shingles", _shingles(config.shingles)),
        ("shingle hashes kept", figure(config.keep_shingles)),
        ("SimHash", f"up to {config.simhash.max_distance} bits" if config.simhash else "off"),
        *([("SimHash features", _shingles(config.simhash.shingles))] if config.simhash else []),
        ("seed", str(config.seed)),
    ]


def _simhash(stats: Stats, simhash: SimHashConfig) -> list[tuple[str, str]]:
    bits = sorted(set(stats.prefix_bits))
    return [
        ("complete up to distance", f"{simhash.max_distance} bits"),
        ("permutation tables", figure(stats.permutation_tables)),
        ("leading bits a table", "-".join(str(b) for b in dict.fromkeys((bits[0], bits[-1])))),
        ("bytes/document", figure(stats.permutation_bytes_per_document)),
        ("expected candidates/query", figure(stats.expected_candidates, 1)),
    ]
