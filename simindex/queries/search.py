"""Query values: find candidates of sketches and turn them into matches.

`query_by` makes a query of a caller's arguments and refuses what the index cannot answer.
`BandQuery.find` and `FingerprintQuery.find` run in the kernel, in any thread, and `matches` looks the
documents up. A value can be passed on: to threads, to a stored document (`matches_of_stored`), to a job over
the whole index. `nearest` finds the k most similar documents by shortening the prefix (LSH Forest, Bawa et
al. 2005). Every search is complete up to its stated odds: by bands with the probability that
`tuning.match_probability` gives, by permutation tables always, unless `truncated` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain, islice, repeat
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np

from simindex import _kernel
from simindex.batching import Part, bytes_of, in_order, in_parts, num_workers
from simindex.checks import plain_number, require_int, require_share
from simindex.config import Config
from simindex.errors import Argument, ArgumentValueError
from simindex.format.kernel_structs import MATCH, MATCHES, NO_VALUE, rows_without
from simindex.format.keys import Key
from simindex.format.layout import FIRST_BAND_TABLE
from simindex.format.records import FoundRecord, decode_found, decode_kept
from simindex.formulas.curve import (
    DEFAULT_RECALL,
    DEFAULT_THRESHOLD,
    MAX_PREFIX_BITS,
    ROW_BITS,
    compared_bits,
)
from simindex.formulas.estimator import similarity_table
from simindex.formulas.match_odds import BandPlan, band_plan, estimate_cut, exact_plan
from simindex.queries.candidates import Found, Wanted, found_where
from simindex.queries.matches import Matches, matches_found
from simindex.queries.scheme import Scheme
from simindex.queries.view import EVERY, View
from simindex.queries.where import Filter, Where, filter_of, wider
from simindex.segments.directory import Directory
from simindex.sketching.document import Document
from simindex.sketching.estimate import Estimate, best_estimate
from simindex.sketching.permutations import FINGERPRINT_BITS
from simindex.sketching.sketch import (
    HAS_FINGERPRINT,
    HAS_SIGNATURE,
    OF_ROWS,
    Sketch,
    SketchBatch,
    require_alike,
)
from simindex.sketching.sketcher import Sketcher

DEFAULT_MAX_CANDIDATES = 65_536

MOST_IN_BUCKET = 256
"""Of the documents that share a prefix in one table so many are compared with one that is stored if it is
new, or eight times what chance puts there. They are unlike one another, or they would not be stored, so they
share it for their boilerplate; what is like a document shares prefixes with it that are its own, too. With
the limit of a query, 4,096, of 100,000 pages that share 60 % each took three times as long as of 25,000; with
this one as long."""

EACH_SEES_ALL = 2**64 - 1
"""No doc id: the sketches that are searched for are not stored themselves."""

SCANS_PER_CANDIDATE = 64
"""A scanned entry of a permutation table costs so much less than a compared sketch."""

Method = Literal["minhash", "simhash"]
"""What documents are compared by: rows or fingerprints."""


class BandQuery(NamedTuple):
    """Documents of at least a similarity, found by their bands; exact ones by kept shingle hashes, too."""

    threshold: float
    recall: float | None = None  # None: cut at the threshold itself; see `band_plan` and `exact_plan`
    limit: int | None = None
    exact: bool = False
    max_candidates: int = DEFAULT_MAX_CANDIDATES
    max_bucket: int = 0  # of a prefix in one table, or 8 times chance; 0: max_candidates / 16, at least 1,024
    max_distance: int | None = None  # bits in which the fingerprint of a match differs, too, at most
    where: Filter | None = None

    @property
    def compares(self) -> int:
        """HAS_SIGNATURE, the half of a sketch that is compared."""
        return HAS_SIGNATURE

    def plan(self, num_perm: int) -> BandPlan:
        """Return how many bits of the bands are searched by, and how many rows of a candidate must agree: the
        `exact_plan` of an exact query, else the `band_plan`."""
        how = exact_plan if self.exact else band_plan
        return how(self.threshold, num_perm, self.recall)

    def prefixes(self, scheme: Scheme, batch: SketchBatch) -> tuple[np.ndarray, list[int]]:
        """Return what `find` searches: keys, uint64, shape (tables, sketches), and for each table how many
        leading bits of a key a stored one must share."""
        prefix_bits = self.plan(scheme.config.num_perm).prefix_bits
        return np.ascontiguousarray(batch.words.T), [prefix_bits] * scheme.tables.bands

    def find(
        self, view: View, batch: SketchBatch, own_first: int = EACH_SEES_ALL, is_one_enough: bool = False
    ) -> Found:
        """Return what a search of the band tables finds for each sketch. Any thread may call it, unless the
        query has a filter. Raises ValueError for an exact query, as `require_kept`.

        `own_first` is the doc id of the first sketch where the batch is the last segment: each sees only
        those before it, and rows of agreement `NO_VALUE`, before the others, name the sketches of the batch
        that it was compared with in large buckets. `is_one_enough`: of a sketch that has matches with lower
        doc ids than `own_first`, one may be all that is found.
        """
        config = view.scheme.config
        if self.exact:
            require_kept(config, batch)
        bits, least = self.plan(config.num_perm)
        bounds = self.max_candidates, self.max_bucket, own_first, is_one_enough
        found = search_bands(view, batch, bits, least, *bounds, where=self.where)
        if self.max_distance is None:
            return found
        rows = np.frombuffer(found.matches, dtype=MATCHES)
        is_near = (rows["distance"] <= self.max_distance) | (rows["agree"] == NO_VALUE)
        return found._replace(matches=rows[is_near].tobytes())

    def matches(self, view: View, found: Found, without: int | None = None) -> list[Matches]:
        """Return the matches of each sketch, most similar first, up to the limit; the document with the doc
        id `without` is never among them."""
        if not self.exact:
            results = matches_of(view, found, self.limit, without, self.where)
            if self.max_distance is None or all(m.distance is not None for m in chain(*results)):
                return results
            # Of stored sketches that were brought in without a fingerprint the kernel compared zeros.
            results = matches_of(view, found, None, without, self.where)
            for matches in results:
                matches[:] = [m for m in matches if m.distance is not None][: self.limit]
            return results
        # From the oldest on: of equal similarities the rows' agreement says nothing more.
        rows = np.frombuffer(found.matches, dtype=MATCHES)
        by_age = rows[np.lexsort((rows["doc_id"], rows["query"]))]
        found = found._replace(matches=by_age.tobytes())
        results = matches_of(view, found, None, without, self.where, exact=True)
        cut = estimate_cut(self.threshold, view.scheme.config.num_perm, self.recall)
        for matches in results:
            similar = [m for m in matches if (m.similarity or 0.0) >= (self.threshold if m.exact else cut)]
            if self.max_distance is not None:
                similar = [m for m in similar if m.distance is not None]
            similar.sort(key=lambda m: (-(m.similarity or 0.0), 65 if m.distance is None else m.distance))
            matches[:] = similar[: self.limit]
        return results


class FingerprintQuery(NamedTuple):
    """Documents within a Hamming distance, at most the configured one, found by the permutation tables."""

    max_distance: int
    limit: int | None = None
    max_candidates: int = DEFAULT_MAX_CANDIDATES
    where: Filter | None = None

    @property
    def compares(self) -> int:
        """HAS_FINGERPRINT, the half of a sketch that is compared."""
        return HAS_FINGERPRINT

    def prefixes(self, scheme: Scheme, batch: SketchBatch) -> tuple[np.ndarray, list[int]]:
        """Return what `find` searches; see `BandQuery.prefixes`."""
        return scheme.plan.permute(batch.fingerprints), list(scheme.plan.prefix_bits)

    def find(self, view: View, batch: SketchBatch, directory: Directory | None = None) -> Found:
        """Return what a search of the permutation tables of a directory, by default the view's, finds for
        each sketch. Any thread may call it, unless the query has a filter."""
        require_alike(view.sources, batch.sources)
        if self.where is not None:
            narrow, wide = self._replace(where=None), wider(self.max_candidates)

            def run(directory: Directory, *, is_wide: bool) -> Found:
                query = narrow._replace(max_candidates=wide) if is_wide else narrow
                return query.find(view, batch, directory)

            wanted = Wanted(HAS_FINGERPRINT, 0, 0, self.max_distance, True)
            return found_where(view, self.where, batch, run, wanted)
        scheme, count = view.scheme, len(batch)
        truncated, scanned = bytearray(count), np.zeros(count, dtype=np.uint64)
        found = (directory or view.directory).run(
            _kernel.query_fingerprints,
            batch.words,
            batch.fingerprints,
            batch.present,
            scheme.plan.permute(batch.fingerprints),
            scheme.plan.packed_prefixes,
            scheme.tables.first_permutation,
            self.max_distance,
            self.max_candidates,
            self.max_candidates * SCANS_PER_CANDIDATE,
            truncated,
            scanned,
        )
        return Found(batch, found, truncated, scanned)

    def matches(self, view: View, found: Found, without: int | None = None) -> list[Matches]:
        """Return the matches of each sketch, nearest fingerprint first, up to the limit; the document with
        the doc id `without` is never among them."""
        results = matches_of(view, found, self.limit, without, self.where)
        if found.scanned is not None:
            for matches, candidates in zip(results, found.scanned.tolist(), strict=True):
                matches.candidates = candidates
        return results


Query = BandQuery | FingerprintQuery


def matches_of_stored(view: View, key: Key, query: Query) -> Matches:
    """Return the matches of a stored document, without itself. Raises KeyError for a key that is not stored,
    and ArgumentValueError for a sketch that was brought in without the half that is compared."""
    doc_id, record = view.find_stored(key)
    require_comparable(view, query.compares)
    # A text of punctuation can lack the fingerprint, too, but no text has a fingerprint alone.
    is_brought_in = record.present == HAS_FINGERPRINT or view.sources & OF_ROWS
    if record.present and not record.present & query.compares and is_brought_in:
        other = Argument("by", "simhash" if record.present == HAS_FINGERPRINT else "minhash")
        found, remedy = "a sketch that was brought in without", ("take ", other)
        raise ArgumentValueError(None, half_of(query), found, remedy).at(f"key {key!r}: ")
    batch = view.sketch_batch(doc_id, record)
    return query.matches(view, query.find(view, batch), without=doc_id)[0]


def require_comparable(view: View, compares: int) -> None:
    """Raise ArgumentValueError for a question by MinHash, `compares` as of a query, where all stored
    documents are bare fingerprints."""
    if compares == HAS_SIGNATURE and not view.sources and view.num_documents:
        remedy = ("ask by SimHash: ", Argument("by", "simhash"))
        raise ArgumentValueError(
            None, "documents with MinHash rows", "an index that holds bare fingerprints alone", remedy
        )


def half_of(query: Query) -> str:
    """Return, in words, the half of a sketch that a query compares."""
    return "MinHash rows" if query.compares == HAS_SIGNATURE else "a fingerprint"


def sketched(call: str, query: Query, sketcher: Sketcher, documents: list[Document]) -> SketchBatch:
    """Return the sketches to search by. Raises ValueError for a sketch without the half that is compared,
    which would find nothing."""
    batch = sketcher.without_samples.sketch_list(documents)
    for index, document in enumerate(documents):
        if isinstance(document, Sketch) and not (
            document.origin is not None or batch.present[index] & query.compares
        ):
            raise ValueError(f"{call}: expected {half_of(query)}, found a sketch that was brought in without")
    return batch


def search_bands(
    view: View,
    batch: SketchBatch,
    prefix_bits: int,
    min_agree: int,
    max_candidates: int,
    max_bucket: int = 0,
    own_first: int = EACH_SEES_ALL,
    is_one_enough: bool = False,
    where: Filter | None = None,
    directory: Directory | None = None,
) -> Found:
    """Search the band tables for stored sketches that share so many leading bits of a band word and agree in
    at least `min_agree` rows; what is found with a filter may not pass it. `directory`: by default the
    view's; other arguments as of `BandQuery` and its `find`."""
    if view.sources != batch.sources:
        require_alike(view.sources, batch.sources)
    if where is not None:
        most, has_distances = wider(max_candidates), view.scheme.config.simhash is not None

        def run(directory: Directory, *, is_wide: bool) -> Found:
            bounds = (most, most) if is_wide else (max_candidates, max_bucket)
            enough = own_first, is_one_enough
            return search_bands(view, batch, prefix_bits, min_agree, *bounds, *enough, None, directory)

        wanted = Wanted(HAS_SIGNATURE, prefix_bits, min_agree, NO_VALUE, has_distances)
        return found_where(view, where, batch, run, wanted)
    truncated = bytearray(len(batch.present))
    found = (directory or view.directory).run(
        _kernel.query_bands,
        batch.words,
        batch.fingerprints,
        batch.present,
        FIRST_BAND_TABLE,
        prefix_bits,
        min_agree,
        max_candidates,
        view.scheme.config.simhash is not None,
        max_bucket,
        own_first,
        is_one_enough,
        truncated,
    )
    return Found(batch, found, truncated)


def require_keeping(config: Config, argument: Argument, otherwise: str = "") -> None:
    """Raise ValueError where an index keeps no shingles, which an argument needs; `otherwise`: what the
    message suggests beside another index."""
    if not config.keep_shingles:
        remedy = ("build it with ", Argument("keep_shingles", of="Config"), otherwise)
        raise ArgumentValueError(
            None, ("kept shingle hashes for ", argument), "that this index keeps none", remedy
        )


def require_kept(config: Config, batch: SketchBatch) -> None:
    """Raise ValueError where the index keeps no shingles, or a sketch that has MinHash rows lacks them or was
    made with fewer."""
    require_keeping(config, Argument("exact", True))
    for present, kept in zip(batch.present, batch.kept or [], strict=True):
        if present & HAS_SIGNATURE and kept is None:
            expected = ("a document to compare with ", Argument("exact", True))
            most = f"{config.keep_shingles:,} of the index"
            found = f"a sketch without kept shingles, or with fewer than the {most}"
            raise ArgumentValueError(None, expected, found)


def matches_of(
    view: View,
    found: Found,
    limit: int | None,
    without: int | None,
    where: Filter | None = None,
    *,
    exact: bool = False,
) -> list[Matches]:
    """Return one `Matches` for each query of the batch: its rows in `found`, in their order, copies expanded,
    without documents that were removed or do not pass; at most `limit` a query, `None`: all.

    `without`: a doc id to leave out. `exact`: similarities come from kept shingles where both sides have
    them; the caller sorts by them.
    """
    results = list(map(Matches, repeat(()), map(bool, found.truncated)))
    if not found.matches:
        return results
    rows = found.matches
    room = EVERY if limit is None else min(limit, EVERY)  # beyond 64 bits the kernel would refuse it
    wanted = room + (without is not None)
    most, with_copies = wanted, view.has_copies and wanted > 1
    if where is not None:  # any copy may pass
        wanted, with_copies = EVERY, view.has_copies
    while rows:
        later = b""
        if limit is not None:
            now, others = _first_rows(rows, results, room, most)
            if not now:
                break
            # One is enough, and mostly the first is live: its copies are looked for only where it is not.
            rows, later = now, others if with_copies or not view.has_copies else rows
            most *= 8  # they were of removed documents, or did not pass
        if with_copies:
            rows = _with_copies(view, rows, wanted)
        with_copies = view.has_copies
        _add_matches(view, found.batch, rows, results, room, without, exact, where)
        rows = later
    return results


def _first_rows(rows: bytes, results: list[Matches], room: int, most: int) -> tuple[bytes, bytes]:
    """Return (the first `most` rows of `MATCH`, the others) of each query that has fewer than `room` results
    yet; rows of other queries are in neither."""
    if len(results) == 1:
        end = most * MATCH.size
        return (b"", b"") if len(results[0]) >= room else (rows[:end], rows[end:])
    found = np.frombuffer(rows, dtype=MATCHES)
    has_room = np.array([len(matches) < room for matches in results])
    found = found[has_room[found["query"]]]
    before = np.searchsorted(found["query"], found["query"])
    is_first = np.arange(len(found)) - before < min(most, len(found))
    return found[is_first].tobytes(), found[~is_first].tobytes()


def _with_copies(view: View, rows: bytes, limit: int) -> bytes:
    """Return rows, each with rows of the copies of its document behind it, which have its figures: all
    copies, or enough that `limit` documents with its sketch are live."""
    found = np.frombuffer(rows, dtype=MATCHES)
    doc_ids: list[int] = found["doc_id"].tolist()
    copies = view.copies_of_each(list(dict.fromkeys(doc_ids)), limit)
    if not copies:
        return rows
    documents = [(doc_id, *copies.get(doc_id, ())) for doc_id in doc_ids]
    found = np.repeat(found, list(map(len, documents)))
    found["doc_id"] = list(chain(*documents))
    return found.tobytes()


def _add_matches(
    view: View,
    asked: SketchBatch,
    rows: bytes,
    results: list[Matches],
    room: int,
    without: int | None,
    exact: bool,
    where: Filter | None,
) -> None:
    """Append the matches of rows whose documents are live, and pass, to the answers, up to `room` each. Rows
    of a query lie side by side."""
    config = view.scheme.config
    if without is not None:
        rows = rows_without(rows, without)
    indices, keys, records = view.live_records(rows)
    if where is not None:
        passing, records = where.passing(records)
        indices, keys = [indices[at] for at in passing], [keys[at] for at in passing]
    kept = (asked.kept if exact else None) or []
    decoded = list(map(decode_found, records)) if kept else []
    matches = matches_found(keys, decoded or records, config.num_perm, asked.num_shingles)
    for index, found in enumerate(decoded):
        by_kept = _by_kept(found, config, kept)
        if by_kept is not None:
            matches[index] = replace(matches[index], **by_kept._asdict())
    if len(results) == 1:
        results[0] += matches
        del results[0][room:]
    elif matches:
        queries = np.frombuffer(rows, dtype=MATCHES)["query"][indices]
        begins = np.flatnonzero(np.diff(queries, prepend=queries[:1] + 1))
        ends = [*begins[1:].tolist(), len(matches)]
        for query, begin, end in zip(queries[begins].tolist(), begins.tolist(), ends, strict=True):
            results[query] += matches[begin:end]
            del results[query][room:]


def _by_kept(found: FoundRecord, config: Config, asked: list[np.ndarray | None]) -> Estimate | None:
    """Return the best estimate of a similarity, by kept shingles; ``None`` where one side is a sketch without
    rows or kept shingles."""
    record, query, agree, _ = found
    own = asked[query]
    if agree == NO_VALUE or own is None or record.kept is None or not record.present & HAS_SIGNATURE:
        return None
    return best_estimate(agree, config.num_perm, own, decode_kept(record.kept), config.keep_shingles)


def nearest(view: View, batch: SketchBatch, query: BandQuery, threshold: float | None) -> Matches:
    """Return the most similar documents to a batch of one, up to the query's limit, by shortening the prefix
    until a shorter one would hardly find a better one, or down to the threshold's; the query's recall is that
    of a candidate."""
    config = view.scheme.config
    estimates, k = similarity_table(config.num_perm), query.limit or 1
    recall = DEFAULT_RECALL if query.recall is None else query.recall
    shortest, floor = ROW_BITS, 0
    if threshold is not None:
        shortest = compared_bits(threshold, config.bands, recall)
        floor = band_plan(threshold, config.num_perm).min_agree

    def enough(similarity: float) -> int:
        return max(shortest, compared_bits(similarity, config.bands, recall)) if similarity > 0 else shortest

    bounds: tuple[Any, ...] = (query.max_candidates, 0, EACH_SEES_ALL, False, query.where)
    bits, least = MAX_PREFIX_BITS, floor
    while True:
        found = search_bands(view, batch, bits, least, *bounds)
        # No worse one is wanted, unless better ones turn out to be removed, or others than are asked for.
        agree = _agreement_at(found, k - 1)
        searched, least = least, floor if agree is None else agree
        wanted = shortest if agree is None else enough(estimates[agree])
        if wanted < bits:
            bits = _shorter(bits, shortest, view) if agree is None else wanted
            continue
        best = matches_of(view, found, k, None, query.where)[0]
        if len(best) == k:
            wanted = enough(best[-1].similarity or 0.0)
            if wanted >= bits:
                return best
            bits, least = wanted, floor
        elif searched > floor:
            least = floor
        elif bits > shortest:
            bits, least = _shorter(bits, shortest, view), floor
        else:
            return best


def _agreement_at(found: Found, index: int) -> int | None:
    """Return how many rows agree in one query's match at that index; ``None`` when there are fewer."""
    if len(found.matches) <= index * MATCH.size:
        return None
    agree: int = MATCH.unpack_from(found.matches, index * MATCH.size)[2]
    return agree


def _shorter(bits: int, shortest: int, view: View) -> int:
    """Return the bits of the prefix to be searched next, `shortest` at least: so many that unlike documents
    begin to share them, then two less than `bits` each time, so that the last search takes most."""
    entries = view.scheme.config.bands * view.num_documents
    return max(shortest, min(bits - 2, (entries // _CROWD).bit_length()))


_CROWD = 64
"""So many unlike documents share a prefix, where they begin to take much of the time of a search."""


def method_of(
    call: str,
    config: Config,
    by: Method | None,
    threshold: float | None,
    max_distance: int | None,
    recall: float | None = None,
    exact: bool = False,
) -> Method:
    """Return the method of a call, by default MinHash where the index has it. Raises ValueError for a method
    that the index was built without, `max_distance` without SimHash included, and by SimHash for a
    `threshold` other than the default, a `recall`, or `exact`. By MinHash a `max_distance` is allowed."""
    if by not in (None, "minhash", "simhash"):
        raise ArgumentValueError("by", '"minhash", "simhash" or None', repr(by))
    method: Method = by or ("minhash" if config.num_perm else "simhash")
    if method == "minhash" and not config.num_perm:
        remedy = ("ask by SimHash: ", Argument("by", "simhash"))
        raise ArgumentValueError(
            None, "an index with MinHash", ("one built with ", Argument("num_perm", 0, of="Config")), remedy
        )
    if (method == "simhash" or max_distance is not None) and config.simhash is None:
        raise ArgumentValueError(
            None, "an index with SimHash", ("one built with ", Argument("simhash", None, of="Config"))
        )
    if method == "simhash" and threshold not in (None, DEFAULT_THRESHOLD):
        raise ValueError(
            f"{call}: threshold is MinHash's, and this compares by SimHash; expected max_distance="
        )
    if method == "simhash" and (recall is not None or exact):
        found = "exact" if recall is None else "recall"
        raise ValueError(f"{call}: {found} is MinHash's, and this compares by SimHash, which misses none")
    return method


def query_by(
    config: Config,
    max_candidates: int,
    call: str,
    by: Method | None,
    threshold: float | None,
    max_distance: int | None,
    limit: int | None = None,
    recall: float | None = None,
    exact: bool = False,
    where: Where | None = None,
) -> Query:
    """Return the query of a call; by MinHash it needs a threshold. Raises TypeError and ValueError for what
    an index of that configuration cannot answer; see `method_of`."""
    if where is not None:
        query = query_by(config, max_candidates, call, by, threshold, max_distance, limit, recall, exact)
        return query._replace(where=filter_of(where))
    method = method_of(call, config, by, threshold, max_distance, recall, exact)
    if limit is not None:
        limit = require_int("limit", limit, 1)
    if method == "simhash":
        most = 0 if config.simhash is None else config.simhash.max_distance
        distance = most if max_distance is None else max_distance
        distance = require_int("max_distance", distance, 0, most, remark=", which this index was built for")
        return FingerprintQuery(distance, limit, max_candidates)
    threshold, recall = plain_number(threshold), plain_number(recall)
    for name, share in (("threshold", threshold), ("recall", recall)):
        if type(share) is not float and (share is not None or name == "threshold"):
            require_share(name, share)
    assert threshold is not None
    band_plan(threshold, config.num_perm, recall)  # refuses a share that is none
    if max_distance is not None:
        max_distance = require_int("max_distance", max_distance, 0, FINGERPRINT_BITS - 1)
    return BandQuery(threshold, recall, limit, exact, max_candidates, max_distance=max_distance)


def require_one_measure(call: str, query: Query) -> None:
    """Raise ValueError for a query by both measures where a call has one alone."""
    if isinstance(query, BandQuery) and query.max_distance is not None:
        raise ValueError(f'{call}: max_distance is SimHash\'s; expected threshold=, or by="simhash"')


def nearest_query(
    config: Config,
    max_candidates: int,
    k: int,
    by: Method | None,
    threshold: float | None,
    recall: float | None,
    where: Where | None = None,
) -> Query:
    """Return the query of a call of `nearest`, with limit `k`; by MinHash its threshold is 1.0 where none is
    given. Raises ValueError for a threshold by SimHash, and as `query_by`."""
    method = method_of("nearest", config, by, None, None, recall)
    k = require_int("k", k, 1)
    if method == "minhash":
        threshold = 1.0 if threshold is None else threshold
    elif threshold is not None:
        raise ValueError("nearest: threshold is MinHash's, and this compares by SimHash; expected none")
    return query_by(config, max_candidates, "nearest", method, threshold, None, k, recall, where=where)


_QUERY_PART = 512
"""Documents that a thread sketches and searches in one go."""


QueryPart = SketchBatch | list[Document]
"""Some of the documents of a call, sketched or to be sketched by the thread that searches."""


def query_parts(
    documents: Iterable[Document], sketch: Callable[[list[Document]], SketchBatch], workers: int | None
) -> list[QueryPart]:
    """Return what to search for, in order, as one batch, or as several where threads share the work; of an
    empty iterator none. Lists of texts or sketches may be returned unsketched, for the threads to sketch.
    Other documents may run the caller's code, so they are read and sketched here, before a read begins."""
    threads = num_workers(workers)
    if isinstance(documents, list):
        if threads == 1 or len(documents) < 2 * _QUERY_PART:
            return [sketch(documents)]
        if set(map(type, documents)) <= {str, Sketch}:
            return [documents[at : at + _QUERY_PART] for at in range(0, len(documents), _QUERY_PART)]

    def sketch_part(part: Part[Document]) -> SketchBatch:
        return sketch(part.values)

    parts = in_parts(documents, _QUERY_PART, bytes_of)
    begin = list(islice(parts, 1))
    if not all(part.is_full for part in begin):
        return list(map(sketch_part, begin))
    parts, begin = chain(begin, parts), []
    return list(in_order(sketch_part, parts, threads, threads, attrgetter("num_bytes")))


def matches_of_parts(
    view: View,
    query: Query,
    parts: list[QueryPart],
    sketch: Callable[[list[Document]], SketchBatch],
    workers: int | None,
) -> list[Matches]:
    """Return the matches of each document, in order. A part that is a `SketchBatch` is taken as it is, of
    another `sketch` makes one. Threads search where there are several parts and no filter. Raises as
    `require_comparable`."""
    require_comparable(view, query.compares)

    def find(part: QueryPart) -> Found:
        return query.find(view, part if isinstance(part, SketchBatch) else sketch(part))

    results: list[Matches] = []
    # With a filter a search may read records, which takes the thread that holds the transaction.
    threads = num_workers(workers) if len(parts) > 1 and query.where is None else 1
    for found in map(find, parts) if threads == 1 else in_order(find, parts, threads, threads):
        results += query.matches(view, found)
    return results
