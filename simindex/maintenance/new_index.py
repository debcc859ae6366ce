"""A new index from the stored documents and sketches of others, with the times and the order that they had.

`merge` makes one of several, `resketch` one of other settings; `repair` builds what it has saved. `opened`
reads an index by one snapshot, `making` builds the new one in a folder beside its place, which gets its name
when all of it is there: wherever a process is killed, at the place there is nothing or the whole index. All
tables are made anew, by the writer that makes those of every index. Source of fewer rows: they are drawn in
order, so those of fewer are the first of more (docs/hashing.md, section 6).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from itertools import islice
from operator import add
from pathlib import Path
from typing import Literal

import numpy as np

from simindex.batching import in_parts
from simindex.changes.documents import Conflict, InsertReport, NewDocuments
from simindex.changes.pending import Pending, side_by_side
from simindex.changes.session import Session, Writer
from simindex.checks import require_callable, require_conflict
from simindex.config import Config, SimHashConfig, both_values, differing_fields
from simindex.errors import ArgumentTypeError, ArgumentValueError, ConfigMismatchError, SimIndexError, damaged
from simindex.format.bulk import NO_LEADER, Records, decode_records
from simindex.format.keys import doc_id_key, numbered
from simindex.format.layout import Layout
from simindex.format.meta import Manifest
from simindex.format.packed import Packed
from simindex.format.records import NIL, decode_kept
from simindex.format.seals import pack
from simindex.maintenance.stored_segment import StoredSamples
from simindex.maintenance.work_folder import place_of, work_folder
from simindex.queries.scheme import Scheme, scheme_of
from simindex.queries.view import View, stored_records
from simindex.sketching.sample import Samples
from simindex.sketching.sketch import (
    HAS_FINGERPRINT,
    HAS_SIGNATURE,
    OF_DOCUMENTS,
    OF_ROWS,
    SketchBatch,
    require_alike,
)
from simindex.storage.environment import ReadTransaction
from simindex.storage.folder import permissions_of_all
from simindex.storage.store import Store

BATCH = 20_000
"""Documents of a commit."""


def saved_documents(
    records: Records,
    scheme: Scheme,
    sources: int,
    has: np.ndarray,
    words: np.ndarray,
    prints: np.ndarray,
    samples: Samples | None,
) -> NewDocuments:
    """Return the documents of these records, to be stored again with their times and sketches.

    Args:
        sources: what the signatures were made of, as in a manifest.
        has: bool for each record, whether its sketch is left. One whose sketch is lost is stored without it
            and without its kept shingles; one that never had a sketch keeps them.
        words, prints: band words and fingerprints of those alone whose sketch is left.
        samples: of all records, what the shingle table has; ``None`` where there is no such table.
    """
    config = scheme.config
    sketches = SketchBatch(len(records.keys), config.num_perm, config.keep_shingles, None)
    sketches.samples = samples
    sketches.words[has], sketches.fingerprints[has], sketches.present[has] = (
        words,
        prints,
        records.present[has],
    )
    sketches.num_shingles[has] = records.num_shingles[has]
    sketches.sources = sources
    if sketches.kept is not None:
        is_kept = has | (records.present == 0)
        sketches.kept = [
            decode_kept(kept) if kept is not None and keeps else None
            for kept, keeps in zip(records.kept, is_kept.tolist(), strict=True)
        ]
    return NewDocuments(
        records.encoded_keys,
        records.key_hashes,
        Packed.of([NIL if metadata is None else pack(metadata) for metadata in records.metadata]),
        sketches,
        records.inserted_at,
        records.seen_at,
    )


def store_documents(
    session: Session, documents: NewDocuments, on_conflict: str = "replace"
) -> tuple[int, int, int]:
    """Store documents in one commit, with their times; returns (inserted, replaced, skipped). Without times
    or documents nothing is stored. Raises KeyExistsError for a stored key where `on_conflict` is "error"."""
    if documents.times is None or not len(documents):
        return 0, 0, 0
    seen_at = documents.seen_at or [None] * len(documents)
    times = zip(documents.times.tolist(), seen_at, strict=True)
    began_at = min(first if last is None else last for first, last in times)

    def gather(writer: Writer, pending: Pending, view: View) -> tuple[int, int, int]:
        pending.inserted_at = began_at
        counts = writer.insert(pending, view, documents, on_conflict)
        pending.runs.update(_runs_of_touches(*pending.documents()))
        return counts

    return session.change(gather)


def _runs_of_touches(documents: NewDocuments, doc_ids: np.ndarray) -> dict[tuple[int, int], int]:
    """Return the runs of ages of touched documents: (time of the touch, first doc id) -> exclusive end."""
    touched: dict[int, list[int]] = {}
    for doc_id, last in zip(doc_ids.tolist(), documents.seen_at or (), strict=True):
        if last is not None:
            touched.setdefault(last, []).append(doc_id)
    return {(time, first): end for time, some in touched.items() for first, end in side_by_side(some)}


def making(
    folder: Path, work: str, config: Config, layout: Layout, sources: Iterable[str]
) -> AbstractContextManager[Session]:
    """Make an empty index beside a folder for a ``with`` block, which gives its session; the index gets the
    folder's name at the end, see `work_folder`. From its first byte on no user can read it who cannot read
    each of the `sources`, the paths of the indexes that its documents come from."""

    @contextmanager
    def opened(begun: Path) -> Iterator[Session]:
        store = Store(begun, "x", permissions=permissions_of_all(sources))
        try:
            yield Session(store, scheme_of(store, config, layout))
        finally:
            store.close()

    return work_folder(folder, work, opened)


class Source:
    """An index that is read; made by `opened`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.path = session.store.path
        self.scheme = session.scheme
        self.config: Config = session.scheme.config
        self.layout: Layout = session.scheme.tables.layout
        has_shingles = self.scheme.tables.has_shingles
        self._samples = StoredSamples(self.scheme.tables, self.config.containment) if has_shingles else None
        with session.store.reading() as txn:
            self.manifest = session.reader.committed_view(txn).manifest

    def batches(self) -> Iterator[NewDocuments]:
        """Yield all documents with their sketches, in order of insertion, up to 20,000 at a time.

        Raises CorruptIndexError where a record or sketch is damaged or the count is not the manifest's, and
        SimIndexError as `_require_unchanged`.
        """
        count = first = 0
        while True:
            try:
                with self._session.store.reading() as txn:
                    view = self._session.reader.committed_view(txn)
                    self._require_unchanged(view.manifest)
                    doc_ids, values = _next_records(txn, view.manifest, first)
                    batch = self._documents(txn, view, doc_ids, values) if values else None
            except SimIndexError as exc:
                exc.located(self.path)
                raise
            if batch is None:
                break
            count += len(values)
            first = int(doc_ids[-1]) + 1
            yield batch
        if count != self.manifest.num_documents:
            raise damaged(f"{self.path}: expected {self.manifest.num_documents} documents, found {count}")

    def _documents(
        self, txn: ReadTransaction, view: View, doc_ids: np.ndarray, values: list[bytes]
    ) -> NewDocuments:
        """Return the documents of these records, with their sketches read from the segments;
        CorruptIndexError where one is damaged."""
        records = decode_records(doc_ids, values, self.config.keep_shingles)
        for _, error in records.errors:
            raise error
        has = records.present > 0
        owners = np.where(records.leaders == NO_LEADER, doc_ids.astype(np.int64), records.leaders)
        owners = owners.astype(np.uint64)
        words, prints = view.directory.read_sketches(owners[has])
        samples = None
        if self._samples is not None:
            counts = records.num_shingles, records.num_sampled
            samples = self._samples.of(txn, view, doc_ids, owners, counts)
        return saved_documents(records, self.scheme, self.manifest.sources, has, words, prints, samples)

    def _require_unchanged(self, manifest: Manifest) -> None:
        """Raise SimIndexError unless the documents are those that were there when the index was opened: doc
        ids are never given twice, so next doc id and number of documents show it."""
        known = self.manifest
        if (manifest.next_doc_id, manifest.num_documents) != (known.next_doc_id, known.num_documents):
            raise SimIndexError(
                f"{self.path}: expected the state that was there at the beginning, found a later one: it was "
                "changed, and what ends a snapshot came as well (a compaction, a fork); do it again, or of a "
                "backup"
            )


def _next_records(txn: ReadTransaction, manifest: Manifest, first: int) -> tuple[np.ndarray, list[bytes]]:
    """Return the doc ids, uint64, and the values of the records from the doc id `first` on, up to a batch;
    both empty at the end. Raises CorruptIndexError where they do not ascend."""
    # From the very first key, for a damaged one can be shorter than a doc id.
    records = stored_records(txn, manifest, doc_id_key(first) if first else b"")
    sized = in_parts(numbered(records, "documents", first), BATCH, lambda record: len(record[1]))
    found = [(doc_id, bytes(value)) for part in islice(sized, 1) for doc_id, value in part.values]
    return np.array([doc_id for doc_id, _ in found], dtype=np.uint64), [value for _, value in found]


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Source]:
    """Open an index for a ``with`` block, to read one snapshot of it; errors of the index name its path."""
    store = Store(path, "r", pinned=True)
    try:
        try:
            source = Source(Session(store, scheme_of(store, None, None)))
        except SimIndexError as exc:
            exc.located(store.path)
            raise
        yield source
    finally:
        store.close()


Paths = Iterable[str | os.PathLike[str]]


def merge(
    sources: Paths,
    destination: str | os.PathLike[str],
    on_conflict: Conflict = "error",
    *,
    progress: Callable[[int], object] | None = None,
) -> InsertReport:
    """Make a new index of the documents of several, from their stored sketches; these are only read.

    Keys, metadata, times (`Record.inserted_at`, `seen_at`), sketches and kept shingles go over, in the
    order of the sources and, in each, of insertion; so `expire` goes by the ages that documents had, and
    documents whose sketches are equal share one. It costs what `insert_many` of ready sketches costs. Each
    source is read by one snapshot, which is pinned meanwhile: the space of what is removed from it is not
    used again until the end. The destination is made in a folder beside it, with a lock, and is durable and
    in its place when the call returns. Killed at any time, nothing is at the destination, or all; the next
    call removes what was left beside it.

    Args:
        sources: the folders of the indexes, of one configuration and seed. The new one is laid out as the
            first.
        destination: a folder that does not exist or is empty.
        on_conflict: what to do with a key that an earlier source has: "error", "skip" (the earlier document
            stays) or "replace" (the later one does).
        progress: called with the number of documents done so far, those that were skipped or replaced
            included, after each commit of some 20,000.

    Returns:
        InsertReport(inserted, replaced, skipped).

    Raises:
        ConfigMismatchError: two sources of different settings or seeds, or one of texts and one of rows that
            others made.
        FormatError: there is something at the destination.
        IndexLockedError: another process merges to the same destination.
        KeyExistsError: a key is in two sources (`on_conflict` "error"); no destination was made.
        SimIndexError: a source was compacted meanwhile, so that its snapshot has ended, and changed.
        ValueError: no sources, another `on_conflict`, or a destination inside of a source.

    >>> import simindex, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> for name in "ab":
    ...     with simindex.open(f"{folder.name}/{name}") as index:
    ...         index.insert(name, f"the text of {name}")
    >>> simindex.merge([f"{folder.name}/a", f"{folder.name}/b"], f"{folder.name}/both")
    InsertReport(inserted=2, replaced=0, skipped=0)
    >>> folder.cleanup()
    """
    require_callable("progress", progress)
    if isinstance(sources, str | bytes | os.PathLike):
        raise ArgumentTypeError("sources", "several folders", f"one, {sources!r}")
    require_conflict(on_conflict)
    counts = [0, 0, 0]
    with ExitStack() as stack:
        read = [stack.enter_context(opened(source)) for source in sources]
        if not read:
            raise ArgumentValueError("sources", "one index or more", "none")
        _require_alike(read)
        paths = [source.path for source in read]
        folder = place_of(destination, paths)
        session = stack.enter_context(making(folder, "merge", read[0].config, read[0].layout, paths))
        for source in read:
            for batch in source.batches():
                counts = list(map(add, counts, store_documents(session, batch, on_conflict)))
                if progress is not None:
                    progress(sum(counts))
    return InsertReport(*counts)


def _require_alike(sources: list[Source]) -> None:
    """Raise ConfigMismatchError where sources differ in their settings, or in what signatures are made of."""
    first, held = sources[0], 0
    for other in sources:
        differing = differing_fields(first.config, other.config)
        if differing:
            raise ConfigMismatchError(
                (
                    f"expected indexes of one configuration, found {first.path} and {other.path} with ",
                    both_values(differing),
                    "; sketches of other settings or seeds cannot be compared",
                ),
                differing,
            )
        require_alike(held, other.manifest.sources)
        held |= other.manifest.sources


def resketch(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    num_perm: int | None = None,
    simhash: SimHashConfig | Literal["stored"] | None = "stored",
    containment: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> int:
    """Make a new index with other settings from the sketches of an index, without its documents; the source
    is only read.

    The new index is equal to one of the same documents and those settings: fewer rows are the first of more,
    and a fingerprint is the same whatever tables it is kept in. Keys, metadata, times and kept shingles go
    over, in the order of insertion, and documents whose new sketches are equal share one. What cannot follow
    from a stored sketch is refused: more rows, fingerprints where there are none or of other shingles; other
    shingles of the signature and another seed cannot be asked for. Cost, snapshot and destination: as
    `simindex.merge`.

    Args:
        destination: a folder that does not exist or is empty.
        num_perm: MinHash rows, at most those that are stored; 0: no MinHash, and no kept shingles. ``None``:
            as stored.
        simhash: the distance up to which `query_simhash` is complete, and its blocks; ``None``: no SimHash.
            "stored": as it is.
        containment: one in so many shingles sampled, as many as are stored or fewer (a larger number); 0: no
            table for `query_containment`. ``None``: as stored, and 0 where there is no MinHash.
        progress: called as ``progress(done, total)`` with documents.

    Returns:
        The number of documents.

    Raises:
        ConfigMismatchError: a setting that stored sketches do not give; `fields` names it.
        FormatError: there is something at the destination.
        IndexLockedError: another process makes an index for the same destination.
        SimIndexError: the source was compacted and changed meanwhile, so that its snapshot has ended.
        ValueError: both methods switched off, a value out of range, a destination inside of the source, or a
            document that was brought in with nothing but the half that is to go.

    >>> import simindex, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with simindex.open(f"{folder.name}/all") as index:
    ...     index.insert("a", "the quick brown fox")
    >>> simindex.resketch(f"{folder.name}/all", f"{folder.name}/small", num_perm=64, simhash=None)
    1
    >>> with simindex.open(f"{folder.name}/small", "r") as small:
    ...     small.query("The quick brown fox!")[0].key
    'a'
    >>> folder.cleanup()
    """
    require_callable("progress", progress)
    done = 0
    with opened(source) as read:
        config = _config_of(read.config, num_perm, simhash, containment)
        folder = place_of(destination, [read.path])
        with making(folder, "resketch", config, read.layout, [read.path]) as session:
            for batch in read.batches():
                store_documents(session, _resketched(batch, config))
                done += len(batch)
                if progress is not None:
                    progress(done, read.manifest.num_documents)
    return done


def _config_of(
    stored: Config,
    num_perm: int | None,
    simhash: SimHashConfig | Literal["stored"] | None,
    containment: int | None,
) -> Config:
    """Return the settings of the new index, from the arguments of `resketch`. Raises ConfigMismatchError
    where they ask for more than stored sketches have, ValueError where they are out of range."""
    rows = stored.num_perm if num_perm is None else num_perm
    prints = stored.simhash if simhash == "stored" else simhash
    kept = stored.keep_shingles if rows else 0
    one_in = (stored.containment if rows else 0) if containment is None else containment
    wanted = replace(stored, num_perm=rows, simhash=prints, keep_shingles=kept, containment=one_in)
    if wanted.containment and not 0 < stored.containment <= wanted.containment:
        sampled = f"at least the {stored.containment}" if stored.containment else "0, for none are"
        raise ConfigMismatchError(
            f"containment: expected {sampled} stored, found {wanted.containment}; a finer sample needs the "
            "documents",
            {"containment": (stored.containment, wanted.containment)},
        )
    if wanted.num_perm > stored.num_perm:
        raise ConfigMismatchError(
            f"num_perm: expected at most the {stored.num_perm} rows that are stored, found "
            f"{wanted.num_perm}; more rows need the documents",
            {"num_perm": (stored.num_perm, wanted.num_perm)},
        )
    if wanted.simhash is None:
        return wanted
    if stored.simhash is None:
        raise ConfigMismatchError(
            f"simhash: expected None, for no fingerprints are stored, found {wanted.simhash}; "
            "they need the documents",
            {"simhash": (None, wanted.simhash)},
        )
    if wanted.simhash.shingles != stored.simhash.shingles:
        raise ConfigMismatchError(
            f"simhash.shingles: expected {stored.simhash.shingles}, which the stored fingerprints are made "
            f"of, found {wanted.simhash.shingles}; others need the documents",
            {"simhash": (stored.simhash, wanted.simhash)},
        )
    return wanted


def _resketched(documents: NewDocuments, config: Config) -> NewDocuments:
    """Return a copy of documents with sketches cut down to other settings: fewer rows, a coarser sample, one
    half alone. Raises ValueError where nothing is left of a sketch."""
    old = documents.sketches
    sketches = SketchBatch(len(old), config.num_perm, config.keep_shingles, None)
    halves = (HAS_SIGNATURE if config.num_perm else 0) | (HAS_FINGERPRINT if config.simhash else 0)
    sketches.present, sketches.kept = (
        old.present & np.uint8(halves),
        old.kept if config.keep_shingles else None,
    )
    if config.containment and old.samples is not None:
        sketches.samples = old.samples.coarser(config.containment)
    for index in np.flatnonzero((old.present > 0) & (sketches.present == 0)).tolist():
        half, option = (
            ("a fingerprint", "simhash")
            if old.present[index] == HAS_FINGERPRINT
            else ("MinHash rows", "num_perm")
        )
        raise ValueError(
            f"key {documents.key(index)!r:.80}: expected more than {half} of a document whose {option} is "
            "to go; it would be similar to nothing. Remove it first, or keep them"
        )
    sketches.sources = old.sources & (OF_DOCUMENTS | OF_ROWS if config.num_perm else OF_DOCUMENTS)
    sketches.words = np.ascontiguousarray(old.words[:, : config.bands])
    if config.num_perm:
        sketches.num_shingles = old.num_shingles
    if config.simhash:
        sketches.fingerprints = old.fingerprints
    return replace(documents, sketches=sketches)
