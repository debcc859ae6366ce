"""`resketch`: an index of other settings from the sketches of one, without the documents.

Source: rows are drawn in order, so those of fewer rows are the first of more (docs/hashing.md, section 6).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from simindex.checks import require_callable
from simindex.config import Config, SimHashConfig
from simindex.errors import ConfigMismatchError
from simindex.maintenance.build_index import Saved, making, opened
from simindex.maintenance.work_folder import place_of
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE, OF_DOCUMENTS, OF_ROWS


def resketch(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    num_perm: int | None = None,
    simhash: SimHashConfig | Literal["stored"] | None = "stored",
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
        config = _config_of(read.config, num_perm, simhash)
        folder = place_of(destination, [read.path])
        sources = read.manifest.sources & (OF_DOCUMENTS | OF_ROWS if config.num_perm else OF_DOCUMENTS)
        with making(folder, "resketch", config, read.layout, sources) as builder:
            for batch in read.batches():
                builder.add([_resketched(saved, config) for saved in batch])
                done += len(batch)
                if progress is not None:
                    progress(done, read.manifest.num_documents)
    return done


def _config_of(
    stored: Config, num_perm: int | None, simhash: SimHashConfig | Literal["stored"] | None
) -> Config:
    """Return the settings of the new index. Raises as `resketch`."""
    rows = stored.num_perm if num_perm is None else num_perm
    prints = stored.simhash if simhash == "stored" else simhash
    kept = stored.keep_shingles if rows else 0
    wanted = replace(stored, num_perm=rows, simhash=prints, keep_shingles=kept)
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


def _resketched(saved: Saved, config: Config) -> Saved:
    """Return what is left of a sketch. Raises ValueError where nothing is."""
    record = saved.record
    present = record.present & (
        (HAS_SIGNATURE if config.num_perm else 0) | (HAS_FINGERPRINT if config.simhash else 0)
    )
    if record.present and not present:
        half, option = (
            ("a fingerprint", "simhash")
            if record.present == HAS_FINGERPRINT
            else ("MinHash rows", "num_perm")
        )
        raise ValueError(
            f"key {record.key!r:.80}: expected more than {half} of a document whose {option} is to go; it "
            "would be similar to nothing. Remove it first, or keep them"
        )
    words = None if saved.words is None else saved.words[: config.bands]
    return Saved(record._replace(present=present), words, saved.fingerprint)
