"""The header of an index: format version, features, configuration.

Invariant: magic, seal and version stay where and what they are, so that any version can refuse the files of
another. What a later version adds without changing what stands here (a kind of table, a way to code) it names
in the header; a reader that does not know the name refuses the index.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import Any, NamedTuple

from simindex.errors import CorruptIndexError, FormatError
from simindex.format.layout import KIND_NAMES, Layout, TableKind
from simindex.format.seals import pack, seal, unpack, unseal

MAGIC = "simindex"

FORMAT_VERSION = 2
"""Version of the file format. A reader refuses any other."""

CONFIG_KEY = b"config"

IDENTITY_BYTES = 16

FEATURES: tuple[str, ...] = ()
"""What a header can ask of a reader beyond this version of the format."""


class Header(NamedTuple):
    """What an index is.

    Attributes:
        blocks: of a fingerprint; 0 without SimHash.
        identity: 16 random bytes, drawn at creation, which the index's backups share.
    """

    layout: Layout
    blocks: int
    kinds: list[TableKind]
    config: dict[str, Any]
    identity: bytes


def encode_header(header: Header) -> bytes:
    """Return the sealed header."""
    layout, kinds = list(astuple(header.layout)), [list(kind) for kind in header.kinds]
    fields = [MAGIC, FORMAT_VERSION, FEATURES, layout, header.blocks, kinds, header.config, header.identity]
    return seal("meta", CONFIG_KEY, pack(fields))


def is_sealed_header(value: bytes | memoryview) -> bool:
    """Return whether a value is as it was written, whatever it says and to whichever version."""
    try:
        unseal("meta", CONFIG_KEY, value, "header")
    except CorruptIndexError:
        return False
    return True


def decode_header(value: bytes | memoryview, where: str) -> Header:
    """Return the header."""
    if MAGIC.encode() not in bytes(value[: len(MAGIC) + 8]):
        raise FormatError(f"{where}: expected a simindex header, found other data; not an index")
    fields = unpack(unseal("meta", CONFIG_KEY, value, "header"))
    if not isinstance(fields, list) or len(fields) < 2 or fields[0] != MAGIC:
        raise FormatError(f"{where}: expected a simindex header, found {fields!r:.100}; not an index")
    if fields[1] != FORMAT_VERSION:
        raise FormatError(
            f"{where}: expected format version {FORMAT_VERSION}, found {fields[1]!r:.20}; "
            "open it with the simindex version that wrote it, or upgrade simindex"
        )
    # The required version comes first: a later version may have made the fields behind it.
    features = fields[2] if len(fields) > 2 else None
    _require_known("features", features, FEATURES, where)
    try:
        _, _, _, layout, blocks, kinds, config, identity = fields
        _require_known("kinds of tables", [kind[0] for kind in kinds], KIND_NAMES, where)
        rows = [TableKind(name, first, n, tuple(widths), block) for name, first, n, widths, block in kinds]
        tier_factor, entries_per_chunk, chunk_bytes = layout
        cut = Layout(tier_factor, entries_per_chunk, chunk_bytes)
        header = Header(cut, blocks, rows, config, identity)
    except FormatError:
        raise
    except (TypeError, ValueError, LookupError) as exc:
        raise _strange(fields, where) from exc
    has_identity = type(identity) is bytes and len(identity) == IDENTITY_BYTES
    if type(blocks) is not int or not isinstance(config, dict) or not has_identity:
        raise _strange(fields, where)
    return header


def _require_known(what: str, found: object, known: tuple[str, ...], where: str) -> None:
    if not isinstance(found, list):
        raise FormatError(f"{where}: header: expected {what}, found {found!r:.100}")
    unknown = [name for name in found if name not in known]
    if unknown:
        raise FormatError(
            f"{where}: the index needs {what} that this version of simindex does not know: "
            f"{', '.join(map(str, unknown))}; upgrade simindex"
        )


def _strange(fields: object, where: str) -> FormatError:
    return FormatError(f"{where}: expected a header of format {FORMAT_VERSION}, found {fields!r:.300}")
