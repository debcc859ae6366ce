"""`resketch`: an index of other settings from the sketches of one, without the documents.

Source: rows are drawn in order, so those of fewer rows are the first of more (docs/hashing.md, section 6).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from simindex.changes.documents import NewDocuments
from simindex.checks import require_callable
from simindex.config import Config, SimHashConfig
from simindex.errors import ConfigMismatchError
from simindex.maintenance.build_index import making, opened
from simindex.maintenance.work_folder import place_of
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE, OF_DOCUMENTS, OF_ROWS, SketchBatch


def resketch(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    num_perm: int | None = None,
    simhash: SimHashConfig | Literal["stored"] | None = "stored",
    containment: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> int:
    """Make a new index of other settings from the sketches of one, without the documents; it is only read.

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
        with making(folder, "resketch", config, read.layout) as builder:
            for batch in read.batches():
                builder.add(_resketched(batch, config))
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
    """Return the settings of the new index. Raises as `resketch`."""
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
    """Return documents with what is left of their sketches. Raises ValueError where nothing is."""
    old = documents.sketches
    sketches = SketchBatch(len(old), config.num_perm, config.keep_shingles > 0, None)
    halves = (HAS_SIGNATURE if config.num_perm else 0) | (HAS_FINGERPRINT if config.simhash else 0)
    sketches.present, sketches.kept = (
        old.present & np.uint8(halves),
        old.kept if config.keep_shingles else None,
    )
    if config.containment and old.samples is not None:
        sketches.samples = old.samples.coarser(config.containment)
    for place in np.flatnonzero((old.present > 0) & (sketches.present == 0)).tolist():
        half, option = (
            ("a fingerprint", "simhash")
            if old.present[place] == HAS_FINGERPRINT
            else ("MinHash rows", "num_perm")
        )
        raise ValueError(
            f"key {documents.keys[place]!r:.80}: expected more than {half} of a document whose {option} is "
            "to go; it would be similar to nothing. Remove it first, or keep them"
        )
    sketches.sources = old.sources & (OF_DOCUMENTS | OF_ROWS if config.num_perm else OF_DOCUMENTS)
    sketches.words = np.ascontiguousarray(old.words[:, : config.bands])
    if config.simhash:
        sketches.fingerprints = old.fingerprints
    return replace(documents, sketches=sketches)
