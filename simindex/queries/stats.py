"""`Stats`: counts, sizes and settings of an index."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

from simindex.config import Config
from simindex.format.keys import doc_id_key, doc_id_of
from simindex.format.layout import ENTRY_WIDTHS, SHINGLE_WIDTHS
from simindex.format.meta import Manifest
from simindex.format.records import decode_record
from simindex.formulas.curve import compared_bits, expected_recall, rows_for
from simindex.formulas.estimator import union_size
from simindex.formulas.match_odds import FOUND_PROBABILITIES, similarity_for
from simindex.html_table import of_bytes, table
from simindex.jsonable import plain
from simindex.queries.scheme import Scheme
from simindex.queries.view import stored_records
from simindex.storage.environment import ReadTransaction

RECALL_THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, repr=False)
class Stats:
    """What an index holds and costs.

    Attributes:
        path: its folder.
        documents: stored documents.
        copies: those that share the sketch of an earlier one that is stored now; 0 with `keep_shingles`,
            where equal documents are stored each by itself.
        segments: live segments; `compact` makes them one.
        entries: table -> stored entries, those of removed documents included until they are merged.
        part_bytes: part of the file -> its bytes, which add up to `file_bytes`: the entries of each table;
            "filters", with bitmaps and fences; "seals", and what is left of the pages of all these;
            "documents", the pages of records with key and metadata; "marks", those of removals, ages, copies
            and the manifest; "free" for later commits, LMDB's own pages among it.
        file_bytes: length of the data file.
        used_bytes: bytes of pages in use; the rest of the file is free for later commits.
        bytes_per_document: used bytes a document, ``None`` for an empty index.
        shingles: distinct shingles of a document, the median of 256 of them, to two digits; ``None`` where
            none is known.
        config: the settings.
        rows: threshold -> whole rows of a band that a query compares; 1 also where it is less.
        compared_bits: threshold -> leading bits of a band that a query compares, eight a row.
        recall: threshold -> probability that a document at the threshold is looked at, as a candidate.
        found: threshold -> probability -> similarity of the documents that a query with that threshold
            returns with that probability: candidates whose estimate reaches it, for documents of that many
            `shingles`.
        permutation_tables: number of permutation tables.
        prefix_bits: leading bits of each that a SimHash query compares.
        permutation_bytes_per_document: what they take of a document's bytes.
        expected_candidates: entries a SimHash query scans when fingerprints are uniform.
    """

    path: str
    documents: int
    copies: int
    segments: int
    entries: dict[str, int]
    part_bytes: dict[str, int]
    file_bytes: int
    used_bytes: int
    bytes_per_document: float | None
    shingles: int | None
    config: Config
    rows: dict[float, int]
    compared_bits: dict[float, int]
    recall: dict[float, float]
    found: dict[float, dict[float, float]]
    permutation_tables: int
    prefix_bits: tuple[int, ...]
    permutation_bytes_per_document: int
    expected_candidates: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values: keys of a dict, such as thresholds, become strings, and `config`
        a dict."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        as_plain: dict[str, Any] = plain(values | {"config": self.config.to_dict()})
        return as_plain

    def __repr__(self) -> str:
        lines = [f"  {name:<22}{value}" for name, value in self._figures()]
        return "\n".join((f"Stats of {self.path!r}", *lines))

    def _repr_html_(self) -> str:
        """What a notebook shows: the counts, and the bytes of each part of the file."""
        parts = [
            (name, self.entries.get(name), taken, taken / self.documents if self.documents else None)
            for name, taken in self.part_bytes.items()
        ]
        return table(self.path, (), self._figures()) + table(
            "the file", ("part", "entries", "bytes", "bytes/document"), parts
        )

    def _figures(self) -> list[tuple[str, str]]:
        config, simhash = self.config, self.config.simhash
        each = "" if self.bytes_per_document is None else f", {self.bytes_per_document:,.1f} bytes a document"
        bits = ", ".join(f"{bits} at {threshold}" for threshold, bits in self.compared_bits.items())
        sampled = f"one in {config.containment} shingles sampled"
        found = ", ".join(f"{least[0.95]:.3f} up at {threshold}" for threshold, least in self.found.items())
        return [
            ("documents", f"{self.documents:,}"),
            ("copies of others", f"{self.copies:,}"),
            ("segments", f"{self.segments:,}"),
            ("file", f"{of_bytes(self.file_bytes)}, {of_bytes(self.used_bytes)} in use{each}"),
            (
                "MinHash",
                f"{config.num_perm} rows; bits compared in a band: {bits}" if config.num_perm else "off",
            ),
            *([("returned with 0.95", found)] if found else []),
            ("SimHash", f"up to {simhash.max_distance} bits" if simhash else "off"),
            ("shingles", f"{config.shingles!r}, {config.keep_shingles:,} kept a document"),
            *([("shingles a document", f"{self.shingles:,}")] if self.shingles else []),
            *([("containment", sampled)] if config.containment else []),
        ]


_STRETCHES, _OF_A_STRETCH = 16, 16
"""So many documents are looked at for their shingles, in so many places among all."""


def usual_shingles(txn: ReadTransaction, manifest: Manifest) -> int | None:
    """Return the median number of distinct shingles of a sample of documents, to two digits; ``None`` where
    none is known."""
    found = list[int]()
    for stretch in range(_STRETCHES):
        first = doc_id_key(manifest.next_doc_id * stretch // _STRETCHES)
        for key, value in islice(stored_records(txn, manifest, first), _OF_A_STRETCH):
            found.append(decode_record(doc_id_of(key), value).num_shingles)
    known = sorted(filter(None, found))
    if not known:
        return None
    middle = known[len(known) // 2]
    return round(middle, min(0, 2 - len(str(middle))))


def make_stats(
    path: str, scheme: Scheme, manifest: Manifest, figures: dict[str, int], shingles: int | None
) -> Stats:
    """Return the stats of a manifest and the counts of its store; `shingles` as of `usual_shingles`."""
    config, tables, plan = scheme.config, scheme.tables, scheme.plan
    thresholds, segments = RECALL_THRESHOLDS if config.bands else (), manifest.segments
    entries = {
        "keys": sum(entry.num_keys for entry in segments),
        "copies": sum(entry.num_copies for entry in segments),
        "bands": sum(entry.num_band_entries for entry in segments) * tables.bands,
        "permutations": sum(entry.num_fingerprints for entry in segments) * tables.permutations,
        "sketches": sum(entry.num_sketches for entry in segments),
    }
    parts = {name: sum(ENTRY_WIDTHS) * count for name, count in entries.items()}
    parts["sketches"] = tables.sketch_bytes * entries["sketches"]
    if tables.has_shingles:
        entries["shingles"] = sum(entry.num_shingles for entry in segments)
        parts["shingles"] = sum(SHINGLE_WIDTHS) * entries["shingles"]
    stored, used = tables.stored_bytes(segments), figures["used_bytes"]
    parts["filters"] = stored - sum(parts.values())
    parts["seals"] = figures["segments"] - stored
    parts["documents"] = figures["documents"]
    parts["marks"] = used - figures["segments"] - figures["documents"]
    parts["free"] = figures["file_bytes"] - used
    return Stats(
        path=path,
        documents=manifest.num_documents,
        copies=manifest.num_copies,
        segments=len(segments),
        entries=entries,
        part_bytes=parts,
        file_bytes=figures["file_bytes"],
        used_bytes=used,
        bytes_per_document=used / manifest.num_documents if manifest.num_documents else None,
        shingles=shingles,
        config=config,
        rows={t: rows_for(t, config.bands) for t in thresholds},
        compared_bits={t: compared_bits(t, config.bands) for t in thresholds},
        recall={t: expected_recall(t, config.bands) for t in thresholds},
        found={t: _found_at(t, config, shingles) for t in thresholds},
        permutation_tables=plan.num_tables,
        prefix_bits=plan.prefix_bits,
        permutation_bytes_per_document=sum(ENTRY_WIDTHS) * plan.num_tables,
        expected_candidates=plan.expected_candidates(manifest.num_documents),
    )


def _found_at(threshold: float, config: Config, shingles: int | None) -> dict[float, float]:
    """Return {probability: similarity that documents of so many shingles have, where a query with that
    threshold returns them with that probability}."""
    both = None if shingles is None else union_size(shingles, shingles, threshold)
    return {odds: similarity_for(odds, threshold, config, shingles=both) for odds in FOUND_PROBABILITIES}
