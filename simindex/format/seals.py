"""Seal values: msgpack, and a hash that binds a value to its database and key.

Invariant: a value that was changed, cut, put under another key or into another database is refused by
`unseal`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack  # type: ignore[import-untyped] # it carries no type information
import xxhash

from simindex.errors import CorruptIndexError, damaged

SEAL_BYTES = 8

SEAL_SEEDS = {"documents": 0, "meta": 1, "segments": 2, "removed": 3, "groups": 4, "ages": 5}
"""What the seals of each database are seeded with. A page of one database that comes to lie in the place of
another's brings keys that fit, so a seal has to tell the databases apart as well. Records, of which there are
most, have the seed that costs nothing."""

MAX_DEPTH = 1024
"""Arrays and maps inside one another that msgpack can read; it writes one more."""


_AS_DATETIME = 3
"""What msgpack calls reading timestamps as aware datetimes."""


def pack(value: object, default: Callable[[Any], object] | None = None) -> bytes:
    """Return the msgpack form of a value; surrogates in str are kept, aware datetimes become timestamps. For
    types that msgpack lacks `default` is asked; without it they are a TypeError, a naive datetime a
    ValueError, an integer beyond 64 bits an OverflowError."""
    packed = msgpack.packb(
        value, use_bin_type=True, unicode_errors="surrogatepass", datetime=True, default=default
    )
    return bytes(packed)


def unpack(data: bytes | memoryview) -> Any:
    """Return the value of a msgpack form; timestamps are datetimes in UTC, to the microsecond. Raises
    CorruptIndexError for other bytes, or where some are left."""
    try:
        return msgpack.unpackb(
            data, raw=False, strict_map_key=False, unicode_errors="surrogatepass", timestamp=_AS_DATETIME
        )
    # TypeError: a list as a key of a map; OverflowError: a timestamp that is no datetime.
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as exc:
        raise CorruptIndexError(f"expected a msgpack value, found {len(data)} other bytes") from exc


def seal(database: str, key: bytes, content: bytes | memoryview) -> bytes:
    """Return content followed by 8 bytes: the xxh64 of key and content, seeded by the database, in the
    canonical (big-endian) form."""
    digest = xxhash.xxh64(key, SEAL_SEEDS[database])
    digest.update(content)
    return b"".join((content, digest.digest()))


def unseal_many(database: str, items: list[tuple[bytes, bytes]], what: str) -> None:
    """Check many (key, sealed value) in half of the time of `unseal` for each; returns nothing. Raises
    CorruptIndexError for the first that does not fit its seal."""
    seed = SEAL_SEEDS[database]
    digests = [xxhash.xxh64_digest(key + value[:-SEAL_BYTES], seed) for key, value in items]
    if digests != [value[-SEAL_BYTES:] for _, value in items]:
        for key, value in items:
            unseal(database, key, value, f"{what} {key.hex():.80}")


def unseal(
    database: str, key: bytes, value: bytes | memoryview, what: str, segment: int | None = None
) -> memoryview:
    """Return the content of a sealed value, as a view. Raises CorruptIndexError where the seal does not fit;
    `what` and `segment` say in it what the value is."""
    view = memoryview(value)
    content = view[:-SEAL_BYTES]
    digest = xxhash.xxh64(key, SEAL_SEEDS[database])
    digest.update(content)
    if digest.digest() != view[-SEAL_BYTES:]:
        problem = f"{what}: expected a value that fits its seal, found {len(view)} damaged bytes"
        raise damaged(problem, segment=segment, key=key)
    return content
