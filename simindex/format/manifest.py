"""The header and the manifest: what an index is, and which segments of it are live.

Owns the two sealed values that everything else is read by, magic and version among them. Must not choose a
configuration. Invariant: magic, seal and version stay where and what they are, so that any version can
refuse the files of another.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import Any, NamedTuple

from simindex.errors import FormatError
from simindex.format.layout import Layout, SegmentEntry
from simindex.format.seals import pack, seal, unpack, unseal

MAGIC = "simindex"

FORMAT_VERSION = 1
"""Version of the file format. A reader refuses any other."""

CONFIG_KEY, MANIFEST_KEY = b"config", b"manifest"


class Manifest(NamedTuple):
    """Which segments are live, and the counters. Replaced whole by every commit.

    Attributes:
        next_number: the number of the next document.
        next_segment: the id of the next segment.
        num_documents: stored documents.
        num_copies: stored documents that share the sketch of an earlier one.
        segments: live segments, oldest first.
    """

    next_number: int = 0
    next_segment: int = 0
    num_documents: int = 0
    num_copies: int = 0
    segments: tuple[SegmentEntry, ...] = ()


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the sealed manifest."""
    *counters, segments = manifest
    return seal(MANIFEST_KEY, pack([*counters, segments]))


def decode_manifest(value: bytes | memoryview) -> Manifest:
    """Return the manifest. Raises CorruptIndexError when its seal is broken."""
    *counters, segments = unpack(unseal(MANIFEST_KEY, value, "manifest"))
    return Manifest._make([*counters, tuple(SegmentEntry(*entry) for entry in segments)])


def encode_header(config: dict[str, Any], layout: Layout, blocks: int) -> bytes:
    """Return the sealed header: magic, format version, layout, blocks of a fingerprint, configuration."""
    return seal(CONFIG_KEY, pack([MAGIC, FORMAT_VERSION, list(astuple(layout)), blocks, config]))


def decode_header(value: bytes | memoryview, where: str) -> tuple[dict[str, Any], Layout, int]:
    """Return (stored configuration, layout, blocks of a fingerprint).

    Raises:
        FormatError: no simindex header, or one of another format version.
        CorruptIndexError: a header whose seal is broken.
    """
    if MAGIC.encode() not in bytes(value[: len(MAGIC) + 8]):
        raise FormatError(f"{where}: expected a simindex header, found other data; not an index")
    header = unpack(unseal(CONFIG_KEY, value, "header"))
    if header[1] != FORMAT_VERSION:
        raise FormatError(
            f"{where}: expected format version {FORMAT_VERSION}, found {header[1]!r}; "
            "open it with the simindex version that wrote it, or upgrade simindex"
        )
    _, _, layout, blocks, config = header
    return config, Layout(*layout), blocks
